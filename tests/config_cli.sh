#!/bin/bash
# config and plan as a user meets them: docs/keys.md is what the program says, the examples run, plans are compared
# with the memory there is. Writes below a fresh folder of /tmp alone. The last line is "N passed, N failed".
tree=$(realpath "$(dirname "$0")/..")
. "$tree"/tests/story.bash

# --- the reference of all keys
"$drover" config --reference >keys.md
cmp -s keys.md "$tree/docs/keys.md" && ok || bad "docs/keys.md is old: build/drover config --reference >docs/keys.md"
expect 2 "--reference and --set exclude each other" "$drover" config --reference --set model.preset=tiny

# --- what config prints is a config
"$drover" config --set model.preset=llama-3.1-8b --set 'tokenizer="a \"b\": #c"' --set run_dir=x >printed.yaml
"$drover" config printed.yaml >again.yaml
cmp -s printed.yaml again.yaml && ok || bad "config does not read back what it prints"
grep -q '^    factor: 8 ' printed.yaml && ok || bad "rope scaling is not printed" printed.yaml
printf 'model: {preset: tiny}\nparallel: {lanes: 2}\n' >older.yaml
expect 0 'older.yaml:2: "parallel.lanes" is now called "parallel.accumulation_groups"' "$drover" config older.yaml

# --- another trainer's file: all keys that are not ours in one answer
for i in $(seq 90); do echo "strange_key_$i: $i"; done >foreign.yaml
expect 2 'foreign.yaml:1: unknown key "strange_key_1" with value "1"' "$drover" config foreign.yaml
n=$(grep -o '"strange_key_[0-9]*"' out | sort -u | wc -l)
[ "$n" = 90 ] && [ "$(wc -l <out)" = 1 ] && ok || bad "$n of 90 unknown keys are answered" out

# --- plans and the machine
expect 0 "fits          no" "$drover" plan --set model.preset=llama-3.1-405b
expect 0 "fits          yes" "$drover" plan --set model.preset=tiny
expect 0 '"fits": true' "$drover" plan --set model.preset=tiny --json
for field in run_seconds memory_bytes memory_free_bytes would_fit step_seconds; do
    grep -q "\"$field\": " out && ok || bad "plan --json has no $field" out
done
says '"step_is_measured": true'
# At a peak at which a micro-batch takes seconds none is rehearsed, which takes a third of a second for each plan. That is for plans
# which are looked at for something else; the peak of all others is $peak.
peak=$DROVER_PEAK_FLOPS
export DROVER_PEAK_FLOPS=1e6
expect 0 '"step_is_measured": false' "$drover" plan --set model.preset=tiny --json
for dir in printed.yaml printed.yaml/x/y /proc/x "a/$(printf '%0300d' 0)/b"; do
    expect 1 'key "run_dir": ' "$drover" plan --set model.preset=tiny --set "run_dir=$dir"
    out_has "train would refuse this run" && ok || bad "$dir is refused as train would" out
    "$drover" train --set model.preset=tiny --set "run_dir=$dir" >out 2>&1 && bad "train takes $dir" out || ok
done
expect 0 "fits          yes" "$drover" plan --set model.preset=tiny --set run_dir=a/b/c
check "a plan leaves nothing behind" test ! -e a
DROVER_PEAK_FLOPS=fast expect 2 'DROVER_PEAK_FLOPS is "fast", expected the peak of one rank in FLOP/s' "$drover" plan --set model.preset=tiny
expect 0 " for 100000 steps" "$drover" plan --set model.preset=llama-15m --set training.steps=100000
expect 2 "expected a multiple of" "$drover" plan --set model.preset=tiny --ranks 3
expect 0 "layout        tensor 2 with its tokens shared, data 4, 4 accumulation groups" "$drover" plan --set model.preset=tiny --set parallel.tensor=2 --ranks 8
says "sent by a rank in a step over the data axis" "sent by a rank in a step over the tensor axis" "8 ranks"
expect 2 "\"parallel.tensor\" is 8, expected a divisor of model.intermediate_size 172" "$drover" plan --set model.preset=tiny --set parallel.tensor=8 --ranks 8
expect 2 "6 ranks were started, expected a multiple of tensor 4" "$drover" plan --set model.preset=tiny --set parallel.tensor=4 --ranks 6
expect 0 "16384 ranks" "$drover" plan --set model.preset=llama-3.1-405b --set parallel.tensor=8 --set training.global_batch_size=2048 --set training.micro_batch_size=1 --ranks 16384

# --- weight decay of matrices, and of norms where it is asked for (tiny has 11 norms)
update() { "$drover" graph --set model.preset=tiny --program update "$@" | grep -c "weight_decay 0.1"; }
with=$(update --set optimizer.decay_norms=true) without=$(update)
[ $((with - without)) = 11 ] && ok || bad "optimizer.decay_norms: $with weights decay instead of 11 more than $without"

