#!/bin/bash
# Prints Debian's packages that the libraries of packaging/libraries.sh, on standard input, are of.
set -euo pipefail
files=()
while read -r _ file; do
    file=$(realpath "$file")
    files+=("$file" "${file#/usr}") # dpkg knows files by the names that they were unpacked under, with /usr or without
done
{ dpkg-query -S "${files[@]}" 2>/dev/null || true; } | cut -d: -f1 | sort -u
