#!/bin/bash
# Runs every command of docs/*.md and README.md as a reader would: the blocks marked ```sh of a page, in order, in an empty
# folder, with drover on the PATH. A block marked ```yaml whose first line is "# FILE" is written to FILE first. Other
# blocks (```console, ```text, ...) are not run. A page with a line "<!-- needs: FILE -->" is skipped where the file is
# missing, and says so. The last line is "N passed, N failed".
. "$(dirname "$0")"/program.bash
docs=$(realpath "$(dirname "$0")")/../docs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" && ln -s "$drover" "$dir/bin/drover"
export PATH=$dir/bin:$PATH
passed=0 failed=0

# The page as one script: set -e, a trace, files written from their blocks.
script_of() {
    echo 'set -eo pipefail'
    awk '/^```sh$/ { run = 1; print "echo \"## line " NR "\""; next }
         /^```yaml$/ { first = 1; next }
         /^```/ { if (file) print "END_OF_FILE"; run = file = first = 0; next }
         first { first = 0; if ($0 ~ /^# [^ ]+\.yaml$/) { file = 1; print "cat > " $2 " <<\"END_OF_FILE\"" } }
         run || file { print }' "$1"
}

for page in "$docs"/*.md; do
    script_of "$page" >"$dir/script"
    [ "$(grep -c '^## line' "$dir/script" || true)$(grep -c 'echo "## line' "$dir/script")" = 00 ] && continue
    name=$(basename "$page" .md)
    needs=$(sed -n 's/^<!-- needs: \(.*\) -->$/\1/p' "$page")
    if [ -n "$needs" ] && [ ! -e "${needs/#\~/$HOME}" ]; then
        echo "skipped: docs/$name.md needs $needs (tools/fetch_smollm2.sh fetches it)"
        continue
    fi
    mkdir "$dir/$name"
    if (cd "$dir/$name" && bash "$dir/script") >"$dir/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: docs/$name.md, in the block at $(grep '^## line' "$dir/out" | tail -n 1 | cut -c4-):"
        tail -n 15 "$dir/out" | sed 's/^/    /'
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
