#!/bin/bash
# Makes BUILD/drover-VERSION-linux-MACHINE.tar.gz: the program, the libraries that it is linked with and those that it opens, the
# MPI module, docs and examples, with a hash of each file. It runs where only the C library of Debian 12 or newer is, without
# network and without installing anything; what the module needs, Open MPI, stays the system's, since mpirun is. Needs patchelf.
# usage: tools/make_bundle.sh BUILD
set -euo pipefail
build=$(realpath "$1")
tree=$(realpath "$(dirname "$0")/..")
version=$("$build/drover" --version | awk '{ print $2 }')
name=drover-$version-linux-$(uname -m)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
top=$made/$name

DESTDIR='' cmake --install "$build" --prefix "$top" --strip >/dev/null
libraries=$top/lib/drover/lib
mkdir -p "$libraries"

# The C library and what it needs is the system's: the loader and it must fit each other.
is_system() {
    case $1 in
    ld-linux*.so.* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | libgcc_s.so.* | libnss_*) return 0 ;;
    esac
    return 1
}
# All that a file needs, by the names that it is looked for by: NAME PATH
needs() { ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }
add() { # NAME PATH: with its licence, as Debian's package has it
    local package
    if is_system "$1" || [ -e "$libraries/$1" ]; then return; fi
    install -m 644 "$2" "$libraries/$1"
    package=$(dpkg-query -S "$2" "$(realpath "$2")" 2>/dev/null | head -n 1 | cut -d: -f1) || true # one of both names is not known
    [ ! -e "/usr/share/doc/$package/copyright" ] || install -D -m 644 "/usr/share/doc/$package/copyright" "$top/share/doc/drover/licences/$package"
}
# What is opened at run time is in no header of the program; CMake knows its file.
sed -n 's/^FILE_OF_[a-z]*:FILEPATH=//p' "$build/CMakeCache.txt" | while read -r file; do
    soname=$(objdump -p "$(realpath "$file")" 2>/dev/null | awk '$1 == "SONAME" { print $2 }')
    [ -n "$soname" ] || { echo "$file has no soname" >&2; exit 1; }
    add "$soname" "$(realpath "$file")"
    needs "$(realpath "$file")" | while read -r need path; do add "$need" "$path"; done
done
needs "$build/drover" | while read -r need path; do add "$need" "$path"; done

# RPATH, not RUNPATH: it also holds for what the libraries themselves need.
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/drover/lib" "$top/bin/drover"
for file in "$libraries"/*; do
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$file"
done

cat >"$top/README" <<TEXT
drover $version for Linux on $(uname -m): bin/drover runs from here, with the libraries in lib/drover/lib.
It needs the C library of Debian 12 or newer. Several ranks need Open MPI 4.1 of the system (lib/drover/drover_mpi.so
opens it). sha256sum -c --quiet SHA256SUMS holds all files against what they were. share/doc/drover has the documentation.
TEXT
(cd "$top" && find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)

# The same bytes from the same files: no times, no owners but one.
time=$(git -C "$tree" log -1 --format=%ct 2>/dev/null || echo 0)
tar -C "$made" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner -c "$name" | gzip -6n >"$build/$name.tar.gz.tmp"
mv "$build/$name.tar.gz.tmp" "$build/$name.tar.gz"
(cd "$build" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$build/$name.tar.gz"
