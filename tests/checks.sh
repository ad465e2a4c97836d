#!/bin/bash
# Each check of `make check` finds what it is there for; see checks.py. usage: checks.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 -B "$(dirname "$0")/checks.py"
