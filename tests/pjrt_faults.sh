#!/bin/bash
# What is no PJRT plugin, or none that can be used: one line each and no crash. Needs no plugin; of those that
# need one, and of those that need a compiler, the test says what it leaves out.
source=$(cd "$(dirname "$0")"/../src && pwd)
. "$(dirname "$0")"/story.bash
make_data
real=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
train() { "$drover" train run.yaml --set backend=pjrt --set run_dir=run "$@"; }
# refused CODE TEXT ARGS...: in one line
refused() {
    local code=$1 text=$2
    shift 2
    expect "$code" "$text" train "$@"
    check "more than one line: $*" [ "$(grep -c . out)" = 1 ]
}

export DROVER_PJRT_DIR=$PWD/plugins
unset DROVER_PJRT_PLUGIN
refused 1 "found no PJRT plugin, expected one in \"$PWD/plugins/NAME/*.so\""
refused 1 'plugin "cuda" is not there, expected a file' --set pjrt.plugin=cuda
refused 1 'tools/fetch_pjrt.py gets it' --set pjrt.plugin=cpu
refused 1 'plugin "neuron" is not there' --set pjrt.plugin=neuron
refused 2 'plugin "cdua" is unknown, expected cuda, rocm, tpu, neuron, cpu or the path of a file; did you mean "cuda"?' --set pjrt.plugin=cdua
refused 1 'plugin "/nowhere/plugin.so" is not there, expected a file' --set pjrt.plugin=/nowhere/plugin.so
refused 2 'expected cpu or pjrt' --set backend=pjtr
echo "no library" >text.so
refused 1 'could not open "./text.so": it is not a 64-bit shared library' --set pjrt.plugin=text.so
mkdir -p plugins/cpu && cp text.so plugins/cpu/
refused 1 "could not open \"$PWD/plugins/cpu/text.so\"" --set pjrt.plugin=cpu
DROVER_PJRT_PLUGIN=./text.so refused 1 'could not open "./text.so": it is not a 64-bit shared library'
mkdir folder.so && mkfifo pipe.so && : >none.so
refused 1 'could not open "./folder.so": it is a folder, expected a shared library' --set pjrt.plugin=folder.so
refused 1 'plugin "../": could not open "../": it is a folder' --set pjrt.plugin=../
refused 1 'could not open "./pipe.so": it is a pipe, expected a shared library' --set pjrt.plugin=./pipe.so
refused 1 'could not open "./none.so": it is not a 64-bit shared library' --set pjrt.plugin=./none.so
head -c 100 /dev/urandom >plugins/cpu/text.so
refused 1 "could not open \"$PWD/plugins/cpu/text.so\""

# Of the device, not of the data: evaluating and generating say which key names it.
expect 0 "" "$drover" train run.yaml --set run_dir=trained --set training.steps=1
trained=trained/checkpoints/step-000001
expect 1 'drover: key "pjrt.plugin": plugin "/nowhere/plugin.so" is not there' "$drover" eval $trained --data data/set --set backend=pjrt \
    --set pjrt.plugin=/nowhere/plugin.so
expect 1 ': key "pjrt.plugin": plugin "/nowhere/plugin.so" is not there' train --set pjrt.plugin=/nowhere/plugin.so
expect 1 ': key "backend": plugin "cpu": could not open' train
expect 1 'drover: --data: ' "$drover" eval $trained --data nowhere --set backend=pjrt

# --- libraries that are no plugin, one of another version, one that lacks functions
if command -v cc >/dev/null; then
    fake() { cc -shared -fPIC -o "$1.so" -x c - || bad "cc"; }
    echo 'int answer = 42;' | fake library
    refused 1 'has no function GetPjrtApi, expected a PJRT plugin' --set pjrt.plugin=./library.so
    api='#include <stddef.h>
static struct { size_t size; void *extensions; size_t version_size; void *version_extensions; int major, minor; void *slot[138]; }
    api = {SIZE, 0, 24, 0, MAJOR, 7, {0}};
