#!/bin/bash
# Muon from the command line: what its checkpoints hold, resuming to the bit, alone and on two ranks that share the
# optimizer, and what is refused.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/every: 3, keep: 2/every: 5, keep: 2/' run.yaml
run() { # STATUS TEXT RANKS RUN_DIR STEPS SETTING...
    local status=$1 text=$2 n=$3 dir=$4 steps=$5
    shift 5
    expect "$status" "$text" train "$n" "$dir" optimizer.type=muon schedule.type=constant training.steps="$steps" parallel.accumulation_groups=2 "$@"
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

run 0 "step 10" 1 whole 10
layers=$("$drover" config run.yaml | sed -n 's/.*num_hidden_layers: \([0-9]*\).*/\1/p')
adamw=$((2 * layers + 2)) # norms of the layers, the last one, the tied table
found=$(names whole/checkpoints/step-000010/optimizer.safetensors)
check "a checkpoint holds $found" test "${found%%master*}" = "exp_avg:$adamw exp_avg_sq:$adamw "
check "a checkpoint holds $found" test "${found##*momentum_buffer}" = ":$((7 * layers)) F32 True"
run 0 "step 5" 1 parts 5
run 0 "step 10" 2 parts 10
check "two ranks that resumed differ" test "$(sums parts 000010)" = "$(sums whole 000010)"
check "no falling loss" awk -v a="$(losses whole loss | head -1)" -v b="$(losses whole loss | tail -1)" 'BEGIN { exit !(b > 0 && b < a) }'

# --- NorMuon, begun on two ranks, each of which has the row squares of its own matrices
run 0 "step 10" 1 nor 10 optimizer.type=normuon
run 0 "step 5" 2 nor-2 5 optimizer.type=normuon
run 0 "step 10" 1 nor-2 10 optimizer.type=normuon
check "NorMuon on other ranks differs" test "$(sums nor-2 000010)" = "$(sums nor 000010)"
found=$(names nor-2/checkpoints/step-000010/optimizer.safetensors)
check "a checkpoint of NorMuon holds $found" test "${found##*second}" = "_momentum_buffer:$((7 * layers)) F32 True"

# --- what is refused
run 2 "is of a run with optimizer.type muon, but the config has adamw" 1 parts 15 optimizer.type=adamw
check "what was refused has changed the run" test "$(sums parts 000010)" = "$(sums whole 000010)"
run 2 "optimizer.state_dtype is bf16, expected fp32" 1 low 5 optimizer.state_dtype=bf16
run 2 "optimizer.master_dtype is bf16, expected fp32" 1 low 5 optimizer.master_dtype=bf16
run 2 "of a LoRA run only adapters are trained" 1 low 5 lora.rank=4
run 2 "expected adamw, muon or normuon" 1 low 5 optimizer.type=lion
finish
