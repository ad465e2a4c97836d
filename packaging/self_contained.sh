#!/bin/bash
# Installs a built drover into a new folder, so that it runs from wherever that is put: bin/drover, lib/drover/lib with the
# libraries of packaging/libraries.sh, the MPI module, docs, and the licence of each library as Debian's package has it. It needs
# the C library of the system where it was built, or a newer one; what the module needs, Open MPI, stays the system's, since mpirun
# is. Needs patchelf. usage: packaging/self_contained.sh BUILD FOLDER
set -euo pipefail
here=$(dirname "$0")
. "$here/built.bash"
top=$2

DESTDIR='' cmake --install "$build" --prefix "$top" --strip >/dev/null
inside=$top/lib/drover/lib licences=$top/share/doc/drover/licences
mkdir -p "$inside"
libraries=$("$here/libraries.sh" "$build")
while read -r name path; do
    install -m 644 "$path" "$inside/$name"
    # RPATH, not RUNPATH: it also holds for what the libraries themselves need.
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$inside/$name"
done <<<"$libraries"
# utf8proc is in the program itself.
{ echo "$libraries"; sed -n 's/^UTF8PROC:FILEPATH=/utf8proc /p' "$build/CMakeCache.txt"; } | "$here/packages_of.sh" | while read -r package; do
    [ ! -e "/usr/share/doc/$package/copyright" ] || install -D -m 644 "/usr/share/doc/$package/copyright" "$licences/$package"
done
patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/drover/lib" "$top/bin/drover"
