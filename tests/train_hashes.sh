#!/bin/bash
# Hashes of gradients and weights (training.hash_every), by which two runs are compared: the same file from any layout,
# gone back with a resume, nothing where they are off. Needs mpirun for the ranks.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 4/; s/micro_batch_size: 2/micro_batch_size: 1/; s/warmup_steps: 5/warmup_steps: 1/; s/checkpoint:.*/checkpoint: {every: 2}/' run.yaml
echo 'parallel: {accumulation_groups: 2}' >>run.yaml
lines() { wc -l <"$1"; }

expect 0 "step 4" train 1 off
check "off: nothing is written" test ! -e off/hashes.jsonl -a "$(grep -c hash off/metrics.jsonl)" = 0
expect 0 "step 4" train 1 one training.hash_every=1
check "each step has its hashes" test "$(lines one/hashes.jsonl)" = 4
check "hashes change no weight" cmp off/checkpoints/step-000004/manifest.json one/checkpoints/step-000004/manifest.json
expect 0 "data 2" train 4 four parallel.tensor=2 training.hash_every=1
check "4 ranks: the hashes, loss and norms of one" cmp one/hashes.jsonl four/hashes.jsonl
check "4 ranks: every file of the checkpoint is that of one" diff -r one/checkpoints four/checkpoints
numbers() { grep -o '"gradient_hash":"[0-9a-f]*","weight_hash":"[0-9a-f]*"' "$1"; }
check "metrics.jsonl has one number of each" test "$(numbers one/metrics.jsonl | sort -u | wc -l)" = 4
check "the same on 4 ranks" test "$(numbers one/metrics.jsonl)" = "$(numbers four/metrics.jsonl)"
expect 0 "step 4" train 1 other training.hash_every=2
hash() { sed -n "$2p" "$1/hashes.jsonl" | grep -o '"gradients":.*' | grep -o "\"$3\":\"[0-9a-f]*" | sed -n "${4}p"; }
check "every second step" test "$(lines other/hashes.jsonl)" = 2
# What begins with the same weights has the same gradients in the first step, whatever they are clipped to.
expect 0 "step 1" train 1 clipped training.hash_every=1 training.steps=1 optimizer.clip_grad_norm=1e-6
check "gradients are hashed before they are clipped" test "$(hash one 1 model.embed_tokens.weight 1)" = "$(hash clipped 1 model.embed_tokens.weight 1)" -a -n "$(hash one 1 model.embed_tokens.weight 1)"
check "weights are not those" test "$(hash one 1 model.embed_tokens.weight 2)" != "$(hash clipped 1 model.embed_tokens.weight 2)"
# The last checkpoint is lost: steps 3 and 4 are done again.
rm -r one/checkpoints/step-000004 && cp one/hashes.jsonl before
expect 0 "resumed from one/checkpoints/step-000002" train 1 one training.hash_every=1
check "a resumed run shows each step once, with the same hashes" cmp before one/hashes.jsonl
expect 2 "\"training.hash_every\" is 1, expected 0 with backend pjrt" "$drover" config run.yaml --set training.hash_every=1 --set backend=pjrt
finish
