#!/bin/bash
# What people bring in their first hour, and what they read of it: texts in other encodings, tokenizers of another form,
# a preset with another vocabulary, files cut short. usage: first_inputs.sh DROVER
. "$(dirname "$0")"/story.bash
make_data
build() { "$drover" data build --tokenizer tok --out "$@"; }

# --- the file with bytes that are no UTF-8 is named, once; broken lines say what they are
printf 'caf\351 au lait' >latin1.txt
for i in 1 2 3; do printf '\n---\nna\357ve, d\351j\340 vu'; done >>latin1.txt
expect 0 "replaced 10 invalid byte sequences" build latin1 --input latin1.txt --separator '\n---\n'
says "warning: latin1.txt:1: not UTF-8: 1 invalid byte sequence, read as U+FFFD"
check "once for the file" [ "$(grep -c 'not UTF-8' out)" = 1 ]
printf '{"text": "a"}\n\0\0\0\0\n{"txt": "b"}\n[1]\n' >broken.jsonl
expect 0 "1 document, 1 tokens" build broken --input broken.jsonl
says "broken.jsonl:2: NUL bytes, expected an object" 'broken.jsonl:3: "text": has no such key' \
    "broken.jsonl:4: expected an object" "skipped 3 records"
# A file of another key: one warning for it with its keys; it is refused only where it was named by its path.
mkdir many && printf '{"text": "a"}\n' >many/a.jsonl
for i in $(seq 12); do echo '{"id": 1, "body": "b"}'; done | tee other.jsonl >many/b.jsonl
expect 0 "1 document, 1 tokens" build many-set --input many
says 'skipped: many/b.jsonl:1: "text": has no such key; it has "id", "body"; --json-key NAME takes another' "skipped 12 records"
check "one warning" [ "$(grep -c 'no such key' out)" = 1 ]
expect 2 "other.jsonl: no usable record: 12 skipped, for the reason above; leave the file out" build none --input many/a.jsonl other.jsonl
check "no set without it" [ ! -e none.bin ]
expect 2 "other.jsonl: no usable record: 12 skipped" build none --input other.jsonl many/a.jsonl
expect 2 "other.jsonl: no document in it: all records were skipped" build none --input other.jsonl
: >empty.jsonl
expect 0 "1 document, 1 tokens" build with-empty --input empty.jsonl many/a.jsonl

# --- what is piped into encode
printf 'the fox' | "$drover" tokenizer encode --tokenizer tok >plain
check "gzip is unpacked" eval "printf 'the fox' | gzip | '$drover' tokenizer encode --tokenizer tok 2>out | cmp - plain"
says "standard input: text, gzip"
check "JSON lines are as they are" eval "echo '{\"text\": 1}' | '$drover' tokenizer encode --tokenizer tok 2>out >ids"
says "standard input: JSON lines, taken as they are; --json-key"

# --- folders with a tokenizer of another form
mkdir sp spiece none wordpiece && touch sp/tokenizer.model wordpiece/vocab.json && echo hello >spiece/m.model
expect 1 'sp/tokenizer.model: a model of sentencepiece without pieces' "$drover" tokenizer encode --tokenizer sp
expect 1 'spiece/m.model: not a model of sentencepiece: byte ' "$drover" tokenizer encode --tokenizer spiece
expect 1 'no tokenizer.json, but vocab.json: transformers makes one' "$drover" tokenizer encode --tokenizer wordpiece
expect 1 '"none" has no tokenizer.json' "$drover" tokenizer encode --tokenizer none

# --- the key that named the thing
sed 's/^tokenizer: .*/tokenizer: none/' run.yaml >none.yaml
expect 1 'none.yaml:2: tokenizer: "none" has no tokenizer.json' "$drover" train none.yaml
expect 2 'run.yaml:2: tokenizer: "tok" has 400 tokens, more than model.vocab_size 300; expected model.vocab_size: 400 or more' \
    "$drover" train run.yaml --set model.vocab_size=300

# --- a preset with a larger vocabulary, next to nothing to validate on: remarks, once
expect 0 "model.vocab_size is 5000, but the tokenizer has 400 tokens: 294.40 k parameters" \
    "$drover" train run.yaml --set model.vocab_size=5000 --set run_dir=idle --set training.steps=1
expect 0 "to validate on, so the loss is not reliable" "$drover" train run.yaml --set run_dir=few \
    --set data.split=[2999,1,0] --set training.steps=2 --set training.eval_every=1
check "once" [ "$(grep -c 'to validate on' out)" = 1 ]
check "1e-5 is written as 1e-5" grep -qx '  "rms_norm_eps": 1e-5,' few/checkpoints/step-000002/config.json

# --- indices that are cut short, documents that are not there
head -c 30 data/set.idx >data/cut.idx && cp data/set.bin data/cut.bin
expect 1 "data/cut.idx: 30 bytes long, cut short: expected 34 or more" "$drover" data info data/cut
: >data/cut.idx
expect 1 "data/cut.idx: 0 bytes long, cut short" "$drover" data info data/cut
expect 2 'broken: 1 document, counted from 0: data show: --document is "5", expected 0' \
    "$drover" data show broken --document 5
finish
