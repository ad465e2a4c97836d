#!/bin/bash
# lintian, where it is installed, finds no error and no warning in a .deb, of whichever architecture; and the libraries that it
# needs have the same sonames on Debian 12 and 13, so that it can be installed on both. usage: packaging/check_deb.sh FILE.deb
set -euo pipefail
deb=$1
depends=$(dpkg-deb -f "$deb" Depends)
for package in libutf8proc libopenmpi; do
    [[ "$depends" != *$package* ]] || { echo "$deb depends on $package, whose soname is another one on Debian 13: $depends" >&2; exit 1; }
done
if ! command -v lintian >/dev/null; then
    echo "$(basename "$deb"): lintian is not installed, so it did not look"
    exit 0
fi
lintian --no-cfg --fail-on error,warning --allow-root "$deb"
echo "$(basename "$deb"): lintian finds no error and no warning"