void *GetPjrtApi(void) { return RESULT; }'
    echo "$api" | sed 's/MAJOR/1/;s/SIZE/sizeof api/;s/RESULT/\&api/' | fake version
    refused 1 'has PJRT version 1.7, expected 0.x' --set pjrt.plugin=./version.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/sizeof api/;s/RESULT/\&api/' | fake empty
    refused 1 'PJRT version 0.7) has no Error_Destroy, expected one' --set pjrt.plugin=./empty.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/40/;s/RESULT/\&api/' | fake short
    refused 1 'has no Error_Destroy, expected one' --set pjrt.plugin=./short.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/40/;s/RESULT/0/' | fake nothing
    refused 1 'has no function GetPjrtApi' --set pjrt.plugin=./nothing.so
    # Plugins are looked at in processes of their own, which they may end.
    echo 'void _exit(int); void *GetPjrtApi(void) { _exit(3); }' | fake ends
    expect 1 'it ends with exit status 3 while it is opened' "$drover" devices ./ends.so
    echo 'void abort(void); void *GetPjrtApi(void) { abort(); }' | fake aborts
    expect 1 'it dies of signal 6 while it is opened' "$drover" devices ./aborts.so
else
    echo "left out: libraries that are no plugin; no cc"
fi

# --- targets
expect 2 'target "cuda:b20" is unknown, expected cuda:h200, h100, a100 or b200; did you mean "cuda:b200"?' "$drover" compile run.yaml --target cuda:b20
expect 2 'target "rocm:h200", expected cuda:h200' "$drover" compile run.yaml --target rocm:h200
expect 2 'there is no device profile "h20", expected one of a100' "$drover" compile run.yaml --target h20
expect 2 '--target trn1: its compiler needs the device' "$drover" compile run.yaml --target trn1
expect 1 'plugin "cuda" is not there' "$drover" compile run.yaml --target p5.48xlarge,memory=64GB
expect 1 'plugin "cuda" is not there' "$drover" compile run.yaml --target cuda:h200
if [ -e "$real"/cuda/xla_cuda_plugin.so ]; then
    echo "reads $real/cuda, outside the tree"
    mkdir -p alone
    ln -s "$real"/cuda/xla_cuda_plugin.so alone/cuda.so
    [ -e /usr/local/cuda/bin/ptxas ] || CUDA_HOME=$PWD PATH=/usr/bin:/bin expect 1 "CUDA's ptxas and libdevice.10.bc are not there" "$drover" compile run.yaml \
        --target cuda:h200 --set pjrt.plugin=$PWD/alone/cuda.so
    if [ -e "$real"/cuda/tools/bin/ptxas ]; then
        # A GPU's plugin is the first that is found, and there is no GPU.
        ls /dev/nvidia0 >/dev/null 2>&1 || DROVER_PJRT_DIR=$real refused 1 "names another plugin, tools/fetch_pjrt.py gets that of the CPU"
        for_gpu() { DROVER_PJRT_DIR=$real expect "$1" "$2" "$drover" compile run.yaml --target "${@:3}"; }
        for_gpu 0 "Total successful: 2" cuda:h200 --set pjrt.plugin=cpu # the config's, for runs here
        # The plan that chooses parallel.zero is the target's too, masks of cuDNN in it: nothing is compiled, for a flag's sake.
        for plugin in cuda cpu; do
            for_gpu 1 "zero 1: it needs" h200 --devices 2 --set parallel.zero=auto --set training.precision=bf16 --set model.head_dim=8 \
                --set data.sequence_length=512 --set "pjrt.flags=[xla_no_such=1]" --set pjrt.plugin=$plugin
            grep '^zero 1' out >zero-$plugin
        done
        check "another plugin in the file changes the plan for a target" cmp -s zero-cuda zero-cpu
        # What the compiler needs is more than the GPU has: by one layer of 1.7e10 weights, and by a share of a small one.
        for_gpu 1 'on a device, but NVIDIA A100-SXM4-80GB (cuda) gives 79.26 GiB (85100068864)' cuda:a100 --set model.num_hidden_layers=1 \
            --set model.hidden_size=32768 --set model.intermediate_size=131072 --set model.num_attention_heads=256 --set model.num_key_value_heads=256
        says 'drover: program "whole_step" needs 2' "Total successful: 2"
        for_gpu 1 'pipeline rank 0  program "' cuda:h200 --set pjrt.memory_fraction=0.000001 --set parallel.pipeline=2
        says "NVIDIA H200 (cuda) gives 147.85 KiB (151397)" "Total successful: 8"
    fi
