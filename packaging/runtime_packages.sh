#!/bin/bash
# Prints Debian's packages that a built drover needs to run: those of its libraries, and Open MPI.
# usage: packaging/runtime_packages.sh BUILD
set -euo pipefail
here=$(dirname "$0")
libraries=$("$here/libraries.sh" "$1")
"$here/packages_of.sh" <<<"$libraries"
echo openmpi-bin
