#!/bin/bash
# The program as a user sees it: exit codes and messages, kill -9 and resume, signals, full disks,
# harmed checkpoints. The last line is "N passed, N failed".
drover=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $1"; [ -z "$2" ] || sed 's/^/    /' "$2"; }
# expect CODE TEXT COMMAND...: exit status and a text in its output
expect() {
    code=$1 text=$2
    shift 2
    "$@" >out 2>&1
    got=$?
    if [ $got != "$code" ]; then bad "exit $got, expected $code: $*" out
    elif ! grep -qF -- "$text" out; then bad "no \"$text\" from: $*" out
    else ok; fi
}

# --- text to data
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "Document %d tells of the fox, the dog and %d lazy hens.\n\n", i, i * i % 97 }' >text.txt
expect 0 "tokenizer.json: 400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok
expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok1 --threads 1
if cmp -s tok/tokenizer.json tok1/tokenizer.json; then ok; else bad "one thread trains another tokenizer"; fi
expect 0 "3000 documents" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
expect 0 "documents  3000" "$drover" data info data/set
expect 0 "set: ok" "$drover" data verify data/set --vocab-size 400
expect 1 "expected 0 to 9" "$drover" data verify data/set --vocab-size 10
expect 0 "tells of the fox" "$drover" data show data/set --document 7 --tokenizer tok
printf 'the fox and 12 hens' | "$drover" tokenizer encode --tokenizer tok >ids
expect 0 "the fox and 12 hens" "$drover" tokenizer decode --tokenizer tok --input ids
printf '{"text": "a fox"}\n' >one.jsonl
expect 0 "[" "$drover" tokenizer encode --tokenizer tok --json-key text --input one.jsonl

# --- usage
expect 2 'unknown verb "trian", did you mean "train"' "$drover" trian
expect 2 'unknown option "--promt", did you mean "--prompt"' "$drover" generate x --promt y
expect 2 "usage: drover train" "$drover" train
expect 0 "usage: drover train" "$drover" train --help
expect 2 "did you mean \"training.steps\"" "$drover" config --set model.preset=tiny --set training.stepz=1
expect 1 "could not open" "$drover" train nothing.yaml
expect 0 '"parameters"' "$drover" plan --set model.preset=llama-3.1-405b --json
expect 0 "attention_grad(" "$drover" graph --set model.preset=llama-3.1-70b
expect 0 "GEMM peak" "$drover" doctor

# --- training, killed and resumed
cat >run.yaml <<YAML
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 40, global_batch_size: 8, micro_batch_size: 2, eval_every: 0, precision: bf16}
schedule: {warmup_steps: 5}
checkpoint: {every: 3, keep: 2}
YAML
sums() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors trainer.json); }
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=straight
expect 0 "nothing to do" "$drover" train run.yaml --set run_dir=straight
sums straight 000040 >want
for t in 1 4; do
    expect 0 "step-000040" "$drover" train run.yaml --set run_dir=threads$t --set training.threads=$t
    sums threads$t 000040 | cmp -s - want && ok || bad "$t threads give other bits"
done
for r in selective full; do
    expect 0 "step-000040" "$drover" train run.yaml --set run_dir=$r --set training.recompute=$r
    sums $r 000040 | cmp -s - want && ok || bad "recompute $r gives other bits"
done
kills=0
RANDOM=${SEED:-$$}
while [ $kills -lt 20 ]; do
    "$drover" train run.yaml --set run_dir=killed >out 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 350)))"
    if kill -9 $pid 2>/dev/null; then kills=$((kills + 1)); fi
    wait $pid 2>/dev/null
    # Done already? Take the last steps away and go on killing.
    if [ -d killed/checkpoints/step-000040 ]; then rm -rf killed/checkpoints/step-000040; fi
done
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=killed
sums killed 000040 | cmp -s - want && ok || bad "20 kills change the result"
[ "$(grep -c '"loss"' killed/metrics.jsonl)" = 40 ] && ok || bad "metrics.jsonl has not one line a step after kills"
ls killed/checkpoints | grep -q tmp && bad "a killed writer's folder was left" || ok

# --- signals
"$drover" train run.yaml --set run_dir=term --set training.steps=100000 >out 2>&1 &
pid=$!
for _ in $(seq 100); do grep -q '"step":3,' term/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
kill -TERM $pid
wait $pid && ok || bad "SIGTERM does not exit 0" out
grep -q "saving after step" out && ok || bad "SIGTERM is not reported" out
last=$(ls -d term/checkpoints/step-* | sort | tail -n 1)
expect 0 ": ok" "$drover" ckpt verify "$last"

# --- harm
cp -r straight harmed
truncate -s -1 harmed/checkpoints/step-000040/model.safetensors
expect 0 "resumed from harmed/checkpoints/step-000039" "$drover" train run.yaml --set run_dir=harmed
grep -q 'step-000040" is not used' out && ok || bad "a truncated checkpoint is not named" out
sums harmed 000040 | cmp -s - want && ok || bad "resuming an older checkpoint changes the result"
expect 1 "expected" "$drover" ckpt verify "$(truncate -s -1 harmed/checkpoints/step-000040/model.safetensors; echo harmed/checkpoints/step-000040)"
expect 1 "nowhere.idx" "$drover" train run.yaml --set run_dir=nodata --set data.train=nowhere
(ulimit -f 300; exec "$drover" train run.yaml --set run_dir=disk >out 2>&1)
[ $? = 1 ] && grep -q "could not save checkpoint" out && ok || bad "a full disk is not reported" out
ls disk/checkpoints | grep -q . && bad "a full disk leaves something" || ok
cp -r straight full2
(ulimit -f 300; exec "$drover" train run.yaml --set run_dir=full2 --set training.steps=50 >out 2>&1)
expect 0 ": ok" "$drover" ckpt verify full2/checkpoints/step-000040
touch file
expect 1 "file" "$drover" train run.yaml --set run_dir=file/run
expect 2 "more than model.vocab_size 300" "$drover" train run.yaml --set run_dir=vocab --set model.vocab_size=300
expect 1 "expected 0 to 299" "$drover" train run.yaml --set run_dir=vocab --set model.vocab_size=300 --set tokenizer=
"$drover" train run.yaml --set run_dir=busy --set training.steps=100000 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 100); do [ -e busy/metrics.jsonl ] && break; sleep 0.1; done
expect 1 "in use by another drover" "$drover" train run.yaml --set run_dir=busy
kill -9 $pid
wait $pid 2>/dev/null

# --- the model
expect 0 "perplexity" "$drover" eval straight/checkpoints/step-000040 --data data/set
expect 0 '"loss"' "$drover" eval run.yaml --set run_dir=straight --data data/set --json
expect 0 "tokens/s" "$drover" generate straight/checkpoints/step-000040 --prompt "Document 5" --max-tokens 20 --seed 3
grep -v tokens/s out >first
expect 0 "Document 5" "$drover" generate straight/checkpoints/step-000040 --prompt "Document 5" --max-tokens 20 --seed 3 --threads 1
grep -v tokens/s out | cmp -s - first && ok || bad "the same seed gives another text"
expect 1 "config.json" "$drover" generate tok --prompt x

echo "$passed passed, $failed failed"
[ $failed = 0 ]
