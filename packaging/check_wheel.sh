#!/bin/bash
# Tries a wheel as users have it: in roots of Debian 12, 13 and of the newest Ubuntu that can be had, each with python3-venv and
# nothing of drover's libraries, it is installed without network and trains. auditwheel and twine of PyPI look at it too. Needs
# root, mmdebstrap and network; a system that cannot be had is said and left out.
# It is made once more first, by another umask, and must have the same bytes.
# usage: packaging/check_wheel.sh WHEEL [FOLDER]   (WHEEL lies in its build; FOLDER keeps the roots as tarballs, for another time)
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
wheel=$(realpath "$1")
work=$(mktemp -d)
kept=${2:-$work/roots}
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept"
tried=0 failed=0
first=$(sha256sum <"$wheel")
(umask 077 && "$tree/tools/make_wheel.sh" "$(dirname "$wheel")" >/dev/null)
[ "$(sha256sum <"$wheel")" = "$first" ] || { echo "$wheel: another build of the same files has other bytes" >&2; exit 1; }

cat >"$work/try.sh" <<'SH'
set -eu
cd "$(mktemp -d)"
python3 -m venv venv
venv/bin/pip --isolated --disable-pip-version-check install -q --no-index /wheel/*.whl
best=1000000
for i in 1 2 3 4 5 6 7 8 9 10; do
    begin=$(date +%s%N); venv/bin/drover --version >version; took=$((($(date +%s%N) - begin) / 1000))
    [ $took -ge $best ] || best=$took
done
i=0
while [ $i -lt 2000 ]; do i=$((i + 1)); printf 'Document %d tells of the fox and %d lazy hens.\n\n' $i $((i * i % 97)); done >text.txt
venv/bin/drover tokenizer train --input text.txt --vocab-size 400 --out tok
venv/bin/drover data build --input text.txt --separator '\n\n' --tokenizer tok --out set --append-eod
printf '%s\n' 'model: {preset: tiny, vocab_size: 400}' 'tokenizer: tok' 'data: {train: set, sequence_length: 64}' \
    'training: {steps: 5, global_batch_size: 4}' >run.yaml
venv/bin/drover train run.yaml
venv/bin/drover generate runs/run --prompt "Document" --max-tokens 8 >/dev/null
venv/bin/drover doctor | grep -i libraries
! venv/bin/drover doctor | grep -q "not there"
. /etc/os-release
echo "$PRETTY_NAME: $(cat version) starts in $best us (the best of ten), $(venv/bin/python --version), $(venv/bin/pip --version | cut -d' ' -f1,2)"
SH

try() { # NAME TARBALL: unpacks it, and works there without network
    local root=$work/root
    mkdir "$root"
    tar -C "$root" --exclude='./dev/*' -xf "$2"
    mkdir -p "$root/wheel"
    cp "$wheel" "$root/wheel/"
    cp "$work/try.sh" "$root/"
    tried=$((tried + 1))
    # shellcheck disable=SC2016 # the inner shell's
    if ! unshare --mount --pid --net --fork sh -ec 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"
        exec env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/bin:/bin /usr/sbin/chroot "$0" sh /try.sh' "$root" >"$work/out" 2>&1; then
        failed=$((failed + 1))
        echo "$1: FAILED"
        cat "$work/out"
    else
        tail -n 2 "$work/out"
    fi
    rm -rf "$root"
}
for suite in bookworm trixie; do
    [ -e "$kept/$suite.tar" ] || mmdebstrap --variant=minbase --include=python3-venv --quiet $suite "$kept/$suite.tar" || { rm -f "$kept/$suite.tar"; echo "debian $suite: cannot be had"; continue; }
    try "debian $suite" "$kept/$suite.tar"
done
if ! compgen -G "$kept/ubuntu-*.tar" >/dev/null; then
    # Debian has no keyring of Ubuntu's; the archive has it, by https. 26.04, else 24.04.
    mirror=https://archive.ubuntu.com/ubuntu
    curl -fsSL --max-time 60 -o "$work/keyring.deb" $mirror/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb &&
        dpkg-deb -x "$work/keyring.deb" "$work/keyring" || :
    for suite in resolute noble; do
        mmdebstrap --variant=minbase --include=python3-venv --quiet --keyring="$work/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
            --components=main,universe $suite "$kept/ubuntu-$suite.tar" $mirror && break
        rm -f "$kept/ubuntu-$suite.tar"
        echo "ubuntu $suite: cannot be had"
    done
fi
for tarball in "$kept"/ubuntu-*.tar; do [ ! -e "$tarball" ] || try "$(basename "$tarball" .tar)" "$tarball"; done

if /usr/bin/python3 -m venv "$work/peer" && "$work/peer/bin/pip" -q install auditwheel twine; then
    "$work/peer/bin/twine" check --strict "$wheel"
    # Without the MPI module, which is opened only under mpirun and whose library is the system's.
    /usr/bin/python3 - "$wheel" "$work/$(basename "$wheel")" <<'PY'
import sys, zipfile
whole, module = zipfile.ZipFile(sys.argv[1]), "drover_mpi.so"
with zipfile.ZipFile(sys.argv[2], "w") as part:
    for item in whole.infolist():
        data = whole.read(item)
        if item.filename.endswith("/RECORD"):
            data = b"".join(line for line in data.splitlines(True) if module.encode() not in line)
        if not item.filename.endswith(module):
            part.writestr(item, data)
PY
    "$work/peer/bin/auditwheel" show "$work/$(basename "$wheel")" | tee "$work/audit"
    grep -q "\"$(sed 's/.*-none-\(.*\)\.whl/\1/' <<<"$wheel")\"" "$work/audit" || { echo "auditwheel names another tag" >&2; exit 1; }
else
    echo "auditwheel and twine cannot be had"
fi
echo "$tried systems tried, $failed failed"
[ $tried -gt 0 ] && [ $failed = 0 ]
