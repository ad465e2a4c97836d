#!/bin/sh
# What a run writes for programs, read back; see metrics.py. usage: metrics.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")/metrics.py" "$drover"
