#!/bin/bash
# Multiple choice as a user runs it: both accuracies, as a line and as JSON, what is cut said; lines that are not records
# named one by one; Ctrl-C with what was scored; no memory, another context, options that exclude each other.
# usage: eval_choices.sh DROVER
tests=$(realpath "$(dirname "$0")")
golden=$tests/golden/choices
. "$(dirname "$0")"/story.bash
field() { grep -o "\"$1\": [^,}]*" out | cut -d' ' -f2; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }'; }

# --- the records of the golden values: how many are right stands in scores.txt (columns 3 and 4, with special tokens)
expect 0 "records 9" "$drover" eval $golden --choices $golden/records.jsonl
says "acc 0." "acc_norm 0." "2 choices are longer than the model's context"
expect 0 '"complete": true' "$drover" eval $golden --choices $golden/records.jsonl --json
right() { awk -v k="$1" -v s="$2" '$1 == s { n += $k; all++ } END { print n / all }' $golden/scores.txt; }
check "acc is not that of the golden scores" near "$(field acc)" "$(right 3 1)"
check "acc_norm is not that of the golden scores" near "$(field acc_norm)" "$(right 4 1)"
check "records" [ "$(field records)" = 9 ]
expect 0 '"acc"' "$drover" eval $golden --choices $golden/records.jsonl --json --no-bos
check "acc without special tokens" near "$(field acc)" "$(right 3 0)"
expect 0 '"acc"' "$drover" eval $golden --choices $golden/records.jsonl --json --precision bf16

# --- of two choices that are the same one is scored and the first taken, wherever they would lie in a row
python3 - >twice.jsonl <<'PY'
import json
for i in range(40):
    print(json.dumps({"context": "A man " * (i % 13) + "sings", "choices": ["Zz qX", "a song", "a song"], "gold": 1 + i % 2}))
PY
expect 0 '"acc": 0.5,' "$drover" eval $golden --choices twice.jsonl --json
tokens=$(grep -o '[0-9]* tokens in' out)
sed 's/, "a song"]/]/; s/"gold": 2/"gold": 1/' twice.jsonl >once.jsonl
expect 0 "$tokens" "$drover" eval $golden --choices once.jsonl --json
check "twice scores what once does" [ -n "$tokens" ]

# --- a context is read once, however many choices it has
python3 - <<'PY'
import json
for name, n in (("two", 2), ("twelve", 12)):
    with open(name + ".jsonl", "w") as f:
        for i in range(6):
            print(json.dumps({"context": f"{i} A man fills a tub." * 4, "choices": [chr(97 + k) for k in range(n)], "gold": 1}), file=f)
PY
tokens_of() { "$drover" eval $golden --choices "$1" 2>&1 | grep -o '[0-9]* tokens in' | cut -d' ' -f1; }
check "two choices read $(tokens_of two.jsonl) tokens, twelve $(tokens_of twelve.jsonl)" \
    [ "$(tokens_of twelve.jsonl)" -le $(($(tokens_of two.jsonl) + 6 * 10 * 2)) ]

# --- lines that are not records
printf '%s\n' '{"context": "a", "choices": ["a", "b"], "gold": 1}' '{"context": "a"' '' '{"context": "a", "choices": ["a"], "gold": 0}' >bad.jsonl
expect 1 "bad.jsonl: 2 of 3 lines are not records" "$drover" eval $golden --choices bad.jsonl
says "bad.jsonl:2: not valid JSON" 'bad.jsonl:4: "choices" is a list of fewer than 2'
sed -i 2d bad.jsonl
expect 1 'bad.jsonl:3: "choices" is a list of fewer than 2' "$drover" eval $golden --choices bad.jsonl
check "one bad line is said once" [ "$(wc -l <out)" = 1 ]
expect 1 "No such file" "$drover" eval $golden --choices nowhere.jsonl
python3 - >long.jsonl <<'PY'
import json
print(json.dumps({"context": "The dog", "choices": ["sings " * 90, "a cat"], "gold": 1}))
PY
expect 1 "long.jsonl:1: choice 0: it has" "$drover" eval $golden --choices long.jsonl

# --- options
expect 2 "exclude each other" "$drover" eval $golden --choices bad.jsonl --data set
expect 2 "exclude each other" "$drover" eval $golden --choices bad.jsonl --stride 4
expect 2 "--separator needs --text" "$drover" eval $golden --choices bad.jsonl --separator x
expect 2 "expected bf16, fp32 or blocks" "$drover" eval $golden --choices $golden/records.jsonl --precision f16

# --- Ctrl-C: what was scored is printed, and that it is not all. Scoring takes 15 s alone, the signal comes as soon
# as the first line is drawn
python3 -c 'import sys; sys.stdout.write(open(sys.argv[1]).read() * 20000)' $golden/records.jsonl >many.jsonl
if interrupted_eval "scoring: [1-9]" $golden --choices many.jsonl --json; then
    says "SIGINT while scoring"
    check "nothing was scored" [ "$(field records)" -gt 0 -a "$(field records)" -lt 180000 ]
fi

# --- memory is looked at before weights are read: this folder has none
mkdir huge
cp $golden/tokenizer* huge
sed 's/"hidden_size": [0-9]*/"hidden_size": 65536/; s/"intermediate_size": [0-9]*/"intermediate_size": 262144/' $golden/config.json |
    sed 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 200/' >huge/config.json
expect 1 "of memory, but" "$drover" eval huge --choices $golden/records.jsonl
says "expected a smaller model"
expect 1 "of memory, but" "$drover" eval huge --text bad.jsonl --json-key context
finish
