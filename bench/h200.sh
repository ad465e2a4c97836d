#!/bin/bash
# All that is worth knowing from eight minutes on a GPU: whether the ops and 20 steps are right, the GEMM peak, step time,
# tokens/s and MFU of a 1B and of Llama-3.1-8B (bf16, 8192 tokens; all weights with bf16 moments; LoRA at 4096), beside PyTorch.
#   bench/h200.sh [--dry-run] [--budget SECONDS] [--out FILE] [--plugin NAME] [--python PYTHON] [--parts "1 2 3 ..."]
# Each part has a time limit; one that fails is written down and the next begins; what does not fit into the budget (450 s) is
# left out and named. Results go to bench/results/DATE-h200.md as they come. --dry-run: tiny sizes on the CPU plugin, for trying
# every line of this script where no GPU is. Nothing is fetched; what is missing is said, with the command that gets it.
set -u
cd "$(dirname "$0")/.." || exit 1
budget=450 dry=0 out= plugin=cuda python=${PYTHON:-python3} parts="1 2 3 4 5 6 7 8 9"
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=1 plugin=cpu ;;
    --budget) budget=$2; shift ;;
    --out) out=$2; shift ;;
    --plugin) plugin=$2; shift ;;
    --python) python=$2; shift ;;
    --parts) parts=$2; shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ -n "$out" ] || { [ $dry = 1 ] && out=$(date +%F)-h200-dry-run.md || out=$(date +%F)-h200.md; out=bench/results/$out; }
drover=${DROVER:-build/drover} tests=${DROVER_TESTS:-build/tests}
[ -x "$drover" ] || { echo "no $drover: make builds it" >&2; exit 1; }
export drover
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. bench/parts.bash
SECONDS=0
export DROVER_COMPILE_CACHE=${DROVER_COMPILE_CACHE:-$work/compiled}
peak_flops=989e12 # dense bf16 of H100 and H200: NVIDIA's data sheet
# Sizes.
if [ $dry = 1 ]; then
    seq=64 lora_seq=32 repeats=1 gemm_sizes=256 small="--set model.preset=tiny --set model.vocab_size=512" peer="--no-compile --steps 1"
    one_b=$small eight_b=$small name1=tiny name8=tiny
else
    seq=8192 lora_seq=4096 repeats=5 gemm_sizes=8192,16384 peer="--steps 6" name1=1b name8=8b eight_b="--set model.preset=llama-3.1-8b"
    one_b="--set model.preset=llama-3.1-8b --set model.hidden_size=2048 --set model.intermediate_size=8192 --set model.num_hidden_layers=16 --set model.num_attention_heads=32 --set model.num_key_value_heads=8 --set model.head_dim=64 --set model.tie_word_embeddings=true"
fi
memory="--set pjrt.memory_fraction=0.92"; [ "$plugin" = cpu ] && memory=
step() { # SEQUENCE ARGS...
    local n=$1; shift
    echo "$drover bench step --json --repeats $repeats --set backend=pjrt --set pjrt.plugin=$plugin $memory --set training.precision=bf16 --set data.sequence_length=$n --set training.micro_batch_size=1 --set training.global_batch_size=1 $*"
}

: >"$out" || exit 1
put "# One GPU, $(date +%F)$([ $dry = 1 ] && echo ": a dry run of tiny sizes on the CPU plugin")"
put ""
put "Commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), \`bench/h200.sh$([ $dry = 1 ] && echo " --dry-run")\`, budget $budget s. $("$drover" --version 2>/dev/null | head -1)"
put "GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null || echo "none that nvidia-smi shows"). Host: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores."
has_torch=0; "$python" -c 'import torch, transformers' 2>/dev/null && has_torch=1
[ $has_torch = 1 ] || put "No PyTorch for $python (pip install torch transformers peft; --python names another): its parts fail."

part 1 60 "What the plugin finds" "$drover" devices "$plugin" && verbatim
# Its status says whether something is missing; what that is stands in what it prints.
part 1 20 "What is missing" bash -c '"$drover" doctor cuda; [ $? -le 1 ]' && verbatim 20

