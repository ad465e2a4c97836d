#!/bin/bash
# Muon from the command line: what its checkpoints hold, resuming to the bit, alone and on two ranks that share the
# optimizer, and what is refused.
. "$(dirname "$0")"/story.bash
make_data
ask_for_same_bits
sed -i 's/every: 3, keep: 2/every: 5, keep: 2/' run.yaml
train() { # STATUS TEXT RUN_DIR STEPS OPTION...
    local status=$1 text=$2 run=$3 steps=$4
    shift 4
    expect "$status" "$text" "$drover" train run.yaml --set optimizer.type=muon --set schedule.type=constant \
        --set run_dir="$run" --set training.steps="$steps" "$@"
}
sums() { (cd "$1/checkpoints/step-$2" && sha256sum -- *.safetensors); }
names() { # FILE: kinds of state, each with the number of its tensors
    python3 - "$1" <<'PYTHON'
import collections, json, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
kinds = collections.Counter(name.split(".")[0] for name in header if name != "__metadata__")
matrix = header.get("momentum_buffer.model.layers.0.self_attn.k_proj.weight", {"shape": None})
print(*(f"{k}:{n}" for k, n in sorted(kinds.items())), matrix["dtype"], matrix["shape"] == header[
    "master.model.layers.0.self_attn.k_proj.weight"]["shape"])
PYTHON
}

train 0 "step 10" whole 10
layers=$("$drover" config run.yaml | sed -n 's/.*num_hidden_layers: \([0-9]*\).*/\1/p')
adamw=$((2 * layers + 2)) # norms of the layers, the last one, the tied table
found=$(names whole/checkpoints/step-000010/optimizer.safetensors)
check "a checkpoint holds $found" test "${found%%master*}" = "exp_avg:$adamw exp_avg_sq:$adamw "
check "a checkpoint holds $found" test "${found##*momentum_buffer}" = ":$((7 * layers)) F32 True"
train 0 "step 5" parts 5
train 0 "step 10" parts 10
check "a resumed run differs" test "$(sums parts 000010)" = "$(sums whole 000010)"
first=$(sed -n 's/.*"step": *1,.*"loss": *\([0-9.]*\).*/\1/p' whole/metrics.jsonl | head -1)
last=$(sed -n 's/.*"step": *10,.*"loss": *\([0-9.]*\).*/\1/p' whole/metrics.jsonl | head -1)
check "loss $first -> $last" awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > 0 && b < a) }'

# --- what is refused
train 2 "is of a run with optimizer.type muon, but the config has adamw" parts 15 --set optimizer.type=adamw
check "what was refused has changed the run" test "$(sums parts 000010)" = "$(sums whole 000010)"
train 2 "optimizer.state_dtype is bf16, expected fp32" low 5 --set optimizer.state_dtype=bf16
train 2 "optimizer.master_dtype is bf16, expected fp32" low 5 --set optimizer.master_dtype=bf16
train 2 "of a LoRA run only branches are trained" low 5 --set lora.rank=4
train 2 "expected adamw or" low 5 --set optimizer.type=lion
finish
