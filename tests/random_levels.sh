#!/bin/bash
# Random small models have the same bits on every level of CPU kernels and any number of threads. usage: random_levels.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")"/../tools/random_levels.py "$drover" "${DROVER_MODELS:-20}" "${DROVER_SEED:-1}"
