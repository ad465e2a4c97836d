#!/bin/sh
# Checks the layout of every C file with .clang-format. Versions of clang-format differ in their results, so only
# version 14 (Debian 12's) counts; without it the script checks nothing and says so.
cd "$(dirname "$0")/.."
for f in clang-format-14 clang-format; do
    case $("$f" --version 2>/dev/null) in *"version 14."*) formatter=$f; break ;; esac
done
if [ -z "$formatter" ]; then
    echo "format: not checked, clang-format 14 is not here"
    exit 0
fi
# An export without git has no list of files: then they are looked for.
files=$(git ls-files '*.c' '*.h' 2>/dev/null) || files=
[ -n "$files" ] || files=$(find src tests bench -name '*.[ch]')
if [ -z "$files" ]; then
    echo "format: no C files found in $(pwd)" >&2
    exit 1
fi
echo "$files" | xargs -n 50 -P "$(nproc)" "$formatter" --dry-run --Werror || exit 1
echo "format: ok, $(echo "$files" | wc -l) files"

