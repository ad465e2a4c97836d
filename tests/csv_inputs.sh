#!/bin/bash
# CSV and TSV as inputs of `drover data build`, against what Python's csv writes; folders of sources, many files, and
# what is said of inputs that need an option. usage: csv_inputs.sh DROVER
. "$(dirname "$0")"/story.bash
make_data
build() { "$drover" data build --tokenizer tok --out "$@"; }
same_set() { cmp "$1".bin "$2".bin && cmp "$1".idx "$2".idx; }

# --- the same documents as JSON lines, in every way in which they can be written
python3 - <<'PY'
import csv, json, random
random.seed(5)
parts = ["fox", " ", ",", '"', "\n", "\r\n", "\t", ";", "lazy hens", "é", "'", "\\", '""', "= 1"]
texts = ["".join(random.choices(parts, k=random.randrange(1, 9))) for _ in range(400)] + ['"', "a", ",", '"quoted"', "x" * 300000]
texts = [t for t in texts if t.strip("\r\n")]
open("rows.jsonl", "w").write("".join(json.dumps({"text": t}) + "\n" for t in texts))
for name, mark, options in [("minimal.csv", "", {}), ("all.csv", "\ufeff", {"quoting": csv.QUOTE_ALL}), ("lf.csv", "", {"lineterminator": "\n"}),
                            ("rows.tsv", "", {"dialect": "excel-tab"})]:
    with open(name, "w", newline="", encoding="utf-8") as f:
        f.write(mark)
        w = csv.writer(f, **options)
        w.writerow(["text", "id, of it"])
        for i, t in enumerate(texts):
            w.writerow([t, i])
PY
expect 0 "skipped 0 records" build want --input rows.jsonl
for file in minimal.csv all.csv lf.csv rows.tsv; do
    expect 0 "skipped 0 records" build got --input $file
    check "$file" same_set got want
done
gzip -k minimal.csv
expect 0 "" build got --input minimal.csv.gz
check "packed" same_set got want
for file in minimal.csv rows.tsv; do
    "$drover" data build --tokenizer tok --out got --input - --text-column text <$file >out 2>&1
    check "$file by a pipe" same_set got want
done
mkdir tables && cp minimal.csv tables/ && sed '1s/text/Body/' minimal.csv >body.csv
expect 0 "" build got --input tables --text-column text
check "those of a folder" same_set got want
expect 0 "" build got --input body.csv --text-column Body
check "another column" same_set got want

# --- rows that are broken are named and skipped; a file without the column is refused with those that it has
printf 'id,text\n1,one\n2\n3,"three" and,more\n4,four,more\n5,"five\nlines"\n' >broken.csv
expect 0 "2 documents" build broken --input broken.csv
says "broken.csv:3: fewer fields than the header row has" "broken.csv:4: more text behind a closing quote" \
    "broken.csv:5: more fields than the header row has" "skipped 3 records"
expect 2 "broken.csv:3: fewer fields" build strict --strict --input broken.csv
printf '\357\273\277"text\nof it",id\r\n\r\n"two\n\nlines",1\r\nfew\r\n\r\n"a ""b""\n",2,3\r\n' >lines.csv # the line in the file
expect 0 "1 document" build lines --input lines.csv --text-column $'text\nof it'
says "lines.csv:7: fewer fields" "lines.csv:9: more fields"
printf 'text\nfine\n"never closed\nmore\n' >open.csv
expect 0 "open.csv:3: a quote is not closed before the end of the file" build open --input open.csv
expect 2 'broken.csv: no column "body" in its header row, which has "id", "text"; --text-column' build no --input broken.csv --text-column body
printf 'text,text\na,b\n' >twice.csv
expect 2 'twice.csv: its header row has two columns "text"' build no --input twice.csv
: >empty.csv
expect 2 "empty.csv: the file is empty, expected a header row" build no --input empty.csv
printf 'text\n' >header.csv
expect 2 "header.csv: no document in it" build no --input header.csv
printf '\377\376t\0e\0' >wide.csv
expect 2 "is UTF-16, expected UTF-8" build no --input wide.csv

# --- conversations: the same as of JSON
cat >talk.jsonl <<'JSON'
{"prompt": "the fox, \"and\"", "response": "lazy\nhens"}
{"prompt": "a dog", "response": "tells, of 2"}
JSON
printf 'id,prompt,response\r\n7,"the fox, ""and""","lazy\nhens"\r\n8,a dog,"tells, of 2"\r\n' >talk.csv
expect 0 "2 documents" build talk --sft --template alpaca --input talk.jsonl
expect 0 "2 documents" build table --sft --template alpaca --input talk.csv
check "conversations of a table" same_set talk table
check "and their answers" cmp talk.roles table.roles
expect 2 'broken.csv: no column of a conversation in its header row, which has "id", "text"; expected prompt and response' \
    build no --sft --template alpaca --input broken.csv

# --- what needs an option says which
expect 2 'talk.jsonl:1: "text": has no such key; it has "prompt", "response"; drover data build --sft' build no --input talk.jsonl
says "talk.jsonl: no document in it: all records were skipped"
printf '{"id": 1, "body": "x"}\n' >other.jsonl
expect 2 '"text": has no such key; it has "id", "body"' build no --input other.jsonl
check "no word of conversations" eval '! grep -q sft out'
mkdir -p src/deep && for i in $(seq 345); do echo "print($i)" >src/file$i.py; done && mv src/file9*.py src/deep/ && touch src/notes
expect 2 "in \"src\"; it has 345 .py: --ending py takes them as texts, and so does a pattern in quotes: 'src/*.py'" build no --input src
expect 0 "345 documents" build sources --input src --ending py
expect 0 "345 documents" build sources2 --input src --ending .py c
expect 0 "documents" build one --input src/*.py
check "hundreds of files by the shell's pattern" test "$("$drover" data info one 2>&1 | grep -c "$(ls src/*.py | wc -l)")" -ge 1
expect 2 'it has 1 .csv: --text-column NAME takes a column of them' build no --input tables
expect 2 "--sft and --text-column exclude each other" build no --sft --text-column x --input talk.csv

# --- text where a data set is expected
for what in text.txt src; do
    expect 1 "\"$what\" is not a data set, expected the prefix of one; to make one from a text or token ids: drover data build --input $what --tokenizer DIR --out PREFIX" \
        "$drover" train run.yaml --set data.train=$what --set run_dir=never
done
expect 1 "could not open \"nowhere.idx\"" "$drover" train run.yaml --set data.train=nowhere --set run_dir=never
finish
