#!/bin/bash
# What is no PJRT plugin, or none that can be used: one line each and no crash. Needs no plugin; of those that
# need one, and of those that need a compiler, the test says what it leaves out.
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
refused 1 "no PJRT plugin is there, expected one in \"$PWD/plugins/NAME/*.so\""
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
head -c 100 /dev/urandom >plugins/cpu/text.so
refused 1 "could not open \"$PWD/plugins/cpu/text.so\""

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
    refused 1 'is of PJRT version 1.7, expected 0.x' --set pjrt.plugin=./version.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/sizeof api/;s/RESULT/\&api/' | fake empty
    refused 1 'PJRT version 0.7) has no Error_Destroy, expected one' --set pjrt.plugin=./empty.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/40/;s/RESULT/\&api/' | fake short
    refused 1 'has no Error_Destroy, expected one' --set pjrt.plugin=./short.so
    echo "$api" | sed 's/MAJOR/0/;s/SIZE/40/;s/RESULT/0/' | fake nothing
    refused 1 'has no function GetPjrtApi' --set pjrt.plugin=./nothing.so
else
    echo "left out: libraries that are no plugin; no cc"
fi

# --- targets
expect 2 'target "cuda:b20" is unknown, expected cuda:h200, h100, a100 or b200; did you mean "cuda:b200"?' "$drover" compile run.yaml --target cuda:b20
expect 2 'target "h200", expected cuda:h200' "$drover" compile run.yaml --target h200
expect 1 'plugin "cuda" is not there' "$drover" compile run.yaml --target cuda:h200
if [ -e "$real"/cuda/xla_cuda_plugin.so ]; then
    echo "reads $real/cuda, outside the tree"
    mkdir -p alone
    ln -s "$real"/cuda/xla_cuda_plugin.so alone/cuda.so
    [ -e /usr/local/cuda/bin/ptxas ] || CUDA_HOME=$PWD PATH=/usr/bin:/bin expect 1 "CUDA's ptxas and libdevice.10.bc are not there" "$drover" compile run.yaml \
        --target cuda:h200 --set pjrt.plugin=$PWD/alone/cuda.so
    [ -e "$real"/cuda/tools/bin/ptxas ] && DROVER_PJRT_DIR=$real expect 0 "Total successful: 2" "$drover" compile run.yaml --target cuda:h200
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
    refused 2 'compiler flag "nonsense", expected NAME=VALUE' --set pjrt.plugin="$plugin" --set 'pjrt.flags=[nonsense]'
    head -c 100000 "$plugin" >cut.so
    refused 1 'could not open "./cut.so": it is cut short: 100000 bytes' --set pjrt.plugin=./cut.so
else
    echo "left out: a real plugin that is damaged or told nonsense; none in $real (tools/fetch_pjrt.py)"
fi
finish
