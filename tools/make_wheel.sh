#!/bin/bash
# Makes BUILD/drover-VERSION-py3-none-manylinux_2_N_MACHINE.whl, which pip installs: the program itself as the script "drover", no
# line of Python, with its libraries, MPI module, man page and completion below lib/ and share/ of the environment. N is that of
# the highest GLIBC_2.N that a file in it asks for. Times are SOURCE_DATE_EPOCH, by default the commit's, so that the same files
# make the same bytes. Needs patchelf and Debian's python3-wheel. usage: tools/make_wheel.sh BUILD
set -euo pipefail
umask 022
tree=$(realpath "$(dirname "$0")/..")
. "$tree/packaging/built.bash"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$tree" log -1 --format=%ct 2>/dev/null || echo 315532800)} # zip begins in 1980
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$tree/packaging/self_contained.sh" "$build" "$made/installed"

# .data/scripts become ENVIRONMENT/bin, .data/data ENVIRONMENT: the program finds its libraries as in the installed folder.
name=drover-$version
data=$made/wheel/$name.data
about=$made/wheel/$name.dist-info
mkdir -p "$data/scripts" "$data/data/share" "$about/licenses"
mv "$made/installed/bin/drover" "$data/scripts/"
mv "$made/installed/lib" "$data/data/"
# Also where they lie in the wheel, for programs that look at it there (auditwheel).
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/drover/lib:\$ORIGIN/../data/lib/drover/lib" "$data/scripts/drover"
mv "$made/installed/share/man" "$made/installed/share/bash-completion" "$data/data/share/"
mv "$made/installed/share/doc/drover/licences" "$about/licenses/libraries"
cp "$tree/LICENSE" "$about/licenses/"

# The versions of the C library's functions that the files ask for.
glibc=$(find "$data" -type f \( -name '*.so' -o -name '*.so.*' -o -name drover \) ! -path '*/share/*' -exec readelf -VW {} + |
    sed -n 's/.*Name: GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
[ -n "$glibc" ] || { echo "no file of the wheel names a version of the C library" >&2; exit 1; }
cat >"$about/WHEEL" <<TEXT
Wheel-Version: 1.0
Generator: drover $version
Root-Is-Purelib: false
Tag: py3-none-manylinux_2_${glibc}_$machine
TEXT
{
    cat <<TEXT
Metadata-Version: 2.4
Name: drover
Version: $version
Summary: Llama trainer in one program, from text to a Hugging Face folder
License-Expression: Apache-2.0
License-File: LICENSE
TEXT
    find "$about/licenses/libraries" -type f -printf 'License-File: libraries/%P\n' | LC_ALL=C sort
    cat <<TEXT
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Description-Content-Type: text/markdown

# drover

drover trains Llama models and their relatives: one C program that takes text to a model that any Hugging Face tool loads.
This wheel has the program, which needs no Python to run, and the libraries that it uses, under the licences in
\`$name.dist-info/licenses/libraries\`. \`drover help\` tells the rest; \`man -M ENVIRONMENT/share/man drover\` is its manual.
Several ranks need Open MPI (4.1 or 5) of the system.
TEXT
} >"$about/METADATA"

# Debian's Python, which has python3-wheel, whatever else is called python3 here. It writes RECORD, with a hash of each file.
/usr/bin/python3 -m wheel pack --dest-dir "$made" "$made/wheel" >/dev/null
rm -f "$build"/drover-*.whl
mv "$made"/drover-*.whl "$build/"
echo "$build"/drover-*.whl
