#!/bin/bash
# What becomes of jobs of `drover launch node --max-restarts` when something fails: four nodes on this machine, faults in the
# midst, and the bytes of a run that nothing happened to. A rank, a daemon, a node and a connection are lost, a rank hangs, a
# signal stops it, it fails in ways that no restart helps. Every wait has a limit. Needs mpirun and drover_mpi.so.
# usage: launch_supervise.sh DROVER
. "$(dirname "$0")"/nodes.bash
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 3/; s/checkpoint:.*/checkpoint: {every: 20, keep: 0}/' run.yaml
echo 'parallel: {lanes: 4}' >>run.yaml
sed -i 's/training: {/training: {log_every: 10, /' run.yaml
restarts() { grep -c '"event":"restart"' "$1/events.jsonl"; } # RUN
finished() { wait_for grep -q "\"step\":$2," "$1/metrics.jsonl"; } # RUN STEP
again() { # RUN N: after restart N the new world has begun its first step
    wait_for eval "[ \$(restarts $1) -ge $2 ]"
    wait_for eval "grep '\"event\":\"running\"' $1/events.jsonl | tail -n 1 | grep -q '\"attempt\":$(($2 + 1)),'"
}
same_bits() { # RUN STEP...: as a run of one rank that nothing happened to
    local run=$1 step
    shift
    for step in "$@"; do check "$run: the bits of step $step" test "$(sums "$run" "$step")" = "$(sums one "$step")"; done
}
"$drover" train run.yaml --set run_dir=one --set training.steps=200 >one.out 2>&1 &
one=$!

# --- what is wrong is said before anything starts
wrong() { # TEXT ARGUMENT...
    local text=$1
    shift
    expect 2 "$text" "$drover" launch node run.yaml --nodes 4 --node-rank 0 --master 127.0.0.1:29400 "$@"
    check "one line" [ "$(wc -l <out)" = 1 ]
}
wrong "--min-nodes 5, expected at most the 4 nodes" --min-nodes 5 --max-restarts 3
wrong "--min-nodes 4, expected at most the 3 nodes that are no spare ones" --min-nodes 4 --spare-nodes 1 --max-restarts 3
wrong "--spare-nodes 4, expected fewer than the 4 nodes" --spare-nodes 4 --max-restarts 3
wrong "--restart-window is \"1y\", expected a time" --restart-window 1y --max-restarts 3
wrong "--grow-after is \"-1s\", expected a time" --grow-after -1s --max-restarts 3
expect 0 "restart at once; the same host twice in the window: excluded" "$drover" launch node run.yaml --nodes 4 --node-rank 0 --master 127.0.0.1:29400 --max-restarts 3 --min-nodes 2 --explain
says "no restart: another try gives the same bits" "at most 3 restarts within 1 h, worlds of at least 2 nodes"

# --- a rank, a node whose place a spare one takes, a daemon of a host that has failed before, and the nodes that come back
wait $one
check "one rank alone: exit $?" [ $? = 0 ]
port=$(free_port)
opts="--max-restarts 9 --spare-nodes 1 --min-nodes 2 --grow-after 1s --wait 60 --set parallel.pipeline=3 --set training.steps=200"
for i in 3 1 0 2; do node $i 4 $opts --set run_dir=all; done
finished all 5
kill -KILL "$(rank_of 1)"
again all 1
kill -KILL "$(launcher 2)" $(descendants "$(launcher 2)")
again all 2
told 0 "lost on node 2"
node 2x 4 $opts --set run_dir=all # comes back as the spare one
kill -KILL "$(daemon_of 1)"
again all 3
told 0 "node 1 ("
told 0 "it is excluded"
ended "all faults" 0 0 1 3 2x
check "all faults: $(restarts all) restarts" [ "$(restarts all)" -ge 3 ]
check "all faults: in the journal" grep -q '"event":"exclusion"' all/events.jsonl
same_bits all 000020 000120 000200
nothing_left "after lost ranks and nodes"

