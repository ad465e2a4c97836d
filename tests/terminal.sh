#!/bin/bash
# The status line on terminals of several widths; see terminal.py. usage: terminal.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
python3 -B "$tests"/terminal.py "$drover"
