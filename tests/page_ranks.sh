#!/bin/bash
# The page of a run of two ranks, and its posts of progress: one rank stands still (the watchdog fires, /healthz is 503),
# goes on, and is killed; in another run it stands still for good. See page_ranks.py. usage: page_ranks.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
. "$tests"/tls.bash
patient_mpirun
make_data
make_certificates
expect 0 "" python3 -B "$tests"/page_ranks.py "$drover"
finish
