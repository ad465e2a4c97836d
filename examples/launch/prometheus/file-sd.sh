#!/bin/sh
# Writes the targets of a Prometheus from the http.json of runs: file-sd.sh FOLDER_OF_RUNS TARGETS.json, as a user who may
# read them. A run that has ended has no http.json; one that was killed keeps it until it is started again.
set -eu
[ $# = 2 ] || { echo "usage: $0 FOLDER_OF_RUNS TARGETS.json" >&2; exit 2; }
{
    echo '['
    separator=
    for file in "$1"/*/http.json; do
        [ -r "$file" ] || continue
        address=$(sed -n 's/^ *"address": "\([^"\\]*\)".*/\1/p' "$file")
        run=$(basename "$(dirname "$file")" | tr -d '"\\[:cntrl:]')
        [ -n "$address" ] || continue
        printf '%s  {"targets": ["%s"], "labels": {"run": "%s"}}' "$separator" "$address" "$run"
        separator=',
'
    done
    printf '\n]\n'
} >"$2.new"
mv "$2.new" "$2"
