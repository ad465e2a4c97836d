#!/bin/bash
# drover launch node --preflight: four nodes on this machine are measured before the first attempt, one of which has less memory
# than the others; it is named, and left out while a spare one is there; a node that comes is measured before the attempt that
# takes it. What is fast on a busy machine says nothing: whether others are named, too, is not looked at. Needs mpirun and
# drover_mpi.so. usage: launch_preflight.sh DROVER
. "$(dirname "$0")"/nodes.bash
sanitized && { echo "skipped: AddressSanitizer's program does not start where memory is bounded"; finish; exit; }
expect 2 '--preflight is "x", expected off, warn or exclude' "$drover" launch node run.yaml --preflight x
expect 2 "--preflight-seconds needs --preflight" "$drover" launch node run.yaml --preflight-seconds 1
sed -i 's/checkpoint:.*/checkpoint: {every: 10, keep: 2}/; s/training: {/training: {steps: 100000, /; s/, steps: 6//; s/num_hidden_layers: 2/num_hidden_layers: 3/' run.yaml
opts="--max-restarts 3 --wait 60 --preflight exclude --preflight-seconds 0.2 --spare-nodes 1 --set parallel.pipeline=3 --set run_dir=run"

node 0 4 $opts
(ulimit -v 1000000 && exec timeout -s KILL $LIMIT "$drover" launch node run.yaml --nodes 4 --node-rank 2 --master $address:$port $opts) >node-2.out 2>&1 &
pids[2]=$!
for i in 1 3; do node $i 4 $opts; done
finished run 5
told 0 "measuring 4 nodes" "node 2 ($(hostname)) is an outlier: " "free memory 0." "it is used only if no other node is left"
daemon_and_rank() { [ -n "$(daemon_of "$1")" ] && [ -n "$(rank_of "$1")" ]; } 2>/dev/null # I
only_waits() { [ -n "$(launcher "$1")" ] && [ -z "$(daemon_of "$1")" ]; } # I
check "the node with little memory is left out" only_waits 2
check "the spare one is in its place" daemon_and_rank 3
kill -KILL "$(launcher 2)"
node 2x 4 $opts # a new process, which nobody has measured
follows grep -q "node 2 (.*) is connected" node-0.out
check "while it waits nothing is measured" [ "$(grep -c ^measuring node-0.out)" = 1 ]
strike run KILL "$(launcher 3)" $(descendants "$(launcher 3)")
check "it takes that place" daemon_and_rank 2x
check "it is measured before the attempt that takes it" grep -q "^measuring 3 nodes" node-0.out
kill -TERM "$(launcher 0)"
ended "all that are left" 3 0 1 2x
nothing_left
check "nothing of the checks is left" [ -z "$(ls -A run | grep drover-node)" ]
finish
