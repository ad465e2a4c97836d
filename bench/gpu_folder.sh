#!/bin/bash
# Makes the folder that bench/h200.sh and bench/gpus.sh need on a machine with GPUs: those scripts, drover with its libraries and the
# module for mpirun, and the test of ops, all stripped. Copy it there, and start FOLDER/bench/h200.sh; the plugin and NVIDIA's
# libraries are that machine's. Says the size, and fails above 60 MiB. Needs patchelf.
#   bench/gpu_folder.sh FOLDER [BUILD]      BUILD has drover and test_pjrt_ops; default: build
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tree=$(realpath "$(dirname "$0")/..") top=$1 build=${2:-$(dirname "$0")/../build} most=60
for file in "$build/drover" "$build/tests/test_pjrt_ops"; do
    [ -x "$file" ] || { echo "no $file: cmake --build $build --target drover test_pjrt_ops" >&2; exit 1; }
done
[ ! -e "$top" ] || { echo "$top exists, expected a new folder" >&2; exit 1; }
mkdir -p "$top"/{bench/results,build/tests,build/lib}
cp "$tree"/bench/{h200.sh,gpus.sh,parts.bash,gpu_peer.py} "$top/bench"
strip -o "$top/build/drover" "$build/drover"
strip -o "$top/build/tests/test_pjrt_ops" "$build/tests/test_pjrt_ops"
[ ! -e "$build/drover_mpi.so" ] || strip -o "$top/build/drover_mpi.so" "$build/drover_mpi.so"
cmocka=$(ldd "$build/tests/test_pjrt_ops" | awk '$1 ~ /^libcmocka/ { print $1, $3 }')
{ "$tree/packaging/libraries.sh" "$build"; echo "$cmocka"; } | while read -r name path; do
    install -m 644 "$path" "$top/build/lib/$name"
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$top/build/lib/$name"
done
patchelf --force-rpath --set-rpath "\$ORIGIN/lib" "$top/build/drover"
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$top/build/tests/test_pjrt_ops"
bytes=$(du -sb "$top" | cut -f1)
echo "$top: $((bytes >> 20)) MiB ($bytes bytes), at most $most MiB"
[ "$bytes" -le $((most << 20)) ]
