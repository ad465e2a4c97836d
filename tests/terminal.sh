#!/bin/sh
# The status line on terminals of several widths; see terminal.py. usage: terminal.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")/terminal.py" "$drover"
