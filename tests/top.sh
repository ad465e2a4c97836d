#!/bin/bash
# The status line on terminals of several widths; see top.py. usage: terminal.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")/top.py" "$drover"
