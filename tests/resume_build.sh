#!/usr/bin/env bash
# A build that is killed resumes after the files that were done, and gives the same bytes; killed or failed at any event while it
# replaces a set, it leaves the old set, the new one, or what the next build replaces.
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

head -n 40 b.jsonl | sed '8d; s/.*: \(.*\)}/{"prompt": "who?", "response": \1}/' >chat.jsonl
echo '{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}' >chat.jinja
chat=("$drover" data build --sft --input chat.jsonl --tokenizer tok --template chat.jinja --out now/over)
mkdir new old now
expect 0 "39 documents" "${preload[@]}" EVENTS="$dir/events" "${chat[@]}"
mv now/over.* new
expect 0 "8998 documents" "$drover" data build --input c.jsonl --tokenizer tok --out now/over
mv now/over.* old
n=$(grep -c over events) gone=$(grep over events | grep -n 'remove .*over.idx$' | cut -d: -f1)
for how in kill fail; do
    for ((i = 1; i <= n; i++)); do
        rm now/over.* 2>rm.txt
        cp old/over.* now
        "${preload[@]}" AT_EVENT="$how before $i *over*" "${chat[@]}" >out 2>&1
        [ ! -e now/over.idx ] || expect 0 "" "$drover" data verify now/over
        [ $i -ge "$gone" ] || for file in old/*; do check "$how before event $i of $n: ${file#old/} of before is not there" cmp -s $file now/${file#old/}; done
        expect 0 "39 documents" "${chat[@]}"
        check "$how before event $i of $n: the next build leaves $(diff -rq new now)" diff -rq new now >diff.txt
    done
done 2>killed.txt # bash says each time that it was
check "there are $n events, the set of before goes at $gone" [ "$n" -gt 25 -a "$gone" -gt 10 ]
finish
