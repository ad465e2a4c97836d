#!/bin/bash
# drover bench step --profile as text, JSON and a picture, alone and on two ranks; see bench_step.py. usage: bench_step.sh DROVER
. "$(dirname "$0")"/program.bash
exec python3 "$(dirname "$0")/bench_step.py" "$drover"
