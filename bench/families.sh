#!/bin/bash
# What each family adds, where back ends and other programs could tell it apart: 20 steps and 10 of LoRA on backend pjrt
# (XLA's CPU plugin, tools/fetch_pjrt.py cpu) beside the CPU's, in fp32, losses to 1e-5; then base and adapter merged and
# exported to GGUF as f32, q8_0 and q4_k, which llama.cpp loads (tools/check_llama_cpp.py: its logits beside transformers' for
# the numbers of that file). Prints a row of Markdown for each family; ends with 1 if anything differs.
# usage: families.sh PROGRAM PYTHON [GLOB]     PYTHON has what check_llama_cpp.py wants; GLOB: of families' names
tools=$(realpath "$(dirname "$0")"/../tools)
. "$(dirname "$0")"/../tests/pjrt.bash
python=$2
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 4, hidden_size: 256, intermediate_size: 512, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64, tie_word_embeddings: false/' run.yaml
sed -i 's/precision: bf16/precision: fp32/; s/^schedule:.*/schedule: {type: constant, warmup_steps: 2}/; s/^checkpoint:.*/checkpoint: {every: 0}/' run.yaml
sed '/^tokenizer/d; s/^model:.*/model: {weights: load}/' run.yaml >lora.yaml
echo 'lora: {rank: 4, dropout: 0.1, target_modules: all-linear}' >>lora.yaml
llama3="model.rope_scaling.rope_type=llama3 model.rope_scaling.factor=8 model.rope_scaling.low_freq_factor=1 model.rope_scaling.high_freq_factor=4 model.rope_scaling.original_max_position_embeddings=32"
# The name, the positions that llama.cpp is asked for (it knows no window of these architectures), and the keys.
families=("Llama 3.2, tied|200|model.tie_word_embeddings=true model.head_dim=24 $llama3"
    "Mistral without a window|200|model.head_dim=24"
    "Mistral, window 40|40|model.sliding_window=40"
    "Qwen2|200|model.qkv_bias=true"
    "Qwen2, tied|200|model.qkv_bias=true model.tie_word_embeddings=true"
    "Qwen3|200|model.qk_norm=true model.head_dim=24"
    "SmolLM3|200|model.no_rope_layer_interval=4 model.tie_word_embeddings=true")
both() { # CONFIG NAME STEPS SETTING...: a run on each back end; said: the largest relative difference of a loss
    local config=$1 name=$2 steps=$3 backend sets=()
    shift 3
    for set in "$@"; do sets+=(--set "$set"); done
    for backend in cpu pjrt; do
        expect 0 "" "$drover" train "$config" --set training.steps="$steps" --set backend=$backend --set run_dir="$name-$backend" "${sets[@]}"
    done
    check "$name: losses of pjrt and cpu differ" near 1e-5 "$name-cpu" "$name-pjrt"
    said=$(paste <(losses "$name-cpu") <(losses "$name-pjrt") | awk '{ d = ($1 / $2 - 1) ^ 2; if (d > m) m = d } END { printf "%.1e", sqrt(m) }')
}
loaded() { # NAME TYPE POSITIONS TOLERANCE: the merged model as GGUF; said: what llama.cpp says of it
    expect 0 "proved" "$drover" ckpt export "$1"-merged --gguf "$1-$2".gguf --type "$2"
    expect 0 "proved" "$drover" ckpt import "$1-$2".gguf --out "$1-$2"
    "$python" "$tools"/check_llama_cpp.py "$1-$2".gguf "$1-$2" --positions "$3" --tolerance "$4" >out 2>&1
    check "$1: llama.cpp differs as $2" [ $? = 0 ]
    said=$(sed -n 's/.*off by \(.*\), bound \(.*\); likeliest tokens: \(.*\) differ, \(.*\) near.*/\1 of \2; \3, \4/p' out)
}
echo "| family | training, pjrt beside cpu | LoRA | llama.cpp: f32 | q8_0 | q4_k |"
echo "|---|---|---|---|---|---|"
for family in "${families[@]}"; do
    IFS='|' read -r title positions keys <<<"$family"
    # shellcheck disable=SC2053  # a pattern
    [[ $title == ${3:-*} ]] || continue
    name=$(echo "$title" | tr -dc '[:alnum:]')
    row="| $title |"
    # shellcheck disable=SC2086  # words
    both run.yaml "$name" 20 $keys
    row="$row $said |"
    both lora.yaml "$name-lora" 10 model.from="$name-cpu/checkpoints/step-000020"
    row="$row $said |"
    expect 0 "proved" "$drover" ckpt merge "$name-cpu/checkpoints/step-000020" "$name-lora-cpu" --out "$name-merged" --dtype f32
    loaded "$name" f32 "$positions" 2e-3
    row="$row $said |"
    for type in q8_0 q4_k; do
        loaded "$name" $type "$positions" 0.1
        row="$row $said |"
    done
    echo "$row"
done
finish
