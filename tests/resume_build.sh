#!/usr/bin/env bash
# A build that is killed resumes after the files that were done, and gives the same bytes.
# usage: resume_build.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
python3 - <<'PY'
import json, random
rng = random.Random(1)
words = "the cat and the dog sat on a mat while seven hens ran to town".split()
for name in "abc":
    with open(name + ".jsonl", "w") as f:
        for i in range(9000):
            f.write("broken\n" if i % 5000 == 7 else json.dumps(dict(text=" ".join(rng.choices(words, k=50)))) + "\n")
PY
expect 0 "298 tokens" "$drover" tokenizer train --input a.jsonl --vocab-size 298 --out tok
command=("$drover" data build --input '[abc].jsonl' --tokenizer tok --append-eod)
expect 0 "skipped 6 records" "${command[@]}" --out whole
"${preload[@]}" AT_EVENT="kill after 1 rename *set.build.json" "${command[@]}" --out set >out 2>&1
code=$?
check "killed once its journal is written, it exits $code instead of 137" [ $code = 137 ]
check "nothing is in place before the end" [ ! -e set.idx ]
expect 0 "resumed after file" "${command[@]}" --out set
says "skipped 6 records"
check "the bytes are others" cmp set.bin whole.bin
check "the documents are others" cmp set.idx whole.idx
check "something is left over" [ -z "$(ls set.*tmp set.build.json 2>/dev/null)" ]
finish
