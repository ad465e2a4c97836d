#!/bin/bash
# Data sets of other trainers as inputs: token ids of llm.c, OLMo and MosaicML, samples of MosaicML and WebDataset; what is
# refused of them. usage: shard_inputs.sh DROVER
golden=$(dirname "$(realpath "$0")")/golden/shards
. "$(dirname "$0")"/story.bash
make_data # the tokenizer has 400 tokens, of which 0 is <|endoftext|>
build() { "$drover" data build --tokenizer tok --out "$@"; }

# --- ids as they are, a document at each token that begins or ends one
python3 - <<'END'
import random, struct
rng = random.Random(1)
docs = [[rng.randrange(1, 400) for _ in range(rng.randrange(1, 90))] for _ in range(30)]
def write(name, magic, version, kind, ids):
    with open(name, "wb") as f:
        f.write(struct.pack("<256i", magic, version, len(ids), *[0] * 253))
        f.write(struct.pack(f"<{len(ids)}{kind}", *ids))
before = [i for d in docs for i in [0] + d]
after = [i for d in docs for i in d + [0]]
write("a.bin", 20240520, 1, "H", before)
write("b.bin", 20240801, 7, "I", before)
write("cut7.bin", 20240520, 1, "H", [7 if i == 0 else 8 if i == 7 else i for i in before])
open("after.npy", "wb").write(struct.pack(f"<{len(after)}H", *after))
open("wide.npy", "wb").write(struct.pack(f"<{len(after)}I", *after))
open("before.ids", "wb").write(struct.pack(f"<{len(before)}H", *before))
open("after.ids", "wb").write(struct.pack(f"<{len(after)}H", *after))
write("hollow.bin", 20240520, 1, "H", [])
write("beyond.bin", 20240520, 1, "H", [0, 5, 6, 0, 5, 6, 7, 400, 3])
END
expect 0 "30 documents" build set --input a.bin
check "the ids of the file" cmp set.bin before.ids
expect 0 "0 " "$drover" data show set --document 29
expect 0 "" "$drover" data verify set
expect 0 "60 documents" build two --input '?.bin'
expect 0 "30 documents" build set --input after.npy
check "the ids of the array" cmp set.bin after.ids
expect 0 "30 documents" build set --input wide.npy --token-type uint32
check "the ids of the wide array" cmp set.bin after.ids
mkfifo pipe.npy # which can be opened only once
timeout 60 sh -c 'cat wide.npy >pipe.npy' &
expect 0 "30 documents" timeout 60 "$drover" data build --tokenizer tok --out piped --input pipe.npy --token-type uint32
check "the ids from a pipe" cmp piped.bin after.ids
wait
expect 0 "30 documents" build set --input cut7.bin --cut-before 7
expect 0 "30 documents" build set --input a.bin --cut-before '<|endoftext|>'
expect 1 'to make one from a text or token ids: drover data build --input a.bin' "$drover" train run.yaml --set data.train=a.bin
expect 0 "60 documents" build set --input a.bin hollow.bin b.bin
gzip -k a.bin after.npy
expect 0 "60 documents" build set --input a.bin.gz after.npy.gz
rm set.*

# --- samples
expect 0 "41 documents" build set --input "$golden"/mds_zstd
expect 0 "9 documents" build set --input "$golden"/wds_packed.tar.gz
mkdir splits && cp -r "$golden"/mds_text splits/train && cp -r "$golden"/mds_gz splits/val
expect 0 "41 documents" build set --input splits
says "the split train alone is read, 3 files; left out: 1 of validation"
expect 0 "" "$drover" tokenizer train --input "$golden"/mds_text "$golden"/wds_txt.tar --vocab-size 300 --out from_samples
expect 0 "5 documents" build set --sft --template alpaca --input "$golden"/mds_chat
rm set.*

# --- refused in one line, and nothing is written
refuses() { # TEXT ARGUMENTS...
    local text=$1
    shift
    expect 2 "$text" build set "$@"
    check "one line: $*" [ "$(grep -c '^drover: ' out)" = 1 ]
    check "nothing is left of: $*" [ -z "$(echo set.*)" ]
}
shopt -s nullglob
refuses "beyond.bin:2: token 4 is id 400, expected below 400, the tokens of tok/tokenizer.json" --input beyond.bin
refuses "hollow.bin: no document in it" --input hollow.bin
head -c 1500 a.bin >short.bin
refuses "short.bin: 1500 bytes long, which is 238 tokens of 2 bytes, but its header says" --input short.bin
head -c 1500 a.bin | gzip >short.bin.gz
refuses "short.bin.gz: holds 238 tokens, but its header says" --input short.bin.gz
refuses "wide.npy: as uint16 every second token is 0" --input wide.npy
"$drover" data build --input after.npy --tokenizer tok --out mega 2>out
refuses "mega.bin: begins with" --input mega.bin
says "with its .idx it is a data set already"
refuses "a.bin\": --append-eod and --eod are for texts and lists of ids" --input a.bin --append-eod
refuses "exclude each other" --input a.bin --cut-before 0 --append-eod
refuses "--token-type is \"float\"" --input a.bin --token-type float
mkdir only && cp a.bin b.bin only
refuses "it has 2 .bin: a pattern in quotes names them: 'only/*.bin'" --input only
expect 0 "60 documents" build set --input 'only/*.bin'
expect 2 "token ids, expected text" "$drover" tokenizer train --input a.bin --vocab-size 300 --out x
finish
