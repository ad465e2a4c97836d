#!/bin/bash
# Four nodes on this machine, one `drover launch node` each, against plain mpirun: the same bytes of checkpoints. And what goes
# wrong: a node that never comes, comes twice, has another secret or version of the world, dies while it waits; a port that is
# taken; a signal, a rank that is killed, node 0 that is killed. Every wait has a limit. Needs mpirun and drover_mpi.so.
# usage: launch_node.sh DROVER
. "$(dirname "$0")"/ranks.bash
LIMIT=300 # seconds for a job, which takes two; what hangs fails
unset HWLOC_SYNTHETIC # ranks take their cores by themselves
export OMPI_MCA_btl_tcp_if_include=lo
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 6/' run.yaml
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# node I NODES ARGUMENT...: in the background, its process id in pids[I], its words in node-I.out
declare -A pids
node() {
    local i=$1 nodes=$2
    shift 2
    timeout -s KILL $LIMIT "$drover" launch node run.yaml --nodes "$nodes" --node-rank "${i%x}" --master ${master:-127.0.0.1}:$port "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
}
launcher() { pgrep -P "${pids[$1]}"; } # of node I: the child of timeout
# ended WHAT CODE I...: those nodes have ended with that status
ended() {
    local what=$1 code=$2 i got
    shift 2
    for i in "$@"; do
        wait "${pids[$i]}"
        got=$?
        if [ $got = "$code" ]; then ok; else bad "$what: node $i exits $got, not $code" node-$i.out; fi
    done
}
told() { # I TEXT: node I says it
    if grep -qF -- "$2" node-$1.out; then ok; else bad "node $1 does not say \"$2\"" node-$1.out; fi
}
nothing_left() {
    wait_for eval '! pgrep -f "launch rank|orted|drover train run.yaml" -s 0 >/dev/null'
    ls -d "$TMPDIR"/drover-* "$(secret_file)" >out 2>/dev/null
    check "$1: nothing is left" [ ! -s out ]
}
export TMPDIR=$dir/tmp
mkdir "$TMPDIR"
left=/tmp/drover-node-$(head -c 8 /proc/sys/kernel/random/boot_id) # what a launcher keeps outside the run
secret_file() { echo "$left-$(id -u)-$(stat -Lc %i /proc/self/ns/net)-${1:-127.0.0.1}-$port.secret"; } # [ADDRESS]
settings() { for set in "$@"; do printf -- '--set\n%s\n' "$set"; done; }

# --- the same bytes
four() { # RUN SETTING...
    local run=$1 i
    shift
    mapfile -t sets < <(settings run_dir="$run" "$@")
    port=$(free_port)
    for i in 3 1 0 2; do node $i 4 "${sets[@]}"; done
    ended "$run" 0 0 1 2 3
}
four dp
told 0 "launch: 4 nodes x 1 rank, by --node-rank; this is node 0"
told 0 "all 4 nodes are there"
told 0 "4 ranks on 1 host over MPI"
four tp parallel.tensor=2 parallel.pipeline=2
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=dp.mpi
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=tp.mpi --set parallel.tensor=2 --set parallel.pipeline=2
check "data parallel: the bytes of mpirun" test "$(sums dp 000006)" = "$(sums dp.mpi 000006)"
check "tensor x pipeline: the bytes of mpirun" test "$(sums tp 000006)" = "$(sums tp.mpi 000006)"
port=$(free_port)
for i in 0 1; do node $i 2 --ranks-per-node 2 --set run_dir=two; done
ended "two ranks a node" 0 0 1
check "two ranks a node: the bytes of mpirun" test "$(sums two 000006)" = "$(sums dp.mpi 000006)"
timeout -s KILL $LIMIT "$drover" launch node run.yaml --ranks-per-node 4 --set run_dir=alone >out 2>&1
check "alone: exit $?" [ $? = 0 ]
check "alone: the bytes of mpirun" test "$(sums alone 000006)" = "$(sums dp.mpi 000006)"
nothing_left "after four jobs"

# --- two jobs at one port of two addresses: each has a secret of its own
port=$(free_port)
node 0 2 --set run_dir=here
master=127.0.0.2
node 0x 2 --set run_dir=there
wait_for test -e "$(secret_file)" -a -e "$(secret_file $master)"
node 1x 2 --set run_dir=there
master=
node 1 2 --set run_dir=here
ended "two jobs at one port" 0 0 1 0x 1x
nothing_left "after two jobs at one port"

# --- who does not come, comes twice, or is somebody else
port=$(free_port)
for i in 0 1; do node $i 3 --wait 10 --set run_dir=never; done
ended "a node that never comes" 75 0 1
told 0 "node 2 of 3 did not come within 10 s"
told 1 "node 2 of 3 did not come within 10 s"
node 1 2 --wait 2 --set run_dir=never
ended "nobody at node 0" 75 1
told 1 "was not found within 2 s"

port=$(free_port)
node 0 3 --set run_dir=twice --set training.global_batch_size=6
node 1 3 --set run_dir=twice --set training.global_batch_size=6
wait_for grep -q "node 0 is there" node-1.out
node 1x 3 --set run_dir=twice --set training.global_batch_size=6
ended "a node that comes twice" 2 1x
told 1x "node 1 came twice"
node 2 3 --ranks-per-node 2 --set run_dir=twice --set training.global_batch_size=6
ended "another number of ranks" 2 2
told 2 "expected the same"
kill -KILL "$(launcher 1)" # while it waits
wait_for grep -q "waiting for it to come again" node-0.out
told 0 "node 1 ("
for i in 1 2; do node $i 3 --set run_dir=twice --set training.global_batch_size=6; done
ended "three at last" 0 0 1 2
rm -rf "$TMPDIR"/drover-* # of the one that was killed

