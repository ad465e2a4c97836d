#!/bin/sh
# Installs what the build needs from Debian when something is missing and this is root; else says what
# is missing. Nothing is done, and nothing is slow, when all is there.
set -e
packages="cmake make gcc libc6-dev pkg-config python3 git libdnnl-dev libyaml-dev libjansson-dev libxxhash-dev
libprotobuf-c-dev protobuf-c-compiler libutf8proc-dev libpcre2-dev libzstd-dev zlib1g-dev
liblz4-dev libsnappy-dev libcurl4-openssl-dev libssl-dev libcmocka-dev $*"
missing=
for p in $packages; do
    case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
    *" installed") ;;
    *) case $p in
        gcc | cmake | make | git | python3 | pkg-config) command -v "$p" >/dev/null 2>&1 && continue ;;
        esac
        missing="$missing $p" ;;
    esac
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "missing packages:$missing" >&2
    echo "as root on Debian: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null || true
apt-get install -y -q --no-install-recommends $missing >/dev/null
