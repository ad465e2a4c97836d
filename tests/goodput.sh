#!/bin/bash
# The ledger of a run of two ranks that is stopped and killed, against a driver that keeps a record of its own
# (bench/goodput.py; with 20 faults of five kinds it takes minutes).
here=$(realpath "$(dirname "$0")")
. "$here"/ranks.bash
expect 0 "good" python3 -B "$here"/../bench/goodput.py "$drover" 2 2 3
finish
