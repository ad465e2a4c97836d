#!/bin/bash
# What ranks send in a step is on average what drover plan says (shards are not all of one size), and less than 100
# bytes by which ranks agree, and 16 to each other rank whenever they ask for a stop: twice a second, so after each micro-batch or
# round of a pipeline where the machine is slow. There are at most ten of them, with four micro-batches in two stages. Needs mpirun
# and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 2, log_every: 1/' run.yaml

sends_as_planned() { # RANKS SETTING...: in the last step
    local n=$1 sets=()
    shift
    for set in "$@"; do sets+=(--set "$set"); done
    rm -rf wire
    train "$n" wire "$@" >train.log 2>&1 && "$drover" plan run.yaml --ranks "$n" --json "${sets[@]}" >plan.json || return 1
    python3 -c '
import json
plan = json.load(open("plan.json"))
stages = plan.get("pipeline", {}).get("rank_wire_bytes") or [sum(plan["wire_bytes"].values())]
planned = sum(stages) / len(stages)
sent = [s["rank_sent_bytes"] for s in map(json.loads, open("wire/metrics.jsonl")) if "loss" in s][-1]
print("planned", planned, "sent", sent)
mean = sum(sent) / len(sent)
assert planned > 1000 and 0 <= mean - planned < 100 + 10 * 16 * (len(sent) - 1)'
}
check "data 2, ZeRO-1" sends_as_planned 2
check "data 2, ZeRO 0" sends_as_planned 2 parallel.zero=0
check "data 2, ZeRO-2" sends_as_planned 2 parallel.zero=2
check "data 2, ZeRO-2, two accumulation groups" sends_as_planned 2 parallel.zero=2 parallel.accumulation_groups=2
check "data 2, ZeRO-3" sends_as_planned 2 parallel.zero=3
check "tensor 2" sends_as_planned 2 parallel.tensor=2 parallel.sequence=false
check "tensor 2, sequence, data 2" sends_as_planned 4 parallel.tensor=2
check "pipeline 2" sends_as_planned 2 parallel.pipeline=2
check "pipeline 2, data 2, ZeRO-2" sends_as_planned 4 parallel.pipeline=2 parallel.zero=2
check "tensor 2, pipeline 2, data 2" sends_as_planned 8 parallel.tensor=2 parallel.pipeline=2
check "context 2" sends_as_planned 2 parallel.context=2
finish
