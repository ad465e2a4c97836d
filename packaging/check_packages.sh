#!/bin/bash
# Tries the wheel, the .deb and the tarball as docs/install.md tells users to install them: in roots of Debian 12, 13 and of the
# newest Ubuntu that can be had, each with python3-venv and nothing of drover's libraries. The wheel and the tarball have no
# network there, apt has. Each program tokenises, trains, exports and generates; the .deb's also on two ranks of that system's Open
# MPI, whose model must be the one of one rank, byte for byte. lintian looks at the .deb, auditwheel and twine of PyPI at the wheel,
# which is made once more, by another umask, and must have the same bytes. Needs root, mmdebstrap and network; a system that
# cannot be had is said and left out.
# usage: packaging/check_packages.sh BUILD [FOLDER]   (after make package wheel bundle; FOLDER keeps the roots for another time)
set -euo pipefail
here=$(dirname "$0")
. "$here/built.bash"
tree=$(realpath "$here/..")
work=$(mktemp -d)
kept=${2:-$work/roots}
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept" "$work/packages"
wheel=("$build/drover-$version"-*.whl)
deb=$build/drover_${version}_$(dpkg --print-architecture).deb
cp "${wheel[0]}" "$deb" "$build/drover-$version-linux-$machine.tar.gz" "$work/packages/"

"$here/check_deb.sh" "$deb"
first=$(sha256sum <"${wheel[0]}")
(umask 077 && "$tree/tools/make_wheel.sh" "$build" >/dev/null)
[ "$(sha256sum <"${wheel[0]}")" = "$first" ] || { echo "${wheel[0]}: another build of the same files has other bytes" >&2; exit 1; }

# --- what runs in a root; /packages has the files
cat >"$work/story.sh" <<'SH'
# usage: story.sh DROVER FOLDER: a user's first minutes, in a new folder.
set -eu
drover=$1
mkdir "$2" && cd "$2"
i=0
while [ $i -lt 2000 ]; do i=$((i + 1)); printf 'Document %d tells of the fox and %d lazy hens.\n\n' $i $((i * i % 97)); done >text.txt
"$drover" tokenizer train --input text.txt --vocab-size 400 --out tok
"$drover" data build --input text.txt --separator '\n\n' --tokenizer tok --out set --append-eod
printf '%s\n' 'model: {preset: tiny, vocab_size: 400}' 'tokenizer: tok' 'data: {train: set, sequence_length: 64}' \
    'training: {steps: 20, global_batch_size: 4, micro_batch_size: 1}' >run.yaml
"$drover" train run.yaml
"$drover" ckpt export runs/run --out published --dtype bf16
[ -s published/model.safetensors ]
"$drover" generate published --prompt "Document" --max-tokens 8 >/dev/null
SH
cat >"$work/wheel.sh" <<'SH'
set -eu
cd /root
python3 -m venv venv
venv/bin/pip --isolated --disable-pip-version-check install -q --no-index /packages/*.whl
sh /story.sh /root/venv/bin/drover /root/by_wheel
venv/bin/drover data get http://127.0.0.1:9/x --out x >said 2>&1 || : # it opens libcurl
grep '127.0.0.1' said
! grep 'cannot be loaded' said || exit 1
best=1000000
for i in 1 2 3 4 5 6 7 8 9 10; do
    begin=$(date +%s%N); venv/bin/drover --version >version; took=$((($(date +%s%N) - begin) / 1000))
    [ $took -ge $best ] || best=$took
done
venv/bin/pip --isolated uninstall -q -y drover
[ -z "$(find venv -name '*drover*')" ]
echo "$(cat version) starts in $best us (the best of ten), $(venv/bin/python --version), $(venv/bin/pip --version | cut -d' ' -f1,2)"
SH
cat >"$work/tarball.sh" <<'SH'
set -eu
cd /opt
tar -xzf /packages/*.tar.gz
cd drover-*
sha256sum -c --quiet SHA256SUMS
sh /story.sh "$PWD/bin/drover" /root/by_tarball
bin/drover data get http://127.0.0.1:9/x --out x >said 2>&1 || : # it opens libcurl
grep '127.0.0.1' said
! grep 'cannot be loaded' said || exit 1
SH
cat >"$work/deb.sh" <<'SH'
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
# Without what it recommends: it runs, and what is missing is said in one line, with a package that this system has.
apt-get install -y -q --no-install-recommends /packages/*.deb >/dev/null
sh /story.sh /usr/bin/drover /root/by_deb
cd /root/by_deb
drover doctor | grep libraries
missing() { # PACKAGE COMMAND...
    package=$1
    shift
    "$@" >out 2>&1 || :
    grep -q "apt-get install $package" out || { cat out; echo "the program does not say that $package is missing: $*"; exit 1; }
    apt-get install -q -s --no-install-recommends "$package" >/dev/null
}
missing openmpi-bin env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 drover train run.yaml --set run_dir=alone
missing libmicrohttpd12 drover train run.yaml --set run_dir=page --set training.http=0 --set training.steps=1
apt-get purge -y -q drover >/dev/null
[ -z "$(find /usr -name '*drover*')" ]

# With what it recommends: several ranks, and a page.
apt-get install -y -q /packages/*.deb >/dev/null
mpirun --version | head -n 1
# The .deb's program, and the tarball's, whose own libraries are loaded before Open MPI's.
for program in /usr/bin/drover /opt/drover-*/bin/drover; do
    rm -rf ranks
    mpirun --oversubscribe --allow-run-as-root -n 2 "$program" train run.yaml --set run_dir=ranks --set parallel.tensor=2 >out 2>&1 || { cat out; exit 1; }
    grep "2 ranks on 1 host over MPI" out
    cmp runs/run/checkpoints/step-000020/model.safetensors ranks/checkpoints/step-000020/model.safetensors
