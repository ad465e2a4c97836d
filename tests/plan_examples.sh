#!/bin/bash
# The large layouts of examples/ on the numbers of ranks that stand in them ("# ranks: ..."): built, verified, simulated
# and planned, with the same share of the work on every number.
examples=$(cd "$(dirname "$0")/../examples" && pwd)
. "$(dirname "$0")"/story.bash
export DROVER_THREADS=2
planned=0
for file in $(grep -l '^# ranks:' "$examples"/*.yaml); do
    for ranks in $(sed -n 's/^# ranks://p' "$file"); do
        "$drover" plan "$file" --ranks "$ranks" --json >out 2>warnings
        planned=$((planned + 1))
        check "$(basename "$file") on $ranks ranks" python3 -c '
import json, sys
plan = json.load(open("out"))
bytes = plan["bytes"]
assert plan["ranks"] == int(sys.argv[1]), plan
assert bytes["total"] > bytes["weights"] > 1 << 26, bytes
assert all(w > 0 for axis, w in plan["wire_bytes"].items() if axis == "tensor"), plan
assert (plan["wire_bytes"].get("context", 0) > 0) == ("-context" in sys.argv[2]), plan
pipeline = plan.get("pipeline")
if pipeline:
    assert 0 < pipeline["bubble"] < 0.5 and len(pipeline["rank_bytes"]) == pipeline["ranks"], pipeline
    assert bytes["total"] == max(pipeline["rank_bytes"]), pipeline
' "$ranks" "$file"
    done
done
check "some were planned" test $planned -ge 4
finish