# --- the examples, on data where make run would put it
awk 'BEGIN { for (i = 0; i < 600; i++) printf "Document %d tells of the fox, the dog and %d lazy hens.\n\n", i, i * i % 97 }' >text.txt
"$drover" tokenizer train --input text.txt --vocab-size 400 --out run/tokenizer >out 2>&1 || bad "tokenizer train" out
for part in train valid; do
    "$drover" data build --input text.txt --separator $'\n\n' --tokenizer run/tokenizer --out run/data/$part --append-eod >out 2>&1 ||
        bad "data build" out
done
export DROVER_PEAK_FLOPS=$peak
small="--set training.steps=2 --set training.eval_every=0 --set training.global_batch_size=8"
expect 0 "step-000002" "$drover" train "$tree/examples/tiny.yaml" $small
mkdir -p run/perl/checkpoints
mkdir -p runs/base/checkpoints
cp -r runs/tiny/checkpoints/step-000002 run/perl/checkpoints/step-000600
cp -r runs/tiny/checkpoints/step-000002 runs/base/checkpoints/step-000100
expect 0 "step-000002" "$drover" train "$tree/examples/continue.yaml" $small
expect 0 "weights: load" "$drover" config "$tree/examples/continue.yaml"
expect 0 '"tok"' "$drover" config "$tree/examples/llama-135m.yaml"
# Each is in the program as it lies there, and is accepted.
export DROVER_PEAK_FLOPS=1e6
"$drover" examples >list
for example in "$tree"/examples/*.yaml; do
    name=$(basename "$example" .yaml)
    "$drover" examples "$name" >example.yaml
    check "drover examples $name" cmp example.yaml "$example"
    check "the line of $name" grep -qE "^$name +[A-Z][^#]*\.$" list
    expect 0 "# " "$drover" config example.yaml
    expect 0 "fits " "$drover" plan example.yaml --set data.train=[] --set data.valid=[] --set tokenizer=
done
check "as many lines as examples" test "$(wc -l <list)" = "$(ls "$tree"/examples/*.yaml | wc -l)"
expect 2 '"tiney" is not an example, expected one of ' "$drover" examples tiney

# --- what train refuses, plan does: with the same error after the plan, and as a warning for a job elsewhere
given=(--set model.preset=tiny --set model.vocab_size=500)
expect 1 "fits          yes" "$drover" plan "${given[@]}" --set data.train=nowhere/set
says "train would refuse this run: --set: data.train: " "nowhere/set"
expect 1 '"refused": "--set: data.train: ' "$drover" plan "${given[@]}" --set data.train=nowhere/set --json
expect 0 "warning: train would refuse this run here: --set: data.train: " "$drover" plan "${given[@]}" --set data.train=nowhere/set --ranks 2
expect 1 "train would refuse this run: --set: tokenizer: " "$drover" plan "${given[@]}" --set tokenizer=nowhere
expect 2 "\"run/tokenizer\" has 369 tokens, more than model.vocab_size 300" "$drover" plan "${given[@]}" --set tokenizer=run/tokenizer --set model.vocab_size=300
expect 1 "token " "$drover" plan "${given[@]}" --set data.train=run/data/train --set model.vocab_size=300
expect 0 "fits          yes" "$drover" plan "${given[@]}" --set data.train=run/data/train --set tokenizer=run/tokenizer
expect 0 '"refused": null' "$drover" plan "${given[@]}" --set data.train=run/data/train --set tokenizer=run/tokenizer --json

# --- less memory than the run needs: refused before anything is made, with what would do
export DROVER_PEAK_FLOPS=$peak
if ! sanitized; then
    (ulimit -v 600000; exec "$drover" train "$tree/examples/tiny.yaml" --set run_dir=small \
        --set training.micro_batch_size=32 --set training.precision=fp32 \
        --set model.intermediate_size=8192 >out 2>&1)
    [ $? = 1 ] && ok || bad "a run beyond ulimit -v is not refused" out
    grep -q "this would fit: --set training.micro_batch_size=" out && ok || bad "nothing is suggested" out
    [ ! -e small ] && ok || bad "a run that does not fit leaves a run directory"
    # Around what the run needs: where the plan says that it fits, it runs; the rest of ulimit -v is what threads reserve.
    wide=(--set training.steps=1 --set training.micro_batch_size=4 --set training.eval_every=0 --set training.global_batch_size=4 --set data.sequence_length=128
        --set model.intermediate_size=6144 --set training.threads=2)
    answers=
    for mib in 300 450 500 550 600 700; do
        (ulimit -v $((mib * 1024)); exec "$drover" plan "$tree/examples/tiny.yaml" "${wide[@]}" >plan.out 2>&1)
        answer=$(sed -n 's/^fits *\(yes\|no\):.*/\1/p' plan.out)
        answers="$answers $answer"
        [ "$answer" = yes ] || continue
        (ulimit -v $((mib * 1024)); exec "$drover" train "$tree/examples/tiny.yaml" "${wide[@]}" --set run_dir=held-$mib >out 2>&1)
        [ $? = 0 ] && ok || bad "plan says that it fits $mib MiB, train does not" out
    done
    [[ $answers == " no"*yes ]] && ok || bad "no limit parts the plans: $answers" plan.out
else
    echo "skipped: ulimit -v (the program does not start under it, as with AddressSanitizer)"
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
