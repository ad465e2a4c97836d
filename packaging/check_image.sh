#!/bin/bash
# Builds both variants of packaging/Containerfile and tries them: by buildah where that may build, else in chroots. The base is
# made by mmdebstrap, so no registry is asked. Needs root, mmdebstrap, network for Debian's packages.
# usage: packaging/check_image.sh [FOLDER]   (a new one; else a temporary one)
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cd "$tree"
[ -e "$work/base.tar" ] || mmdebstrap --variant=minbase --quiet bookworm "$work/base.tar"

try() { # RUN...: the command that runs words in the image as its user
    "$@" /usr/bin/drover --version
    [ "$("$@" /usr/bin/id -u)" = 1000 ]
    ! "$@" /usr/bin/test -w /usr/bin/drover
    "$@" /usr/bin/drover doctor --node /tmp/run --seconds 0.5
    local said # its status is 1 where one of the two is slower: they share a machine
    said=$("$@" /usr/bin/mpirun --oversubscribe -n 2 /usr/bin/drover doctor --node /tmp/run --seconds 0.5 --json 2>/dev/null || :)
    grep -q '"node": 1' <<<"$said"
}
has_no_sshd() { ! "$@" /usr/bin/test -e /usr/sbin/sshd; }

# Building is tried by a first step that costs nothing.
buildah_may() {
    command -v buildah >/dev/null || return 1
    local one
    one=$(buildah --storage-driver vfs from scratch 2>/dev/null) || return 1
    buildah --storage-driver vfs add -q "$one" "$work/base.tar" / >/dev/null 2>&1 &&
        buildah --storage-driver vfs run --isolation chroot "$one" /bin/true 2>/dev/null &&
        buildah --storage-driver vfs commit -q "$one" localhost/drover-base >/dev/null
}
if buildah_may; then
    echo "image: by buildah"
    for variant in node mpi; do
        buildah --storage-driver vfs build --isolation chroot --build-arg BASE=localhost/drover-base --target $variant \
            -t "localhost/drover-$variant" -f packaging/Containerfile .
        made=$(buildah --storage-driver vfs from "localhost/drover-$variant")
        inside() { buildah --storage-driver vfs run --isolation chroot "$made" "$@"; }
        try inside
        if [ $variant = node ]; then has_no_sshd inside; else inside /usr/sbin/sshd -V 2>&1 | grep -q OpenSSH; fi
        entry=$(buildah --storage-driver vfs inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' "localhost/drover-$variant")
        [ $variant = mpi ] || [ "$entry" = "[/usr/bin/drover launch node]" ]
    done
else
    echo "image: in chroots, since buildah may not build here"
    packaging/build_in_chroot.py "$work/base.tar" "$work/roots"
    for variant in node mpi; do
        inside() {
            # shellcheck disable=SC2016 # the inner shell's
            unshare --mount --pid --fork sh -ec 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec env -i HOME=/home/drover PATH=/usr/bin:/bin /usr/sbin/chroot --userspec=1000:1000 "$0" "$@"' "$work/roots/$variant" "$@"
        }
        try inside
        if [ $variant = node ]; then has_no_sshd inside; else inside /usr/sbin/sshd -V 2>&1 | grep -q OpenSSH; fi
    done
fi
echo "image: both variants run"
[ $# = 1 ] || rm -rf "$work"