done
drover train run.yaml --set run_dir=page --set training.http=0 --set training.steps=1 >out 2>&1 || { cat out; exit 1; }
grep -q "http://127.0.0.1:" out || { cat out; echo "no page"; exit 1; }
[ -s /usr/share/man/man1/drover.1.gz ] && [ -s /usr/share/bash-completion/completions/drover ]
echo "$(dpkg-query -W -f '${Package} ${Version}' drover) on one rank and two"
SH

tried=0 failed=0
try() { # NAME TARBALL: unpacks it, and tries each package there
    local root=$work/root how network
    mkdir "$root"
    tar -C "$root" --exclude='./dev/*' -xf "$2"
    cp -r "$work/packages" "$work"/*.sh "$root/"
    cp -L /etc/resolv.conf "$root/etc/"
    for how in tarball wheel deb; do
        tried=$((tried + 1))
        network=(--net)
        [ $how != deb ] || network=()
        # shellcheck disable=SC2016 # the inner shell's
        if unshare --mount --pid "${network[@]}" --fork sh -ec 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"
            exec env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/chroot "$0" sh "$1"' "$root" "/$how.sh" >"$work/out" 2>&1; then
            echo "$1, $how: $(grep -E '^libraries|over MPI|Open MPI|^drover .* starts|on one rank' "$work/out" | tr '\n' ';')"
        else
            failed=$((failed + 1))
            echo "$1, $how: FAILED"
            cat "$work/out"
        fi
    done
    rm -rf "$root"
}
make_root() { # TARBALL SUITE [OPTION...]
    [ -e "$1" ] || mmdebstrap --format=tar --variant=minbase --include=python3-venv,ca-certificates --quiet "${@:3}" "$2" "$1.tmp" "${mirror[@]}" || {
        rm -f "$1.tmp"; echo "$2: cannot be had"; return 1; }
    [ -e "$1" ] || mv "$1.tmp" "$1"
}
mirror=()
for suite in bookworm trixie; do
    ! make_root "$kept/$suite.tar" $suite || try "Debian $suite" "$kept/$suite.tar"
done
mirror=(https://archive.ubuntu.com/ubuntu)
# Debian has no keyring of Ubuntu's; the archive has it, by https. 26.04, else 24.04.
if ! compgen -G "$kept/ubuntu-*.tar" >/dev/null; then
    curl -fsSL --max-time 60 -o "$work/keyring.deb" "${mirror[0]}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb" &&
        dpkg-deb -x "$work/keyring.deb" "$work/keyring" || :
fi
for suite in resolute noble; do
    ! make_root "$kept/ubuntu-$suite.tar" $suite --components=main,universe \
        --keyring="$work/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg" || { try "Ubuntu $suite" "$kept/ubuntu-$suite.tar"; break; }
done

if /usr/bin/python3 -m venv "$work/peer" && "$work/peer/bin/pip" -q install auditwheel twine; then
    "$work/peer/bin/twine" check --strict "${wheel[0]}"
    # Without the MPI module, which is opened only under mpirun and whose library is the system's.
    /usr/bin/python3 - "${wheel[0]}" "$work/$(basename "${wheel[0]}")" <<'PY'
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
    "$work/peer/bin/auditwheel" show "$work/$(basename "${wheel[0]}")" | tee "$work/audit"
    grep -q "\"$(sed 's/.*-none-\(.*\)\.whl/\1/' <<<"${wheel[0]}")\"" "$work/audit" || { echo "auditwheel names another tag" >&2; exit 1; }
else
    echo "auditwheel and twine cannot be had"
fi
echo "$tried tries, $failed failed"
[ $tried -gt 0 ] && [ $failed = 0 ]
