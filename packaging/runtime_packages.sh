#!/bin/sh
# Prints Debian's packages that a built drover needs to run: those of the libraries that it is linked with, of those that it
# opens at run time (CMake's cache names their files), and Open MPI. usage: packaging/runtime_packages.sh BUILD
set -eu
build=$1
{
    ldd "$build/drover" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
    sed -n 's/^FILE_OF_[a-z]*:FILEPATH=//p' "$build/CMakeCache.txt"
} | while read -r file; do
    file=$(realpath "$file")
    # dpkg knows files by the names that they were unpacked under, with /usr or without.
    dpkg-query -S "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1
done | sort -u
echo openmpi-bin
