#!/bin/bash
# Tries what was packed for arm64, under qemu: the .deb says its architecture, and needs the libraries that the x86 one needs; the
# program of the wheel runs with the wheel's libraries, trains, and resumes. lintian looks at the .deb (check_deb.sh).
# usage: packaging/check_arm64.sh BUILD
set -euo pipefail
build=$(realpath "$1")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
fail() { echo "packaging/check_arm64.sh: $*" >&2; exit 1; }
deb=("$build"/drover_*_arm64.deb) wheel=("$build"/drover-*_aarch64.whl)
said() { dpkg-deb -f "${deb[0]}" "$1"; }
[ "$(said Architecture)" = arm64 ] || fail "${deb[0]} is for $(said Architecture), expected arm64"
for library in libc6 libjansson4 libpcre2-8-0 libcurl4 libssl3 libsnappy1v5; do
    [[ ", $(said Depends)," == *", $library "* ]] || fail "${deb[0]} does not depend on $library: $(said Depends)"
done
"$(dirname "$0")/check_deb.sh" "${deb[0]}"
dpkg-deb -x "${deb[0]}" "$made/deb"
/usr/bin/python3 -m zipfile -e "${wheel[0]}" "$made/wheel"
# As pip lays it out.
mkdir "$made/environment"
mv "$made"/wheel/*.data/data/* "$made"/wheel/*.data/scripts "$made/environment/"
mv "$made/environment/scripts" "$made/environment/bin"
chmod +x "$made/environment/bin/drover"
cd "$made"
for i in $(seq 200); do printf 'Fox %d is quicker than dog %d.\n\n' "$i" $((i * 7 % 31)); done >text.txt
cat >run.yaml <<'YAML'
model: {preset: tiny, vocab_size: 300, num_hidden_layers: 1}
tokenizer: tok
data: {train: set, sequence_length: 32}
training: {steps: 2, global_batch_size: 2}
checkpoint: {every: 1}
YAML
export DROVER_PEAK_FLOPS=1e11 DROVER_THREADS=1
for program in deb/usr/bin/drover environment/bin/drover; do
    rm -rf tok set runs
    qemu-aarch64-static $program tokenizer train --input text.txt --vocab-size 300 --out tok
    qemu-aarch64-static $program data build --input text.txt --separator '\n\n' --tokenizer tok --out set --append-eod
    qemu-aarch64-static $program train run.yaml
    model=runs/run/checkpoints/step-000002/model.safetensors
    [ -e $model ] || fail "$program wrote no checkpoint"
    cp $model straight.safetensors
    rm -r runs/run/checkpoints/step-000002
    qemu-aarch64-static $program train run.yaml >out 2>&1 || fail "$program does not resume: $(cat out)"
    grep -q "resumed from runs/run/checkpoints/step-000001" out || fail "$program does not say that it resumed: $(cat out)"
    cmp $model straight.safetensors || fail "$program: a resumed run has another model"
done
LD_DEBUG=files qemu-aarch64-static environment/bin/drover doctor >out 2>&1 || :
grep -q "calling init: $made/environment/bin/../lib/drover/lib/libjansson" out || fail "the wheel's program does not use the wheel's libraries"
echo "arm64: $(basename "${deb[0]}") and $(basename "${wheel[0]}") run"
