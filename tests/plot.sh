#!/bin/sh
# Curves of runs, drawn and read back; see plot.py. usage: plot.sh DROVER
exec python3 "$(dirname "$0")/plot.py" "$1"
