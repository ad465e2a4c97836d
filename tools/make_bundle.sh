#!/bin/bash
# Makes BUILD/drover-VERSION-linux-MACHINE.tar.gz: the program, the libraries that it is linked with and those that it opens, the
# MPI module, docs and examples, with a hash of each file. It needs only the C library of Debian 12 or newer, no
# network and no installation. Needs patchelf. usage: tools/make_bundle.sh BUILD
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
. "$tree/packaging/built.bash"
name=drover-$version-linux-$machine
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
top=$made/$name
"$tree/packaging/self_contained.sh" "$build" "$top"

cat >"$top/README" <<TEXT
drover $version for Linux on $machine: bin/drover runs from here, with the libraries in lib/drover/lib.
It needs the C library of Debian 12 or newer. Several ranks need Open MPI (4.1 or 5) of the system, which
lib/drover/drover_mpi.so opens. sha256sum -c --quiet SHA256SUMS holds all files against what they were. share/doc/drover has the documentation.
TEXT
(cd "$top" && find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)

# The same bytes from the same files: no times, no owners but one.
time=$(git -C "$tree" log -1 --format=%ct 2>/dev/null || echo 0)
tar -C "$made" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner -c "$name" | gzip -6n >"$build/$name.tar.gz.tmp"
mv "$build/$name.tar.gz.tmp" "$build/$name.tar.gz"
(cd "$build" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$build/$name.tar.gz"
