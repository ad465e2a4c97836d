#!/bin/bash
# The folder that is copied to a machine with GPUs (bench/gpu_folder.sh) holds all that bench/h200.sh starts, with nothing of this tree,
# and is small. Tried on the CPU plugin.
tree=$(cd "$(dirname "$0")"/.. && pwd)
. "$(dirname "$0")"/pjrt.bash
build=$(dirname "$drover")
[ -x "$build"/tests/test_pjrt_ops ] || { echo "skipped: test_pjrt_ops is not built"; exit 77; }
command -v patchelf >/dev/null || { echo "skipped: no patchelf"; exit 77; }
expect 0 "at most 60 MiB" "$tree"/bench/gpu_folder.sh "$dir"/folder "$build"
expect 1 "exists, expected a new folder" "$tree"/bench/gpu_folder.sh "$dir"/folder "$build"
expect 2 "gpu_folder.sh FOLDER" "$tree"/bench/gpu_folder.sh
# Everything but the C library is the folder's.
for program in drover tests/test_pjrt_ops; do
    ldd folder/build/$program | awk '$3 ~ /^\// { print $3 }' | grep -vE "^$dir/|/lib(c|m|dl|rt|pthread|gcc_s)\.so" >out
    check "$program takes libraries of this machine" [ ! -s out ]
done
expect 0 "cpu     1 x cpu" env -u DROVER -u DROVER_TESTS folder/bench/h200.sh --dry-run --parts "1 6" --out "$dir"/answers.md
check "the test of ops did not run" grep -q 'test(s) run' answers.md
check "a part failed that needs no GPU" eval '! grep -q "Failed.*status 12[4-7]" answers.md'
finish
