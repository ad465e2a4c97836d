#!/bin/bash
# Prints the libraries that a built drover needs beside the C library, one a line as NAME PATH: those that it is linked with, those
# that it opens at run time (CMake's cache names their files), and all that these need. usage: packaging/libraries.sh BUILD
set -euo pipefail
# shellcheck source=packaging/built.bash
. "$(dirname "$0")/built.bash"

# The C library and what it needs is the system's: the loader and it must fit each other.
is_system() {
    case $1 in
    ld-linux*.so.* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | libgcc_s.so.* | libnss_*) return 0 ;;
    esac
    return 1
}
needs() { "${run[@]}" "$loader" --list "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }
{
    needs "$build/drover"
    sed -n 's/^FILE_OF_[a-z]*:FILEPATH=//p' "$build/CMakeCache.txt" | while read -r file; do
        soname=$(LC_ALL=C readelf -dW "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
        [ -n "$soname" ] || { echo "$file has no soname" >&2; exit 1; }
        echo "$soname $(realpath "$file")"
        needs "$file"
    done
} | sort -uk 1,1 | while read -r name path; do is_system "$name" || echo "$name $path"; done
