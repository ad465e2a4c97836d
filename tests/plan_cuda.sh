#!/bin/bash
# What `drover plan` says of a run on H200 is what XLA's compiler plans for them, within 1 %: for Llama-2-7B and Llama-3.1-8B
# on one GPU, on eight that share each layer, and on eight that share the optimizer, with eight rows a step, and on one GPU with a step
# of one micro-batch, whose gradients XLA places among the activations. Compiles for GPUs that are not there; needs the CUDA plugin and
# says so where there is none. All of them with DROVER_PLAN_CUDA=all, half a minute each; else five small ones. Rows of several
# documents, whose mask the compiler plans too, but for one case; cuDNN's scratch, of which it learns on a device alone, is counted
# beside.
here=$(cd "$(dirname "$0")"/.. && pwd)
. "$(dirname "$0")"/story.bash
folder=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
if [ ! -e "$folder"/cuda/xla_cuda_plugin.so ]; then
    echo "skipped: no CUDA plugin in $folder/cuda (tools/fetch_pjrt.py cuda gets it)"
    exit 77
fi
echo "reads $folder/cuda, outside the tree"
export DROVER_PJRT_DIR=$folder
kept='optimizer.state_dtype=bf16 training.grad_dtype=bf16' # 8 bytes a parameter: 8B on one GPU
once='training.global_batch_size=1'
# name, preset, tokens of a row, devices, what else is set
cases=(
    "7B|llama-2-7b|4096|1|"
    "8B TP 8|llama-3.1-8b|8192|8|parallel.tensor=8 parallel.sequence=true"
    "8B|llama-3.1-8b|8192|1|$kept"
    "7B ZeRO-1|llama-2-7b|4096|8|parallel.zero=1"
    "7B TP 8|llama-2-7b|4096|8|parallel.tensor=8 parallel.sequence=true"
    "8B ZeRO-1|llama-3.1-8b|8192|8|parallel.zero=1"
    "8B, rows of one document|llama-3.1-8b|8192|1|data.pack=stream $kept"
    "1B, one layer, logits in two pieces|llama-3.2-1b|4096|1|model.num_hidden_layers=1"
    "8B, activations offloaded|llama-3.1-8b|8192|1|model.num_hidden_layers=8 training.offload=activations"
    "1B, two layers, one micro-batch|llama-3.2-1b|4096|1|model.num_hidden_layers=2 model.tie_word_embeddings=false $once"
    "7B, one micro-batch|llama-2-7b|4096|1|$once"
    "7B, one micro-batch, all recomputed|llama-2-7b|4096|1|training.recompute=full $once"
    "1B, one micro-batch, nothing recomputed|llama-3.2-1b|4096|1|training.recompute=none $once"
    "1B, one micro-batch, low-rank branches|llama-3.2-1b|4096|1|lora.rank=16 $once"
)
kernels() { awk -v field="${1:-5}" '/kernels of the update:/ { print $field }' out; }
[ "$DROVER_PLAN_CUDA" = all ] || cases=("${cases[0]}" "${cases[1]} model.num_hidden_layers=8" "${cases[@]:7:3}")
for case in "${cases[@]}"; do
    IFS='|' read -r name preset tokens devices keys <<<"$case"
    cat >run.yaml <<YAML
model: {preset: $preset}
data: {train: none, sequence_length: $tokens}
tokenizer: tok
training: {steps: 10, global_batch_size: 8, micro_batch_size: 1, recompute: selective, precision: bf16, eval_every: 0}
backend: pjrt
pjrt: {plugin: cuda, cache: none}
run_dir: run
YAML
    sets=()
    for key in $keys; do sets+=(--set "$key"); done
    expect 0 "Total failed: 0" "$drover" compile run.yaml --explain --target cuda:h200 --devices "$devices" "${sets[@]}"
    # "Memory of a device: 124 GiB  133..."; "Planned by drover: 123.5 GiB  132... (-0.4 %)"
    planned=$(sed -n 's/^Planned by drover: .*  \([0-9]*\) .*/\1/p' out) compiled=$(sed -n 's/^Memory of a device: .*  \([0-9]*\)$/\1/p' out)
    plan=$("$drover" plan run.yaml --ranks "$devices" "${sets[@]}" | sed -n 's/^  total .* \([0-9]*\)$/\1/p')
    "$drover" plan run.yaml --ranks "$devices" "${sets[@]}" | sed -n 's/^  offloaded *\(.*iB\) .*/\1/p' >offloaded
    check "$name: the compiler has other bytes on the host: $(cat offloaded)" cmp -s offloaded <(sed -n "s/^whole_step.*; in the host's memory //p" out)
    besides=$(sed -n 's/^cuDNN besides: .*  \([0-9]*\),.*/\1/p' out)
    for said in "${planned:-0} ${compiled:-0}" "${plan:-0} $((${compiled:-0} + ${besides:-0}))"; do
        if awk -v p="${said% *}" -v c="${said#* }" 'BEGIN { exit !(c > 1e9 && p > 0.99 * c && p < 1.01 * c) }'; then ok
        else bad "$name: planned ${said% *} bytes, compiled ${said#* }" out; fi
    done
    # "kernels of the update: 27 for 27 weights"; see below for those of shards
    [[ $keys == *zero=1* ]] || check "$name: the update of a weight is not one kernel: $(kernels)" [ "$(kernels)" = "$(kernels 7)" ]
    echo "$name: planned ${plan:-?} bytes, compiled ${compiled:-?}, of cuDNN besides ${besides:-?}"
done
# Kernels of the update of nine weights. ZeRO-1 clears each sum of gradients, which the update has no more than a shard of, by
# itself. Products stand between the momentum and the weight of each of Muon's four matrices, and two weights of these are joined
# of several, which XLA rounds by themselves.
for case in "18 --devices 2 --set parallel.zero=1" "9 --devices 2 --set parallel.tensor=2" "15 --set optimizer.type=muon"; do
    read -ra words <<<"$case"
    expect 0 "Total failed: 0" "$drover" compile run.yaml --explain --target cuda:h200 --set model.preset=llama-3.2-1b \
        --set model.num_hidden_layers=1 --set model.tie_word_embeddings=false --set data.sequence_length=1024 "${words[@]:1}"
    check "$case: the update of $(kernels 7) weights has $(kernels) kernels" [ "$(kernels) $(kernels 7)" = "${words[0]} 9" ]
done
# The flags that bench/gpus.sh compares: XLA takes away and renames some with every version, and refuses what it does not know.
flags=$(sed -n 's/^[a-z]*=\(xla_gpu_[^ ]*\)$/\1/p' "$here/bench/gpus.sh" | paste -sd ,)
check "bench/gpus.sh has flags" [ -n "$flags" ]
expect 0 "Total failed: 0" "$drover" compile run.yaml --target cuda:h200 --devices 2 --set model.num_hidden_layers=1 --set "pjrt.flags=[$flags]"
finish
