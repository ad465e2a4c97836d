#!/bin/bash
# A few of the models of tools/prove_random_models.py: right exports and merges are proved, harmed copies found.
tool=$(realpath "$(dirname "$0")"/../tools/prove_random_models.py)
. "$(dirname "$0")"/story.bash
expect 0 "0 false alarms" python3 "$tool" "$drover" --models 2 --seed 7 --harmed 1
says ", 0 not found"
check "there were harmed copies" grep -Eq '; [1-9][0-9]+ harmed copies' out
# Width 2, where a norm amplifies rounding without bound, and a difference of one token alone.
expect 0 "0 false alarms" python3 "$tool" "$drover" --models 1 --seed 40000 --first 52 --harmed 0
expect 0 "0 false alarms" python3 "$tool" "$drover" --models 1 --seed 40000 --first 66 --harmed 0
finish