else
    echo "left out: the CUDA plugin; none in $real (tools/fetch_pjrt.py cuda)"
fi

# --- what a platform needs, one line each
for platform in rocm tpu neuron; do
    expect 1 "of its needs are missing" "$drover" doctor $platform
    says "plugin \"$platform\" is not there"
done
expect 2 'platform "xpu", expected cuda, rocm, tpu or neuron' "$drover" doctor xpu
NEURON_RT_VISIBLE_CORES=0-1 expect 1 "NEURON_RT_VISIBLE_CORES=0-1" "$drover" doctor neuron

# --- a real plugin that is told nonsense, or is damaged
plugin=$(ls "$real"/cpu/*.so 2>/dev/null | head -1)
[ -z "$plugin" ] || echo "reads $plugin, outside the tree"
if [ -n "$plugin" ]; then
    refused 1 'No such compile option' --set pjrt.plugin="$plugin" --set 'pjrt.flags=[xla_no_such_flag=1]'
    refused 1 'plugin "'"${plugin##*/}"'" has at most 1024 virtual devices, expected 1025' --set pjrt.plugin="$plugin" --set pjrt.devices=1025 \
        --set training.global_batch_size=1025 --set training.micro_batch_size=1
    refused 2 'compiler flag "nonsense", expected NAME=VALUE' --set pjrt.plugin="$plugin" --set 'pjrt.flags=[nonsense]'
    head -c 100000 "$plugin" >cut.so
    refused 1 'could not open "./cut.so": it is cut short: 100000 bytes' --set pjrt.plugin=./cut.so
else
    echo "left out: a real plugin that is damaged or told nonsense; none in $real (tools/fetch_pjrt.py)"
fi

# --- fewer devices than are asked for; one that says how much memory it has, less than the programs need: nothing is run
if [ -n "$plugin" ] && command -v cc >/dev/null; then
    cc -shared -fPIC -I"$source" -DREAL="\"$plugin\"" -o small.so -x c - <<'C' || bad "cc"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include "backend/pjrt/runtime/pjrt_abi.h"
#define X(name, place, ...) PLACE_##name = place,
enum { PJRT_SLOTS(X) };
static pjrt_api api;
static void *say(pjrt_memory_stats_args *args) {
    args->bytes_limit = (pjrt_memory_number){1000000, true};
    return NULL;
}
const pjrt_api *GetPjrtApi(void) {
    const pjrt_api *(*real)(void) = (const pjrt_api *(*)(void))dlsym(dlopen(REAL, RTLD_NOW), "GetPjrtApi");
    memcpy(&api, real(), sizeof api);
    api.slot[PLACE_Device_MemoryStats] = (void *)say;
    return &api;
}
C
    small="--set pjrt.plugin=./small.so --set pjrt.cache=none"
    for verb in "compile run.yaml --set backend=pjrt" "train run.yaml --set backend=pjrt --set run_dir=small" "bench step run.yaml --set backend=pjrt" \
        "train run.yaml --set backend=pjrt --set run_dir=two --set pjrt.devices=2"; do
        expect 1 "bytes) on a device, but cpu (cpu) gives 976.56 KiB (1000000); " "$drover" $verb $small
        check "it is said more than once: $verb" [ "$(grep -c 'on a device, but' out)" = 1 ]
    done
    expect 1 'plugin "small.so" has ' "$drover" compile run.yaml --set backend=pjrt --devices 64 --set training.global_batch_size=128 $small
    says "devices here, expected 64"
    expect 1 'drover: program "score" needs ' "$drover" eval $trained --data data/set --set backend=pjrt $small
    says "bytes) on a device, but cpu (cpu) gives 976.56 KiB (1000000); expected a smaller --context"
    expect 1 "bytes) on a device, but cpu (cpu) gives 976.56 KiB (1000000); expected fewer tokens" "$drover" generate $trained --prompt a \
        --backend pjrt:./small.so
    check "a step was run" [ -z "$(cat small/metrics.jsonl two/metrics.jsonl 2>/dev/null | grep loss)" ]
else
    echo "left out: a device with little memory; no plugin in $real/cpu, or no cc"
fi
finish
