#!/bin/bash
# What becomes of jobs of `drover launch node --max-restarts` when something fails: four nodes on this machine, faults in the
# midst, and the bytes of a run that nothing happened to. A rank, a daemon, a node and a connection are lost, a rank hangs, a
# signal stops it, it fails in ways that no restart helps. No run ends by itself before its faults have come, however slow this
# script is beside it, and every wait has a limit. Needs mpirun and drover_mpi.so. usage: launch_supervise.sh DROVER
. "$(dirname "$0")"/nodes.bash
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 3/; s/checkpoint:.*/checkpoint: {every: 10, keep: 0}/' run.yaml
echo 'parallel: {accumulation_groups: 4}' >>run.yaml
sed -i 's/training: {/training: {log_every: 10, /; s/steps: 6/steps: 100000/; s/global_batch_size: 8/global_batch_size: 4/; s/sequence_length: 64/sequence_length: 32/' run.yaml
goes_on() { # RUN: until a further checkpoint is there
    follows has_saved "$1" "$(last_saved "$1")"
}
# stop_after RUN: its next checkpoint that a run of one rank has, too, whose step is left in `saved`
last=0 # step of that run
stop_after() {
    saved=$(($(last_saved "$1") / 10 * 10 + 10))
    [ $saved -le $last ] || last=$saved
    follows has_saved "$1" $((saved - 1))
    kill -TERM "$(launcher 0)"
}
same_bits() { # RUN STEP: those of its first checkpoint, and of that step, are of a run of one rank that nothing happened to
    local step
    for step in 000010 "$(printf %06d "$2")"; do check "$1: the bits of step $step" test "$(sums "$1" "$step")" = "$(sums one "$step")"; done
}

# --- what is wrong is said before anything starts
here=("$drover" launch node run.yaml --nodes 4 --node-rank 0 --master $address:0)
wrong() { # TEXT ARGUMENT...
    local text=$1
    shift
    expect 2 "$text" "${here[@]}" "$@"
    check "one line" [ "$(wc -l <out)" = 1 ]
}
wrong "--min-nodes 5, expected at most the 4 nodes" --min-nodes 5 --max-restarts 3
wrong "--min-nodes 4, expected at most the 3 nodes that are not spare" --min-nodes 4 --spare-nodes 1 --max-restarts 3
wrong "--spare-nodes 4, expected fewer than the 4 nodes" --spare-nodes 4 --max-restarts 3
wrong "--restart-window is \"1y\", expected a time" --restart-window 1y --max-restarts 3
wrong "--grow-after is \"-1s\", expected a time" --grow-after -1s --max-restarts 3
expect 0 "restart at once; a host that fails twice in the window is excluded" "${here[@]}" --max-restarts 3 --min-nodes 2 --explain
says "no restart: another try would fail in the same way" "At most 3 restarts within 1 h, on at least 2 nodes."

# --- a rank, a node whose place a spare one takes, a daemon of a host that has failed before, and the nodes that come back
port=0
opts="--max-restarts 9 --spare-nodes 1 --min-nodes 2 --grow-after 1s --wait 60 --set parallel.pipeline=3 --set run_dir=all"
for i in 0 3 1 2; do node $i 4 $opts; done
finished all 12
strike all KILL "$(rank_of 1)"
strike all KILL "$(launcher 2)" $(descendants "$(launcher 2)")
told 0 "lost on node 2"
goes_on all
node 2x 4 $opts # comes back as the spare one
follows grep -q "node 2 (.*) is connected" node-0.out
strike all KILL "$(daemon_of 1)"
told 0 "node 1 (" "it is excluded"
stop_after all
all=$saved
ended "all faults" 3 0 1 3 2x
check "all faults: in the journal" grep -q '"event":"exclusion"' all/events.jsonl
nothing_left

# --- fewer nodes: tensor and data ranks, ZeRO, another layout each time
port=0
opts="--max-restarts 9 --min-nodes 1 --grow-after 0s --wait 60 --set parallel.tensor=2 --set run_dir=few"
for i in 0 3 1 2; do node $i 4 $opts; done
finished few 12
strike few KILL "$(launcher 3)" $(descendants "$(launcher 3)")
told 0 "3 nodes instead of 4: pipeline 3, micro-batch 1, zero 0; the same bits"
goes_on few
strike few KILL "$(launcher 1)" $(descendants "$(launcher 1)")
told 0 "2 nodes instead of 3"
began=$(restarts few) ranks=$(ours '^drover train')
kill -STOP $ranks # no save until both have come: they are to grow by two nodes, not by one and one
for i in 1x 3x; do node $i 4 $opts; done
for i in 1 3; do follows grep -q "node $i (.*) is connected" node-0.out; done
kill -CONT $ranks
follows runs_again few $((began + 1))
told 0 "4 nodes instead of 2"
stop_after few
few=$saved
ended "fewer and more nodes" 3 0 2 1x 3x
check "fewer nodes: layouts in the journal" [ "$(grep -c '"event":"layout"' few/events.jsonl)" = 3 ]
check "fewer nodes: each row once, in order" [ "$(sed -nE 's/.*"consumed_samples":([0-9]+),.*/\1/p' few/metrics.jsonl | awk -v least=$few '$1 != 4 * NR { bad = 1 } END { print bad + 0, (NR >= least) }')" = "0 1" ]
"$drover" train run.yaml --set run_dir=one --set training.stop_at_step=$last >one.out 2>&1 &
one=$!

