#!/bin/bash
# Moments, gradients and weights in bf16 (optimizer.state_dtype, training.grad_dtype): a checkpoint says what it holds, a
# resumed run has the bits of an unbroken one, threads do not change them, and a run may change its types.
. "$(dirname "$0")"/story.bash
make_data
sed -i 's/every: 3, keep: 2/every: 10, keep: 2/' run.yaml
low="--set optimizer.state_dtype=bf16 --set training.grad_dtype=bf16"
train() { # RUN_DIR STEPS OPTION...
    local run=$1 steps=$2
    shift 2
    expect 0 "step $steps" "$drover" train run.yaml --set schedule.type=constant --set run_dir="$run" --set training.steps="$steps" "$@"
}
sums() { (cd "$1/checkpoints/step-$2" && sha256sum -- *.safetensors); }
dtypes() { # FILE PREFIX: types of the tensors whose names begin so
    python3 - "$1" "$2" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
print(*sorted({t["dtype"] for name, t in header.items() if name.startswith(sys.argv[2])}))
PYTHON
}

# --- what a checkpoint holds
train full 20
train low 20 $low
at=low/checkpoints/step-000020
check "moments are not BF16" test "$(dtypes $at/optimizer.safetensors exp_avg)" = BF16
check "the model is not BF16" test "$(dtypes $at/model.safetensors model)" = BF16
check "masters beside what is exact, or none of the norms" test "$(dtypes $at/optimizer.safetensors master)" = F32
check "a matrix has a master" test -z "$(dtypes $at/optimizer.safetensors master.model.embed)"
expect 0 ": ok" "$drover" ckpt verify $at
train masters 20 $low --set optimizer.master_dtype=fp32
check "no master of a matrix" test "$(dtypes masters/checkpoints/step-000020/optimizer.safetensors master.model.embed)" = F32
train single 20 $low --set training.precision=fp32
check "the weights of an fp32 run are not F32" test "$(dtypes single/checkpoints/step-000020/model.safetensors model)" = F32
last() { sed -n 's/.*"step":20,.*"loss":\([0-9.]*\).*/\1/p; s/.*"step": 20,.*"loss": \([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | head -1; }
for run in low masters single; do
    check "$run: loss $(last $run), of fp32 state $(last full)" awk -v a="$(last $run)" -v b="$(last full)" \
        'BEGIN { exit !(a > 0 && (a / b - 1) ^ 2 < 0.02 ^ 2) }'
done

# --- the same bits: resumed, with other threads, with micro-batches rounded one by one
for run in low masters single; do
    options=$low
    [ $run = masters ] && options="$options --set optimizer.master_dtype=fp32"
    [ $run = single ] && options="$options --set training.precision=fp32"
    train $run-2 10 $options
    train $run-2 20 $options --set training.threads=1
    says "resumed from $run-2/checkpoints/step-000010"
    check "$run: resumed, one thread: other bits" test "$(sums $run 000020)" = "$(sums $run-2 000020)"
done

# --- another save type: what the run has lies beside it, as it is
train f16 10 $low --set training.save_dtype=f16
check "a matrix has no master in BF16" test "$(dtypes f16/checkpoints/step-000010/optimizer.safetensors master.model.embed)" = BF16
train f16 20 $low --set training.save_dtype=bf16
check "resumed from f16: other bits" test "$(sums low 000020)" = "$(sums f16 000020)"

# --- from one type to another: what was more exact is rounded, what was less is not taken for it
train changed 10
train changed 20 $low
says "optimizer.state_dtype"
check "moments are not BF16" test "$(dtypes changed/checkpoints/step-000020/optimizer.safetensors exp_avg)" = BF16
expect 2 "model.embed_tokens.weight\" is BF16, expected F32 to resume from; a run without masters" \
    "$drover" train run.yaml --set run_dir=changed --set training.steps=21
train changed 21 --set optimizer.master_dtype=bf16
finish
