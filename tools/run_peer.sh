#!/bin/bash
# Runs a tool that compares drover with other programs, by the Python that DROVER_PEERS names (else python3). If one of its packages
# is missing, prints a line and exits 77, as a skipped test does.
# usage: tools/run_peer.sh PACKAGE,... TOOL ARGUMENT...
set -u
python=${DROVER_PEERS:-python3}
packages=$1
shift
if ! missing=$("$python" - "$packages" 2>/dev/null <<'PYTHON'
import importlib.util, sys
def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
print(" ".join(name for name in sys.argv[1].split(",") if not is_there(name)))
PYTHON
); then
    echo "$1 is skipped: \"$python\" did not run; DROVER_PEERS names a Python that has ${packages//,/, }"
    exit 77
fi
if [ -n "$missing" ]; then
    echo "$1 is skipped: \"$python\" has no $missing; DROVER_PEERS names a Python that has ${packages//,/, }"
    exit 77
fi
exec timeout 900 "$python" "$@"
