#!/bin/bash
# Curves of runs, drawn and read back; see plot.py. usage: plot.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")/plot.py" "$drover"
