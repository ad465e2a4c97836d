#!/bin/bash
# What a checkpoint carries besides weights, and evaluations that see every token once.
. "$(dirname "$0")"/story.bash
make_data
loss_of() { grep -o '"loss": [0-9.]*' out | grep -o '[0-9.]*$'; }
tokens_of() { grep -o '"tokens": [0-9]*' out | grep -o '[0-9]*$'; }

# --- tokenizer, chat template, generation defaults and ids of the source go into every checkpoint
cp -r tok source
printf '{{ messages }}' >source/chat_template.jinja
mkdir source/additional_chat_templates
printf '{{ tools }}' >source/additional_chat_templates/tool_use.jinja
printf '{"temperature": 0.6}' >source/generation_config.json
expect 0 "step-000001" "$drover" train run.yaml --set run_dir=first --set training.steps=1 --set tokenizer=source
model=first/checkpoints/step-000001
for f in tokenizer.json tokenizer_config.json chat_template.jinja additional_chat_templates/tool_use.jinja generation_config.json; do
    check "$f is not carried" cmp -s source/$f $model/$f
done
expect 0 ": ok" "$drover" ckpt verify $model
# --- the arithmetic is recorded: level of kernels and how bf16 products are multiplied, which decide the bits
recorded='kernels avx2, bf16 products by fp32'
if grep -qw avx2 /proc/cpuinfo; then
    DROVER_CPU=avx2 DROVER_GEMM=fp32 expect 0 "$recorded" "$drover" train run.yaml --set run_dir=level --set training.steps=1
    check "log.txt does not say how products are multiplied" grep -qF "$recorded" level/log.txt
    check "trainer.json does not" grep -qF "\"arithmetic\": \"$recorded\"" level/checkpoints/step-000001/trainer.json
    DROVER_CPU=ref expect 0 "arithmetic: \"$recorded\" -> \"kernels ref, bf16 products by fp32\"; the last bits differ" \
        "$drover" train run.yaml --set run_dir=level --set training.steps=2
else
    echo "skipped: no AVX2, so no level of kernels to ask for"
fi
# --- a share of the peak above 1 is none: that peak was measured while others took the cores, or said wrong
DROVER_PEAK_FLOPS=1000 expect 0 "step 2" "$drover" train run.yaml --set run_dir=low-peak --set training.steps=2
check "an MFU above 100 % is shown" test "$(grep -c mfu out low-peak/metrics.jsonl low-peak/log.txt | grep -vc ':0$')" = 0
expect 0 "mfu" "$drover" train run.yaml --set run_dir=said-peak --set training.steps=2
cat >continue.yaml <<YAML
model: {from: model}
data: {train: data/set, sequence_length: 64}
training: {steps: 2, global_batch_size: 8, micro_batch_size: 2, eval_every: 0}
checkpoint: {every: 1, keep: 0}
run_dir: second
YAML
cp -r $model model
sed -i 's/"eos_token_id": 0/"eos_token_id": [0, 7], "pad_token_id": 5/' model/config.json
expect 2 "expected at most as many as the weights have rows: resize_token_embeddings(" "$drover" train continue.yaml --set model.vocab_size=100
expect 0 "weights from model" "$drover" train continue.yaml
for step in 1 2; do
    for f in tokenizer.json chat_template.jinja generation_config.json; do
        check "$f is not carried on to step $step" cmp -s source/$f second/checkpoints/step-00000$step/$f
    done
done
check "the ids of the source are lost" python3 - <<'PY'
import json
config = json.load(open("second/checkpoints/step-000002/config.json"))
assert config["eos_token_id"] == [0, 7] and config["pad_token_id"] == 5, config
PY
# A folder that goes away during the run is not missed.
"$drover" train run.yaml --set run_dir=third --set tokenizer=source --set training.steps=100000 --set checkpoint.every=0 >out 2>&1 &
pid=$!
wait_for grep -q '"step":3,' third/metrics.jsonl
rm -rf source
kill -TERM $pid
wait_end $pid
check "the tokenizer went with its folder" [ -s "$(newest third)/chat_template.jinja" ]

# --- weights that are not those of the config
cp -r model fewer
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' fewer/config.json
expect 1 'tensor "model.layers.1.' "$drover" eval fewer --data data/set
expect 1 'tensor "model.layers.1.' "$drover" generate fewer --prompt x

# --- evaluation: every token once, whatever the micro-batch, over several data sets
head -n 1400 text.txt >a.txt
sed -n '1401,2200p' text.txt >b.txt
total=0
for set in a b; do
    expect 0 "documents" "$drover" data build --input $set.txt --separator $'\n\n' --tokenizer tok --out data/$set --append-eod
    expect 0 '"tokens"' "$drover" eval model --data data/$set --json --set data.sequence_length=64
    total=$((total + $(tokens_of)))
done
sed 's/split: \[90, 10, 0\]/valid: [{prefix: data\/a, weight: 1}, {prefix: data\/b, weight: 5}]/; s/eval_every: 0/eval_every: 1/' run.yaml >both.yaml
for micro in 1 2 4; do
    expect 0 "\"tokens\": $total" "$drover" eval both.yaml --json --set run_dir=first --set training.micro_batch_size=$micro
    loss_of >loss.$micro
done
check "another micro-batch evaluates other rows" [ -n "$(cat loss.1)" -a "$(cat loss.1)" = "$(cat loss.4)" ]
for micro in 1 4; do
    expect 0 "step-000001" "$drover" train both.yaml --set run_dir=part$micro --set training.micro_batch_size=$micro \
        --set training.steps=1 --set training.eval_batches=2 --set optimizer.lr=0
    grep -o '"val_loss":[0-9.]*' part$micro/metrics.jsonl | head -n 1 | cut -d: -f2 >val.$micro
    grep -o '"val_tokens":[0-9]*' part$micro/metrics.jsonl | head -n 1 >tokens.$micro
done
check "val_loss depends on the micro-batch" [ -n "$(cat val.1)" -a "$(cat val.1)" = "$(cat val.4)" ]
check "val_tokens depends on the micro-batch" cmp -s tokens.1 tokens.4

# Every evaluation of a run sees the same rows, also when they are not all.
expect 0 "step-000003" "$drover" train run.yaml --set run_dir=thrice --set training.steps=3 --set optimizer.lr=0 \
    --set training.eval_every=1 --set training.eval_batches=1
check "not four evaluations" [ "$(grep -c '"val_loss"' thrice/metrics.jsonl)" = 4 ]
check "evaluations differ" [ "$(grep -o '"val_loss":[0-9.]*,"val_tokens":[0-9]*' thrice/metrics.jsonl | sort -u | wc -l)" = 1 ]

# --- nothing to predict
printf '{"text": "a"}\n{"text": "a"}\n' >single.jsonl
expect 0 "2 documents" "$drover" data build --input single.jsonl --json-key text --tokenizer tok --out data/single
expect 1 "data/single" "$drover" train run.yaml --set run_dir=single --set data.train=data/single --set data.split=null
expect 1 "data/single" "$drover" eval model --data data/single
# Nor in the rows that an evaluation takes, though the set has something further on.
{ for i in $(seq 200); do echo '{"text": "a"}'; done; echo '{"text": "the fox and the dog"}'; } >late.jsonl
expect 0 "201 documents" "$drover" data build --input late.jsonl --json-key text --tokenizer tok --out data/late
expect 1 "the evaluation data has no token to predict" "$drover" train run.yaml --set run_dir=late --set data.split=null \
    --set data.valid=data/late --set training.eval_every=1 --set training.eval_batches=1 --set training.global_batch_size=2
finish
