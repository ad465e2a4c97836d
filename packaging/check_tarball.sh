#!/bin/bash
# README's commands as a newcomer runs them: in a root of Debian that has nothing installed, not even git, as root, in a tarball of the
# last commit: apt-get install make, make run, make test. Prints the time of each. Needs root, git, mmdebstrap and network.
# usage: [SUITE=bookworm] packaging/check_tarball.sh [COMMAND...]   (another command than "make run" and "make test" in their place)
set -euo pipefail
tree=$(realpath "$(dirname "$0")/..")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# dpkg waits for the disk after each file, unless it is told that nobody minds a power cut.
mmdebstrap --variant=minbase --quiet --dpkgopt=force-unsafe-io "${SUITE:-bookworm}" "$root"
mkdir -p "$root/root/drover"
git -C "$tree" archive HEAD | tar -x -C "$root/root/drover"
cp -L /etc/hosts /etc/resolv.conf "$root/etc" 2>/dev/null || : # a machine knows its own name
inside() { # COMMAND
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork sh -ec 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"
        exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/chroot "$0" sh -ec "cd /root/drover; $1"' "$root" "$1"
}
inside "apt-get update -q >/dev/null; apt-get install -q -y make >/dev/null"
[ $# != 0 ] || set -- "make run" "make test"
for command in "$@"; do
    begin=$SECONDS
    inside "$command"
    echo "check_tarball: \"$command\" took $((SECONDS - begin)) s"
done