# The same 20 steps on both back ends, and the largest difference of a loss.
losses() {
    make_run 4 || return 1
    local backend precision=$1 bound=1e-4
    [ "$precision" != fp8 ] || bound=5e-4
    for backend in cpu pjrt; do
        "$drover" train "$work/run.yaml" --set backend=$backend --set pjrt.plugin="$plugin" --set training.precision="$precision" --set run_dir="$work/$backend-$precision" >/dev/null || return 1
    done
    compare_losses $bound "$work/cpu-$precision" "$work/pjrt-$precision"
}
export -f losses make_run compare_losses; export work plugin python

# The most important first: what the budget does not reach is left out. A second command with --parts makes up for it.
part 2 60 "20 steps against the CPU, fp32" bash -c 'losses fp32' && verbatim 1
part 2 60 "20 steps against the CPU, bf16" bash -c 'losses bf16' && verbatim 1
part 2 60 "20 steps against the CPU, fp8" bash -c 'losses fp8' && verbatim 1
part 3 60 "GEMM peak (PyTorch's cuBLAS)" "$python" bench/gpu_peer.py gemm --size $gemm_sizes && verbatim 1
part 4 150 "Llama-3.1-8B, $seq tokens, bf16 moments: drover" $(step $seq $eight_b --set optimizer.state_dtype=bf16 --set training.grad_dtype=bf16 --set training.recompute=selective) && figures "8B, drover"
part 4 110 "Llama-3.1-8B: PyTorch, bf16 weights and moments" "$python" bench/gpu_peer.py step --model $name8 --seq $seq --chunked-loss $peer && figures "8B, PyTorch"
part 4 110 "Llama-3.1-8B, $seq tokens, products in fp8" $(step $seq $eight_b --set training.precision=fp8 --set optimizer.state_dtype=bf16 --set training.grad_dtype=bf16 --set training.recompute=selective) && figures "8B fp8, drover"
part 5 110 "Llama-3.1-8B, LoRA of rank 16, $lora_seq tokens: drover" $(step $lora_seq $eight_b --set lora.rank=16 --set training.recompute=selective) && figures "8B LoRA, drover"
part 5 90 "Llama-3.1-8B, LoRA: PyTorch and PEFT" "$python" bench/gpu_peer.py step --model $name8 --seq $lora_seq --lora 16 --chunked-loss $peer && figures "8B LoRA, PyTorch"
part 6 90 "Ops against the CPU's definition" "$tests/test_pjrt_ops" "$plugin" && verbatim 8
part 7 100 "1B, $seq tokens, fp32 masters and moments: drover" $(step $seq $one_b) && figures "1B, drover"
part 7 80 "1B: PyTorch, bf16 weights and moments" "$python" bench/gpu_peer.py step --model $name1 --seq $seq --chunked-loss $peer && figures "1B, PyTorch"
part 8 100 "Llama-3.1-8B, all recomputed" $(step $seq $eight_b --set optimizer.state_dtype=bf16 --set training.grad_dtype=bf16 --set training.recompute=full) && figures "8B, drover, full recomputation"
# A question each: the same step with one thing changed.
part 8 60 "1B, logits in pieces of 256 MiB instead of 1 GiB" $(step $seq $one_b --set pjrt.logit_mib=256) && figures "1B, drover, logits of 256 MiB"
part 8 60 "1B, logits in pieces of 2 GiB" $(step $seq $one_b --set pjrt.logit_mib=2048) && figures "1B, drover, logits of 2 GiB"
part 9 20 "What was compiled" "$drover" compile --list --cache "$DROVER_COMPILE_CACHE" && verbatim 20

put ""; put "## Summary ($SECONDS s of $budget s)"; put ""
[ -e "$work/summary" ] && while read -r line; do put "- $line"; done <"$work/summary"
put "- To beat, per H100 or H200: NeMo, 8B 10,682 tokens/s (55.5 % MFU); llmq 60 % at 7B; LoRA of 8B, NeMo 17,800 tokens/s."
