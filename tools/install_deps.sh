#!/bin/sh
# Looks for the programs and libraries that the build needs: programs by name, libraries by pkg-config, or by a header
# if they have no .pc file. Prints what is missing, and installs it as root on Debian. Arguments: more Debian packages.
# Prints and does nothing if everything is there. PACKAGES_ONLY=1 only prints what is missing.
cd "$(dirname "$0")/.." || exit 1

# what to look for   its name   Debian's package
needs='
program cmake cmake
program make make
program cc gcc
program pkg-config pkg-config
program python3 python3
program protoc-c protobuf-c-compiler
header stdio.h libc6-dev
library jansson libjansson-dev
library yaml-0.1 libyaml-dev
library libxxhash libxxhash-dev
library libprotobuf-c libprotobuf-c-dev
library libutf8proc libutf8proc-dev
library libpcre2-8 libpcre2-dev
library libzstd libzstd-dev
library zlib zlib1g-dev
library liblz4 liblz4-dev
library libcurl libcurl4-openssl-dev
library libcrypto libssl-dev
library ncursesw libncurses-dev
library libmicrohttpd libmicrohttpd-dev
header snappy-c.h libsnappy-dev
header cmocka.h libcmocka-dev
'
# Without these drover is built for one process: only installed as root, and not missed otherwise.
wishes='
library mpi-c libopenmpi-dev
program mpirun openmpi-bin
'
has() {
    case $1 in
    program) command -v "$2" >/dev/null 2>&1 ;;
    library) pkg-config --exists "$2" 2>/dev/null ;;
    header) printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$2" |
        "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    esac
}

missing= packages=
while read -r kind name package; do
    [ -z "$kind" ] || has "$kind" "$name" || {
        missing="$missing
  $kind $name (Debian: $package)"
        packages="$packages $package"
    }
done <<END
$needs
END
for package in "$@"; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
    *" installed") ;;
    *) packages="$packages $package" missing="$missing
  package $package" ;;
    esac
done
wished=
while read -r kind name package; do
    [ -z "$kind" ] || has "$kind" "$name" || wished="$wished $package"
done <<END
$wishes
END
if [ -n "$wished" ] && [ -z "$PACKAGES_ONLY" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    packages="$packages$wished" missing="$missing
  for more than one process:$wished"
fi
[ -n "$packages" ] || exit 0
echo "drover needs what is not here:$missing" >&2
if [ -n "$PACKAGES_ONLY" ] || ! command -v apt-get >/dev/null 2>&1; then
    exit 1
elif [ "$(id -u)" != 0 ]; then
    echo "as root: apt-get install --no-install-recommends$packages" >&2
    exit 1
fi
echo "installing from Debian:$packages" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null || true
# shellcheck disable=SC2086 # one word per package
apt-get install -y -q --no-install-recommends $packages >/dev/null || exit 1