head -c 32 /dev/urandom >secret && head -c 32 /dev/urandom >other && cp secret open
chmod 600 secret other && chmod 644 open
port=$(free_port)
export DROVER_JOB_SECRET_FILE=secret
node 0 2 --set run_dir=known
DROVER_JOB_SECRET_FILE=other node 1 2 --set run_dir=known
ended "a wrong secret" 2 1
told 1 "does not accept this node's secret"
DROVER_JOB_SECRET_FILE=open node 1 2 --set run_dir=known
ended "a secret that others may read" 2 1
told 1 "expected 0600"
node 1x 2 --set run_dir=known
ended "the right secret" 0 0 1x
unset DROVER_JOB_SECRET_FILE
expect 2 "DROVER_JOB_SECRET_FILE" "$drover" launch node run.yaml --nodes 2 --node-rank 0 --master 10.0.0.1:2000
DROVER_JOB_SECRET_FILE=secret expect 75 "the name is not known" "$drover" launch node run.yaml --nodes 2 --node-rank 1 \
    --master no-such-host.invalid:2000 --wait 2
says "waiting for node 0 at no-such-host.invalid:2000"

# --- two versions of the program, as launch node and as ranks of mpirun
mkdir other-version
cp "$(dirname "$drover")"/drover_mpi.so other-version
sed -E 's/drover ([0-9.]+) \(commit ./drover \1 (commit X/g' "$drover" >other-version/drover && chmod +x other-version/drover
port=$(free_port)
node 0 2 --set run_dir=versions
wait_for test -e "$(secret_file)"
expect 2 "(commit X" timeout -s KILL $LIMIT other-version/drover launch node run.yaml --nodes 2 --node-rank 1 --master 127.0.0.1:$port
says "node 0 has drover"
kill -TERM "$(launcher 0)"
ended "another version does not come in" 3 0
expect 2 "expected the same program on all hosts" mpirun --oversubscribe -n 1 "$drover" train run.yaml --set run_dir=versions : \
    -n 1 other-version/drover train run.yaml --set run_dir=versions
check "two versions of ranks: one of them says it" [ "$(grep -c "^drover: rank 1" out)" = 1 ]
check "two versions: nothing was trained" [ ! -e versions/metrics.jsonl ]

port=$(free_port)
node 0 2 --set run_dir=taken
wait_for test -e "$(secret_file)"
node 0x 2 --set run_dir=taken
ended "a port that is taken" 75 0x
told 0x "could not listen at 127.0.0.1:$port"
kill -TERM "$(launcher 0)"
ended "TERM while it waits" 3 0
told 0 "the same command starts it again"
nothing_left "those that did not begin"

# --- signals and faults of a job that runs
starts() { # RUN: three nodes that train for long
    port=$(free_port)
    for i in 0 1 2; do node $i 3 --set run_dir="$1" --set training.steps=100000 --set checkpoint.every=100000 --set training.global_batch_size=6; done
    wait_for grep -q '"step":5,' "$1/metrics.jsonl"
}
rank_of() { # I: a rank on node I
    local dir
    dir=$(tr '\0' '\n' <"/proc/$(launcher "$1")/task/$(launcher "$1")/children" | tr ' ' '\n' | head -n 1)
    pgrep -P "$dir" -f "^drover train" | head -n 1
}
starts term
kill -TERM "$(launcher 2)"
ended "TERM at node 2" 3 0 1 2
told 0 "stopped by SIGTERM"
check "TERM: a step is saved" [ -n "$(ls term/checkpoints)" ]
starts killed
kill -STOP "$(launcher 1)" # a while without a word harms nobody
stopped=$(rank_of 2)
kill -STOP "$stopped"
wait_for grep -q "rank 2 (.*holds up the others" node-0.out
kill -CONT "$stopped" "$(launcher 1)"
wait_for grep -q "rank 2 continues" node-0.out
kill -KILL "$(rank_of 1)"
ended "a rank that is killed" 75 0 1 2
export DROVER_RETRY_STATUS=175
starts head
kill -KILL "$(launcher 0)"
wait "${pids[0]}"
ended "node 0 is killed" 175 1 2
unset DROVER_RETRY_STATUS
starts member
kill -KILL "$(launcher 1)"
ended "node 1 is killed" 75 0 2

# --- what launchers that were killed have left, the next one removes, and nothing of one that lives
port=$(free_port)
killed=$(secret_file)
node 0 2 --set run_dir=next
wait_for test -e "$killed"
kill -KILL "$(launcher 0)"
wait "${pids[0]}"
touch -d "2 minutes ago" "$killed" "$TMPDIR"/drover-node-*
port=$(free_port)
node 0 2 --set run_dir=next
wait_for test -e "$(secret_file)"
check "the secret of one that was killed is gone" [ ! -e "$killed" ]
check "so are the folders of four" [ "$(ls -d "$TMPDIR"/drover-node-* | wc -l)" = 1 ]
touch -d "2 minutes ago" "$(secret_file)" "$TMPDIR"/drover-node-*
node 0x 2 --set run_dir=next
ended "another at that port" 75 0x
check "the secret of one that lives is left" [ -e "$(secret_file)" ]
check "so is its folder" [ "$(ls -d "$TMPDIR"/drover-node-* | wc -l)" = 1 ]
kill -TERM "$(launcher 0)"
ended "TERM" 3 0
nothing_left "after faults"
expect 2 "unknown key" "$drover" launch node run.yaml --set nokey=1 --nodes 1
finish