# --- a connection that breaks, a rank that hangs, a signal; beside it, jobs that fail where no restart helps
port=0
head -c 32 /dev/urandom >secret && chmod 600 secret
opts="--max-restarts 9 --wait 60 --set parallel.give_up_s=6 --set checkpoint.every=100000 --set run_dir=hang"
export DROVER_JOB_SECRET_FILE=secret # without it nodes of one machine find it by the port
node 0h 2 $opts
python3 "$tests"/flaky_proxy.py $address $port >proxy.port &
proxy=$!
at_end() { kill $proxy 2>/dev/null; }
wait_for test -s proxy.port
master=127.0.0.1:$(cat proxy.port) node 1h 2 $opts
unset DROVER_JOB_SECRET_FILE
finished hang 5
strike hang USR1 $proxy # cuts what it carries
told 1h "the connection to node 0 is lost"
told 0h "node 1 (" "is connected"
began=$(restarts hang)
kill -STOP "$(rank_of 1h)"

fails() { # CODE TEXT RUN SETTING...
    local code=$1 text=$2 run=$3
    shift 3
    port=0
    mapfile -t sets < <(settings run_dir="$run" "$@")
    for i in 0 1; do node $i 2 --max-restarts 3 "${sets[@]}"; done
    ended "$run" $code 0 1
    told 0 "$text"
    check "$run: no restart" [ ! -e "$run/events.jsonl" -o "$(restarts "$run")" = 0 ]
}
# A loss that is not finite and a refused checkpoint; each cause twice: bench/policy.sh
fails 1 "no restart: another try would fail in the same way" nan optimizer.lr=1e3 optimizer.clip_grad_norm=0 schedule.type=constant schedule.warmup_steps=0 training.max_bad_steps=1 training.steps=2000 checkpoint.every=0
mkdir refused && cp -r all/checkpoints refused
sed -i 's/"hidden_size": [0-9]*/"hidden_size": 32/' refused/checkpoints/*/config.json
fails 1 "no restart: another try would fail in the same way" refused
mkdir broken && printf '#!/bin/sh\nexit 1\n' >broken/mpirun && chmod +x broken/mpirun
PATH=$PWD/broken:$PATH fails 1 "mpirun could not start the ranks; no restart: another try would fail in the same way" none

follows runs_again hang $((began + 1))
told 0h "hang on node 1"
began=$(restarts hang)
kill -TERM "$(launcher 1h)"
ended "TERM at node 1" 3 0h 1h
told 0h "stopped by SIGTERM"
check "TERM: no restart" [ "$(restarts hang)" = "$began" ]
check "nobody sends an unexpected message" test -z "$(grep "unexpected message" node-0h.out)"
kill $proxy

# --- two attempts on one run directory. The second is refused; where the lock is lost, as on a file system without, it takes the
# directory over from the first, which is paused, and the first, continued, puts no checkpoint there and no line in the journal.
port=0
for i in 0a 1a; do node $i 2 --max-restarts 9 --set run_dir=first; done
follows has_saved first 0
fails 75 "the scheduler may start this job again" first
first="$(launcher 0a) $(descendants "$(launcher 0a)")"
kill -STOP $first
rm first/.lock
port=0
opts="--max-restarts 9 --set run_dir=first --set training.stop_at_step=$(($(last_saved first) + 10))"
for i in 0 1; do node $i 2 $opts; done
ended "the second attempt" 3 0 1
written() { (cd first && find checkpoints saved.json status.json events.jsonl metrics.jsonl -type f ! -path '*.drover-tmp/*' -exec sha256sum {} + | sort); }
written >before
kill -CONT $first
ended "the first attempt" 1 0a 1a
check "the first attempt has added nothing" cmp before <(written)
told 0a "first.orphan-1"

# --- node 0 is lost; a job that trains to its end
port=0
for i in 0 1; do node $i 2 --max-restarts 9 --set run_dir=head; done
finished head 5
kill -KILL "$(launcher 0)"
ended "node 0 is lost" 75 1
told 1 "node 0 is gone"
port=0
for i in 0 1; do node $i 2 --max-restarts 9 --set run_dir=done --set training.steps=5; done
ended "all steps" 0 0 1
nothing_left
wait_end $one
check "one rank alone: exit $?" [ $? = 3 ]
same_bits all $all
same_bits few $few
finish
