#!/usr/bin/env bash
# A build that is killed resumes after the files that were done, and gives the same bytes.
# usage: resume_build.sh DROVER
set -u
. "$(dirname "$0")"/program.bash
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
python3 - <<'PY'
import json, random
rng = random.Random(1)
words = "the cat and the dog sat on a mat while seven hens ran to town".split()
for name, lines in (("a", 9000), ("b", 9000), ("c", 150000)):
    with open(name + ".jsonl", "w") as f:
        for i in range(lines):
            f.write("broken\n" if i % 5000 == 7 else json.dumps(dict(text=" ".join(rng.choices(words, k=50)))) + "\n")
PY
"$drover" tokenizer train --input a.jsonl --vocab-size 300 --out tok 2>/dev/null || exit 1
command=("$drover" data build --input '[abc].jsonl' --tokenizer tok --append-eod)
build() { "${command[@]}" --out "$1" 2>"$1.log"; }
failed=0
fail() { echo "FAILED: $1"; failed=1; tail -n 3 ./*.log; }
build whole || fail "the build that is not killed"
for try in $(seq 20); do # on a busy machine a build may be past its last file before it is seen
    rm -f set.*
    "${command[@]}" --out set 2>set.log & # not by the function: $! is the build itself, and wait its end
    until [ -e set.build.json ] || ! kill -0 $! 2>/dev/null; do sleep 0.005; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    [ -e set.idx ] || grep -Eq '"files": *3' set.build.json || break # killed in time
done
[ -e set.idx ] && fail "nothing is in place before the end"
[ -e set.build.json ] || fail "there is no journal to resume from"
build set || fail "the build that resumes"
grep -q "resumed after file [12] of 3" set.log || fail "it does not say that it resumes"
cmp set.bin whole.bin && cmp set.idx whole.idx || fail "the bytes are others"
[ "$(grep -o 'skipped .*' set.log | tail -1)" = "$(grep -o 'skipped .*' whole.log | tail -1)" ] || fail "other counts"
[ -z "$(ls set.*tmp set.build.json 2>/dev/null)" ] || fail "something is left over"
[ $failed = 0 ] && echo "passed"
exit $failed
