#!/bin/bash
# drover audit: a run is replayed from a checkpoint and from its beginning, on its layout and on others, and found equal;
# what cannot be audited is refused with the reason. (Bits that flip: test_audit.) Needs mpirun for the ranks.
. "$(dirname "$0")"/ranks.bash
unset DROVER_CPU DROVER_GEMM
make_data
sed -i 's/steps: 40/steps: 6/; s/micro_batch_size: 2/micro_batch_size: 1, arithmetic: portable, hash_every: 1/
    s/global_batch_size: 8/global_batch_size: 4/; s/warmup_steps: 5/warmup_steps: 1/; s/checkpoint:.*/checkpoint: {every: 2}/' run.yaml
audit() { "$drover" audit "$@"; }
expect 0 "step 6" train 2 run parallel.tensor=2 parallel.zero=3 parallel.zero_group=1
find run -type f | sort | xargs sha256sum >before

expect 0 "equal: 6 of the steps 1 to 6 were recorded" audit run
says "replayed from the beginning on 1 rank, portable"
DROVER_CPU=plain expect 0 "equal: 2 of the steps 5 to 6" audit run --steps 5: --out elsewhere
says "replayed from run/checkpoints/step-000004 on 1 rank"
expect 0 "equal: 1 of the steps 3 to 3" ranks 2 audit run --steps 3 --set parallel.pipeline=2
says "step-000002 on 2 ranks"
check "it says so once" test "$(grep -c '^equal' out)" = 1
"$drover" audit run --steps 4:5 --json 2>/dev/null >json
check "JSON" grep -q '"equal":true,"checkpoint":"run/checkpoints/step-000002","arithmetic":"portable","first_step":4,"last_step":5,"compared":2,"ranks":1,"difference":null' json
find run -type f -not -path 'run/audit/*' | sort | xargs sha256sum >after
check "the run is not changed" cmp before after

# --- a record that says something else, as a machine that computed something else would leave it
cp -r run bad && rm -r bad/audit
sed -i '5s/"batch":"./"batch":"!/' bad/hashes.jsonl
expect 1 "step 5 differs: batch (data): " audit bad --steps 5
check "it is said once more, as a failure" grep -q "^drover: step 5 differs: batch" out
expect 0 "equal" audit bad --steps 1:4

# On ranks that have other layers than rank 0, the op is that of their graphs.
cp -r run bad2 && rm -r bad2/audit
sed -Ei '5s/("gradients":\{[^}]*"model.layers.1.mlp.down_proj.weight":")./\1!/' bad2/hashes.jsonl
expect 1 "step 5 differs: gradient of model.layers.1.mlp.down_proj.weight (matmul): " ranks 2 audit bad2 --steps 5 --set parallel.pipeline=2
expect 1 "step 5 differs: gradient of model.layers.1.mlp.down_proj.weight (matmul): " ranks 2 audit bad2 --steps 5 --set parallel.zero=2

# --- refused
expect 2 'is not a run directory: it has no config.yaml' audit data --steps 1
expect 2 "run/hashes.jsonl has 1 to 6" audit run --steps 4:9
expect 2 '--steps is "0:3"' audit run --steps 0:3
expect 2 "it would not be the same run; expected the layout" audit run --set training.seed=7
expect 0 "step 1" train 1 unhashed training.steps=1 training.hash_every=0
expect 2 'there is no "unhashed/hashes.jsonl": only a run with training.hash_every' audit unhashed
expect 0 "step 2" train 1 fast training.steps=2 training.arithmetic=fastest
expect 0 "equal: 2 of" audit fast
DROVER_CPU=plain expect 2 'audit it on the same kind of processor, or train with training.arithmetic: portable' audit fast
expect 0 "step 3" train 1 fast training.steps=3 training.arithmetic=fastest optimizer.lr=0.002
expect 2 'the configuration of "fast" changed after step 2 (fast/config.until-000002.yaml)' audit fast
expect 0 "equal: 1 of" audit fast --steps 3
expect 0 "equal: 2 of" audit fast --steps 1:2
expect 0 "training.deterministic is false: repeated runs may give different bits" train 1 loose training.steps=1 training.deterministic=false
check "the checkpoint says so" grep -q '"training.deterministic": "false"' loose/checkpoints/step-000001/trainer.json
expect 2 'key "training.deterministic" is false, expected true: repeated runs may give different bits' audit loose
printf 'x' | dd of=run/checkpoints/step-000004/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
expect 1 "model.safetensors" audit run --steps 5
finish
