#!/bin/bash
# What a run writes for programs, read back; see metrics.py. usage: metrics.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
expect 0 "" "${preload[@]}" python3 -B "$tests"/metrics.py "$drover"
finish
