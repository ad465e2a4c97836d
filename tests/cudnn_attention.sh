#!/bin/bash
# Attention on CUDA: cuDNN's kernel in bf16 where the heads are cuDNN's, with a mask where rows have several documents, and the
# loop over blocks elsewhere. Which way goes by which rule: test_cudnn_text.
# Compiles for an H200 that is not there; needs the CUDA plugin and says so where there is none.
. "$(dirname "$0")"/story.bash
folder=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
if [ ! -e "$folder"/cuda/xla_cuda_plugin.so ]; then
    echo "skipped: no CUDA plugin in $folder/cuda (tools/fetch_pjrt.py cuda gets it)"
    exit 77
fi
echo "reads $folder/cuda, outside the tree"
export DROVER_PJRT_DIR=$folder DROVER_PJRT_DUMP=$PWD/dump
mkdir -p dump
cat >run.yaml <<'YAML'
model: {preset: llama-135m, vocab_size: 512, num_hidden_layers: 2}
data: {train: none, sequence_length: 1024, pack: stream}
tokenizer: tok
training: {steps: 10, global_batch_size: 4, micro_batch_size: 2, precision: bf16}
backend: pjrt
pjrt: {plugin: cuda, cache: none}
run_dir: run
YAML
# calls FORWARD BACKWARD WHAT KEYS...: how often the step calls cuDNN
calls() {
    local forward=$1 backward=$2 what=$3
    shift 3
    local sets=()
    for key; do sets+=(--set "$key"); done
    rm -f dump/*
    expect 0 "Total failed: 0" "$drover" compile run.yaml --target cuda:h200 "${sets[@]}"
    local text=dump/whole_step.mlir
    check "$what: $forward calls" [ "$(grep -cE '"__cudnn[$]fmha(ScaleBias)?Softmax"' $text)" = "$forward" ]
    check "$what: $backward calls backward" [ "$(grep -cE '"__cudnn[$]fmha(ScaleBias)?SoftmaxBackward"' $text)" = "$backward" ]
}
calls 2 2 "three query heads to a key head" training.recompute=none
says "cuDNN besides: 36.00 MiB  37748736, which it tells the compiler on a device alone" # 2 rows, 9 heads, 1024 x 1024 of 2 bytes
calls 4 2 "attention computed again" training.recompute=selective
calls 2 2 "rows of documents" data.pack=documents
check "their masks" grep -q fmhaScaleBiasSoftmaxBackward dump/whole_step.mlir
calls 2 2 "a sliding window" model.sliding_window=256
check "its window" grep -q 'sliding_window_length[^0-9]*256' dump/whole_step.mlir
calls 0 0 "fp32" training.precision=fp32
DROVER_PJRT_ATTENTION=blocks calls 0 0 "DROVER_PJRT_ATTENTION"
DROVER_PJRT_ATTENTION=bocks expect 2 'DROVER_PJRT_ATTENTION is "bocks", expected blocks, mask, segments or none' \
    "$drover" compile run.yaml --target cuda:h200
finish
