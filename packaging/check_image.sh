#!/bin/bash
# Builds both variants of packaging/Containerfile and tries them: by buildah where that may build, else in chroots. The base is
# made by mmdebstrap, so no registry is asked. Needs root, mmdebstrap, network for Debian's packages.
# usage: packaging/check_image.sh [FOLDER]   (a new one; else a temporary one)
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cd "$tree"
# dpkg waits for the disk after each file, unless it is told that nobody minds a power cut.
[ -e "$work/base.tar" ] || mmdebstrap --variant=minbase --quiet --dpkgopt=force-unsafe-io bookworm "$work/base.tar"

try() { # RUN...: the command that runs words in the image as its user
    "$@" /usr/bin/drover --version
    [ "$("$@" /usr/bin/id -u)" = 1000 ]
    ! "$@" /usr/bin/test -w /usr/bin/drover
    "$@" /usr/bin/drover doctor --node /tmp/run --seconds 0.5
    local said # its status is 1 where one of the two is slower: they share a machine
    said=$("$@" /usr/bin/mpirun --oversubscribe -n 2 /usr/bin/drover doctor --node /tmp/run --seconds 0.5 --json 2>/dev/null || :)
    grep -q '"node": 1' <<<"$said"
}
has_sshd() { # which says its version, and ends with 1
    local said
    said=$("$@" /usr/sbin/sshd -V 2>&1 || :)
    grep -q OpenSSH <<<"$said"
}
has_no_sshd() { ! "$@" /usr/bin/test -e /usr/sbin/sshd; }

# Building is tried by a first step that costs nothing. The driver vfs copies a whole root for each image and each container, the
# driver overlay does not, but needs a file system that lets it.
buildah_may() {
    command -v buildah >/dev/null || return 1
    local one
    for driver in overlay vfs; do
        one=$(by_buildah from scratch 2>/dev/null) &&
            by_buildah add -q "$one" "$work/base.tar" / >/dev/null 2>&1 &&
            by_buildah run --isolation chroot "$one" /bin/true 2>/dev/null &&
            by_buildah commit -q "$one" localhost/drover-base >/dev/null && return
    done
    return 1
}
by_buildah() { buildah --storage-driver "$driver" --root "$work/$driver" "$@"; }
build() { by_buildah build --isolation chroot --build-arg BASE=localhost/drover-base -f "$@" .; }
if buildah_may; then
    echo "image: by buildah, on $driver"
    build packaging/Containerfile --target node -t localhost/drover-node
    # Its own lines alone, from the image that it begins with: for all of them buildah would build the program again, or copy a
    # root for each instruction (--layers).
    sed '/^FROM node AS mpi/,/^CMD/!d; s|^FROM node AS mpi|FROM localhost/drover-node|' packaging/Containerfile >"$work/mpi"
    build "$work/mpi" -t localhost/drover-mpi
    for variant in node mpi; do
        made=$(by_buildah from "localhost/drover-$variant")
        inside() { by_buildah run --isolation chroot "$made" "$@"; }
        try inside
        if [ $variant = node ]; then has_no_sshd inside; else has_sshd inside; fi
        entry=$(by_buildah inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' "localhost/drover-$variant")
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
        if [ $variant = node ]; then has_no_sshd inside; else has_sshd inside; fi
    done
fi
echo "image: both variants run"
[ $# = 1 ] || rm -rf "$work"