# --- fewer nodes: tensor and data ranks, ZeRO, another layout each time
port=$(free_port)
opts="--max-restarts 9 --min-nodes 1 --grow-after 0s --wait 60 --set parallel.tensor=2 --set training.steps=200"
for i in 3 1 0 2; do node $i 4 $opts --set run_dir=few; done
finished few 5
kill -KILL "$(launcher 3)" $(descendants "$(launcher 3)")
again few 1
told 0 "3 nodes instead of 4: pipeline 3, micro-batch 1, zero 0; the same bits"
kill -KILL "$(launcher 1)" $(descendants "$(launcher 1)")
again few 2
told 0 "2 nodes instead of 3"
for i in 1x 3x; do node $i 4 $opts --set run_dir=few; done
again few 3
told 0 "4 nodes instead of 2"
ended "fewer and more nodes" 0 0 2 1x 3x
check "fewer nodes: layouts in the journal" [ "$(grep -c '"event":"layout"' few/events.jsonl)" = 3 ]
same_bits few 000020 000120 000200
check "fewer nodes: each row once, in order" [ "$(sed -nE 's/.*"consumed_samples":([0-9]+),.*/\1/p' few/metrics.jsonl | awk '$1 != 8 * NR { bad = 1 } END { print NR, bad + 0 }')" = "200 0" ]

# --- a rank that hangs, a connection that breaks, a signal
port=$(free_port)
python3 "$tests"/flaky_proxy.py $port >proxy.port &
proxy=$!
wait_for test -s proxy.port
head -c 32 /dev/urandom >secret && chmod 600 secret
export DROVER_JOB_SECRET_FILE=secret # without it nodes of one machine find it by the port
opts="--max-restarts 9 --wait 60 --set parallel.give_up_s=6 --set training.steps=100000 --set checkpoint.every=100000"
node 0 2 $opts --set run_dir=hang
master_port=$(cat proxy.port) node 1 2 $opts --set run_dir=hang
finished hang 5
kill -USR1 $proxy # cuts what it carries
again hang 1
told 1 "the connection to node 0 is lost"
told 0 "node 1 (" "has come"
kill -STOP "$(rank_of 1)"
again hang 2
told 0 "hang on node 1"
kill -TERM "$(launcher 1)"
ended "TERM at node 1" 3 0 1
told 0 "stopped by SIGTERM"
check "TERM: no restart" [ "$(restarts hang)" = 2 ]
kill $proxy
unset DROVER_JOB_SECRET_FILE

# --- where no restart helps; and node 0
fails() { # CODE TEXT RUN SETTING...
    local code=$1 text=$2 run=$3
    shift 3
    port=$(free_port)
    mapfile -t sets < <(settings run_dir="$run" "$@")
    for i in 0 1; do node $i 2 --max-restarts 3 "${sets[@]}"; done
    ended "$run" $code 0 1
    told 0 "$text"
    check "$run: no restart" [ ! -e "$run/events.jsonl" -o "$(restarts "$run" 2>/dev/null)" = 0 ]
}
for k in 1 2; do # a loss that is not finite and a refused checkpoint, twice
    fails 1 "no restart: another try gives the same bits" nan$k optimizer.lr=1e3 optimizer.clip_grad_norm=0 schedule.type=constant schedule.warmup_steps=0 training.max_bad_steps=1 training.steps=2000 checkpoint.every=0
    mkdir refused$k && cp -r all/checkpoints refused$k
    sed -i 's/"hidden_size": [0-9]*/"hidden_size": 32/' refused$k/checkpoints/*/config.json
    fails 1 "no restart: another try gives the same bits" refused$k
done
# Two attempts on one run directory. The second is refused; where the lock is lost, as on a file system without, it takes the
# directory over from the first, which is paused, and the first, continued, puts no checkpoint there and no line in the journal.
port=$(free_port)
opts="--max-restarts 9 --set training.steps=100000 --set checkpoint.every=20 --set run_dir=first"
for i in 0 1; do node $i 2 $opts; done
finished first 25
head=$(launcher 0) first=("${pids[0]}" "${pids[1]}")
fails 75 "the scheduler's turn" first
kill -STOP "$head" $(descendants "$head")
rm first/.lock
port=$(free_port)
last=$((10#$(ls first/checkpoints | sed -n '$s/step-//p') + 20))
for i in 0 1; do node $i 2 --set run_dir=first --set training.steps=$last --set checkpoint.every=20; done
ended "the second attempt" 0 0 1
written() { (cd first && find checkpoints saved.json status.json events.jsonl metrics.jsonl -type f -exec sha256sum {} + | sort); }
written >before
kill -CONT "$head" $(descendants "$head")
pids[0]=${first[0]} pids[1]=${first[1]}
ended "the first attempt" 1 0 1
check "the first attempt has added nothing" cmp before <(written)
told 0 "first.orphan-1"

port=$(free_port)
opts="--max-restarts 9 --set training.steps=100000 --set checkpoint.every=100000 --set run_dir=head"
for i in 0 1; do node $i 2 $opts; done
finished head 5
kill -KILL "$(launcher 0)"
ended "node 0 is lost" 75 1
told 1 "node 0 is gone"
finish
