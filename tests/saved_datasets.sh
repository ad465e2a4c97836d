#!/bin/bash
# Data that Hugging Face datasets has saved: folders of text, of token ids, of ids with labels, and what is refused of
# them. usage: saved_datasets.sh DROVER
golden=$(dirname "$(realpath "$0")")/golden/arrow
. "$(dirname "$0")"/story.bash
make_data
build() { "$drover" data build --tokenizer tok --out "$@"; }
same_set() { cmp "$1.bin" "$2.bin" && cmp "$1.idx" "$2.idx"; }

# --- a folder of text is what its rows are; what lies beside the shards is not of the data
cp -r "$golden"/saved_text text
cp text/data-00000-of-00003.arrow text/cache-0123.arrow
expect 0 "63 documents" build text_set --input text
says "skipped 2 records" "text/data-00000-of-00003.arrow:3: is null"
expect 0 "63 documents" build rows_set --input "$golden"/saved_text.jsonl
check "the same set" same_set text_set rows_set
check "on standard input, by content" eval "'$drover' data build --tokenizer tok --out piped --input - <'$golden'/text_zstd.arrow 2>out"
check "a column by name" build named --input text --json-key text
expect 2 'no column "body" of text, nor "input_ids" of lists of integers; it has "text" (text), "n" (integers)' \
    build x --input text --json-key body
expect 0 "" "$drover" tokenizer train --input text --vocab-size 300 --out from_arrow

# --- lists of ids are documents as they are
expect 0 "40 documents" build ids_set --input "$golden"/saved_ids
check "each id at its place" python3 - "$golden"/saved_ids.jsonl ids_set.bin <<'END'
import json, struct, sys
ids = [i for line in open(sys.argv[1]) for i in json.loads(line)["input_ids"]]
got = open(sys.argv[2], "rb").read()
assert struct.unpack(f"<{len(ids)}H", got) == tuple(ids), (len(ids), len(got))
END
expect 0 "80 documents" build twice --input "$golden"/saved_ids "$golden"/ids_i64.arrow
(printf 'ARROW1\0\0' && cat "$golden"/ids_i64.arrow && printf 'a footer, which is not read') >file.arrow
expect 0 "2 documents" build cut_set --input file.arrow --cut-after 0 # the last document does not end with it
expect 0 "" build rows_of_ids --input "$golden"/ids_i64.arrow
check "all ids" cmp cut_set.bin rows_of_ids.bin

# --- a build that ended early, as the third file is broken, is resumed only by one of the same kind
for i in 1 2 3; do cp "$golden"/../parquet/many.parquet early$i.parquet; done
truncate -s 100 early3.parquet
expect 2 "early3.parquet" build early --sft --input 'early?.parquet'
check "a journal and roles stay" [ -e early.build.json -a -e early.roles.drover-tmp ]
expect 2 "early.build.json: belongs to another build" build early --input 'early?.parquet'
check "the roles are gone" [ ! -e early.roles.drover-tmp ]
check "the other build has a journal of its own" [ -e early.build.json ]

# --- a token after each of them that does not end with it
last=$(python3 -c 'import json, sys; print(next(r[-1] for l in open(sys.argv[1]) if (r := json.loads(l)["input_ids"])))' "$golden"/saved_ids.jsonl)
expect 0 "40 documents" build ended --input "$golden"/saved_ids --eod "$last"
check "each row is ended once" python3 - "$golden"/saved_ids.jsonl ended.bin "$last" <<'END'
import json, struct, sys
rows, eod = [json.loads(line)["input_ids"] for line in open(sys.argv[1])], int(sys.argv[3])
ids = [i for r in rows for i in (r if r[-1:] == [eod] else r + [eod])]
got = open(sys.argv[2], "rb").read()
assert struct.unpack(f"<{len(got) // 2}H", got) == tuple(ids), (len(ids), len(got))
END

# --- a tokenizer with fewer tokens than the ids want stops the build
cp -r tok small && python3 - <<'END'
import json
t = json.load(open("small/tokenizer.json"))
t["model"]["merges"], t["model"]["vocab"] = [], {k: v for k, v in t["model"]["vocab"].items() if v < 200}
t["added_tokens"] = []
json.dump(t, open("small/tokenizer.json", "w"))
END
expect 2 "expected below" "$drover" data build --tokenizer small --out x --input "$golden"/saved_ids

# --- labels are roles: no chat template is needed, padding is left out
expect 0 "3 documents" build hub_set --sft --input "$golden"/../parquet/labels.parquet
says "attention_mask is 0" "labels.parquet:3: has a label that is neither its id nor -100"
expect 0 "5 documents" build sft_set --sft --input "$golden"/saved_labels
says "attention_mask is 0"
check "ids, and which of them have labels" python3 - "$golden"/saved_labels.jsonl sft_set <<'END'
import json, struct, sys
ids, learned = [], []
for line in open(sys.argv[1]):
    r = json.loads(line)
    keep = [k for k, m in enumerate(r["attention_mask"]) if m]
    ids += [r["input_ids"][k] for k in keep]
    learned += [r["labels"][k] != -100 for k in keep]
assert struct.unpack(f"<{len(ids)}H", open(sys.argv[2] + ".bin", "rb").read()) == tuple(ids)
roles = open(sys.argv[2] + ".roles", "rb").read()
assert [r != 0 for r in roles] == learned, (roles, learned)
END
expect 0 "" "$drover" data verify sft_set
expect 0 "" "$drover" data info sft_set
expect 2 '--template has no effect on token ids with labels' build x --sft --template alpaca --input "$golden"/saved_labels
expect 2 '(messages, ' build x --sft --input "$golden"/saved_ids
says 'nor lists of integers named "input_ids" and "labels"'

# --- folders that cannot be read in one way alone
mkdir dict && echo '{"splits": ["train", "test"]}' >dict/dataset_dict.json && cp -r text dict/train
expect 2 '"dict" holds the splits train, test of a data set, expected the folder of one of them' build x --input dict
expect 0 "63 documents" build split --input dict/train
rm text/data-00002-of-00003.arrow
expect 2 'text/state.json names "data-00002-of-00003.arrow", which is not there' build x --input text
echo '{"_data_files": [{"filename": "../x.arrow"}]}' >text/state.json
expect 2 'entry 0 of _data_files has no filename' build x --input text
echo '{"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}' >text/state.json
expect 2 'rows that are chosen by indices' build x --input text
head -c 700 "$golden"/text_plain.arrow >cut.arrow
expect 2 'cut.arrow: ' build x --input cut.arrow
gzip -k cut.arrow
expect 2 'a packed Arrow file; unpack it first' build x --input cut.arrow.gz
finish
