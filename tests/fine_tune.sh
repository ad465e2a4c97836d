#!/bin/bash
# A fine-tune from conversations to one merged model: learned tokens against those of the rows, an adapter that lowers
# the loss, the merged model in two formats with the same answers. docs/fine-tune.md does it with a real model.
. "$(dirname "$0")"/story.bash
make_data
expect 0 "step-000020" "$drover" train run.yaml --set run_dir=pre --set training.steps=20
for i in $(seq 64); do
    echo "{\"prompt\": \"Tell me of hens in story $i.\", \"response\": \"The fox, the dog and $((i % 7)) lazy hens.\"}"
done >talk.jsonl
cat >talk.jinja <<'JINJA'
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
JINJA
expect 0 "64 documents" "$drover" data build --sft --template talk.jinja --input talk.jsonl --tokenizer tok --out talk
cat >talk.yaml <<YAML
model: {from: pre/checkpoints/step-000020}
data: {train: talk, valid: talk, sequence_length: 128}
training: {steps: 30, global_batch_size: 6, micro_batch_size: 2, eval_every: 10}
lora: {rank: 16, alpha: 16, dropout: 0.05, target_modules: [q_proj, v_proj]}
optimizer: {lr: 0.02}
schedule: {warmup_steps: 3}
run_dir: run
YAML
# 30 steps x 6 rows x 128 tokens; those of the answers are learned. The summary counts as tokens/s does.
expect 0 "done: step 30 of 30, 23.04 k tokens in" "$drover" train talk.yaml
check "learned tokens are not those of the answers" [ "$(tail -n 1 run/metrics.jsonl | grep -c val_loss)" = 1 -a \
    "$(grep -o '"tokens":[0-9]*' run/metrics.jsonl | tail -n 1 | cut -d: -f2)" -lt 18432 ]
loss() { "$drover" eval "$@" --data talk --json 2>out | grep -o '"loss": [0-9.]*' | cut -d' ' -f2; }
before=$(loss pre) after=$(loss run)
check "the loss is $after after $before" awk "BEGIN { exit !($after > 0 && $after < $before) }"

expect 0 "proved" "$drover" ckpt merge pre run --out merged --dtype f32
expect 0 "proved" "$drover" ckpt export merged --gguf merged.gguf --type f32
expect 0 "F32" "$drover" ckpt import merged.gguf --out back
answer() { "$drover" generate "$@" --prompt "The fox" --temperature 0 --max-tokens 20 --precision fp32 2>out; }
answer pre --adapter run >want
check "nothing is written" [ -s want ]
for model in merged back; do
    check "$model answers otherwise" eval "answer $model | cmp - want"
done
finish
