#!/bin/bash
# Prints Debian's packages that a built drover needs to run: those of its libraries, and Open MPI.
# usage: packaging/runtime_packages.sh BUILD
set -euo pipefail
libraries=$("$(dirname "$0")"/libraries.sh "$1")
while read -r _ file; do
    file=$(realpath "$file")
    # dpkg knows files by the names that they were unpacked under, with /usr or without.
    { dpkg-query -S "$file" "${file#/usr}" 2>/dev/null || true; } | sed -n '1s/:.*//p'
done <<<"$libraries" | sort -u
echo openmpi-bin
