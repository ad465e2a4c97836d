#!/bin/bash
# Four nodes on this machine, one `drover launch node` each, against plain mpirun: the same bytes of checkpoints. And what goes
# wrong: a node that never comes, comes twice, has another secret or another version of drover, dies while it waits; a port that is
# taken; a signal, a rank that is killed, node 0 that is killed. Every wait has a limit. Needs mpirun and drover_mpi.so.
# usage: launch_node.sh DROVER
. "$(dirname "$0")"/nodes.bash
# For the two stories in which the port is known before node 0 listens there. Nobody else is at it: the address is this test's alone
# (story.bash), and the number is below those that the system hands out.
known=21000
known_port() { port=$((known++)); }
left=/tmp/drover-node-$(head -c 8 /proc/sys/kernel/random/boot_id) # what a launcher keeps outside the run
secret_name() { echo "$(stat -Lc %i /proc/self/ns/net)-${1:-$address}-$port.secret"; } # [ADDRESS]
secret_file() { compgen -G "$left-secret-*/$(secret_name "$@")"; }                     # of a node 0 that has left one
nothing_is_left() { # WHEN
    nothing_left
    { ls -d "$TMPDIR"/drover-*; secret_file; } >out 2>/dev/null
    check "$1: nothing is left" [ ! -s out ]
}
head -c 32 /dev/urandom >secret && head -c 32 /dev/urandom >other && cp secret open
chmod 600 secret other && chmod 644 open

# --- who does not come: looked at further down, since these wait
mkdir aside
port=0
for i in 0n 1n; do TMPDIR=$dir/aside node $i 3 --wait 20 --set run_dir=never; done
TMPDIR=$dir/aside master=$address:1 node 1m 2 --wait 2 --set run_dir=never
DROVER_JOB_SECRET_FILE=secret TMPDIR=$dir/aside master=no-such-host.invalid:2000 node 1u 2 --wait 2

# --- the same bytes
four() { # RUN SETTING...
    local run=$1 i
    shift
    mapfile -t sets < <(settings run_dir="$run" "$@")
    known_port # nodes may come before node 0
    for i in 3 1 0 2; do node $i 4 "${sets[@]}"; done
    ended "$run" 0 0 1 2 3
}
four dp
told 0 "launch: 4 nodes x 1 rank, by --node-rank; this is node 0" "all 4 nodes are connected" "4 ranks on 1 host over MPI"
four tp parallel.tensor=2 parallel.pipeline=2
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=dp.mpi
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=tp.mpi --set parallel.tensor=2 --set parallel.pipeline=2
check "data parallel: the bytes of mpirun" test "$(sums dp 000006)" = "$(sums dp.mpi 000006)"
check "tensor x pipeline: the bytes of mpirun" test "$(sums tp 000006)" = "$(sums tp.mpi 000006)"
port=0
for i in 0 1; do node $i 2 --ranks-per-node 2 --set run_dir=two; done
ended "two ranks a node" 0 0 1
check "two ranks a node: the bytes of mpirun" test "$(sums two 000006)" = "$(sums dp.mpi 000006)"
timeout -s KILL $LIMIT "$drover" launch node run.yaml --ranks-per-node 4 --set run_dir=alone >out 2>&1
check "alone: exit $?" [ $? = 0 ]
check "alone: the bytes of mpirun" test "$(sums alone 000006)" = "$(sums dp.mpi 000006)"
nothing_is_left "after four jobs"

# --- two jobs at one port of two addresses: each has a secret of its own
port=0
there=$(own_address 128)
node 0 2 --set run_dir=here
master=$there:$port node 0x 2 --set run_dir=there
follows secret_file
follows secret_file $there
master=$there:$port node 1x 2 --set run_dir=there
node 1 2 --set run_dir=here
ended "two jobs at one port" 0 0 1 0x 1x
nothing_is_left "after two jobs at one port"

# --- who comes twice, or is somebody else
port=0
six="--set run_dir=twice --set training.global_batch_size=6"
for i in 0 1; do node $i 3 $six; done
follows grep -q "node 0 is connected" node-1.out
node 1x 3 $six
ended "a node that comes twice" 2 1x
told 1x "two processes are node 1: on"
node 2 3 --ranks-per-node 2 $six
ended "another number of ranks" 2 2
told 2 "expected the same"
kill -KILL "$(launcher 1)" # while it waits
follows grep -q "waiting for it to reconnect" node-0.out
told 0 "node 1 ("
for i in 1 2; do node $i 3 $six; done
ended "three at last" 0 0 1 2
rm -rf "$TMPDIR"/drover-* # of the one that was killed

port=0
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

# --- a rank that stops, and one that is killed; what its silence takes is used for the next parts
starts() { # RUN [X]: three nodes, 0X to 2X, that train for long
    local i
    port=0
    for i in 0 1 2; do node $i$2 3 --set run_dir="$1" --set training.steps=100000 --set checkpoint.every=100000 --set training.global_batch_size=6; done
    finished "$1" 5
}
starts killed k
stopped=$(rank_of 2k)
kill -STOP "$(launcher 1k)" "$stopped" # a while without a word harms nobody

# --- others cannot keep a job from its secret, nor give it one: names that a job might take are taken, and folders lie there that
# are not of this user alone, or of no node 0 that lives
known_port
mkdir "$left-$(id -u)-$(secret_name)" # of a version that had its secrets there
foreign=$left-secret-$(printf %06d $(($$ % 1000000)))
for mode in 700 755; do
    mkdir -m $mode "$foreign$mode"
    (umask 077; head -c 32 /dev/zero >"$foreign$mode/$(secret_name)")
done
at_end() { rm -rf "$left-$(id -u)-$(secret_name)" "$foreign"*; }
exec 8<"${foreign}755"
flock 8 # as a node 0 holds it
node 0 2 --set run_dir=watched
node 1 2 --set run_dir=watched
ended "beside what others have put there" 0 0 1
exec 8<&-
at_end
at_end() { :; }

# --- two versions of the program, as launch node and as ranks of mpirun; a port that is taken
mkdir other-version
cp "$(dirname "$drover")"/drover_mpi.so other-version
sed -E 's/drover ([0-9.]+) \(commit ./drover \1 (commit X/g' "$drover" >other-version/drover && chmod +x other-version/drover
port=0
node 0 2 --set run_dir=versions
follows secret_file
expect 2 "(commit X" timeout -s KILL $LIMIT other-version/drover launch node run.yaml --nodes 2 --node-rank 1 --master $address:$port
says "node 0 has drover"
node 0x 2 --set run_dir=taken
ended "a port that is taken" 75 0x
told 0x "could not listen at $address:$port"
kill -TERM "$(launcher 0)"
ended "another version does not come in; TERM while it waits" 3 0
told 0 "the same command starts it again"
expect 2 "expected the same program on all hosts" ranks_and_last 2 "$drover" train run.yaml --set run_dir=versions : \
    other-version/drover train run.yaml --set run_dir=versions
check "two versions of ranks: one of them says it" [ "$(grep -c "^drover: rank 1" out)" = 1 ]
check "two versions: nothing was trained" [ ! -e versions/metrics.jsonl ]

follows grep -q "rank 2 (.*holds up the others" node-0k.out
kill -CONT "$stopped" "$(launcher 1k)"
follows grep -q "rank 2 continues" node-0k.out
kill -KILL "$(rank_of 1k)"
ended "a rank that is killed" 75 0k 1k 2k

# --- signals and faults of a job that runs
starts term
kill -TERM "$(launcher 2)"
ended "TERM at node 2" 3 0 1 2
told 0 "stopped by SIGTERM"
check "TERM: a step is saved" [ -n "$(newest_step term)" ]
nothing_is_left "those that failed or did not begin"
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
port=0
node 0 2 --set run_dir=next
follows secret_file
killed=$(secret_file)
kill -KILL "$(launcher 0)"
wait "${pids[0]}"
touch -d "2 minutes ago" "${killed%/*}" "$TMPDIR"/drover-node-*
port=0
node 0 2 --set run_dir=next
follows secret_file
check "the secret of one that was killed is gone" [ ! -e "${killed%/*}" ]
check "so are the folders of three" [ "$(ls -d "$TMPDIR"/drover-node-* | wc -l)" = 1 ]
touch -d "2 minutes ago" "$(dirname "$(secret_file)")" "$TMPDIR"/drover-node-*
node 0x 2 --set run_dir=next
ended "another at that port" 75 0x
check "the secret of one that lives is left" [ -e "$(secret_file)" ]
check "so is its folder" [ "$(ls -d "$TMPDIR"/drover-node-* | wc -l)" = 1 ]
kill -TERM "$(launcher 0)"
ended "TERM" 3 0

# --- those of the beginning
ended "a node that never comes" 75 0n 1n
for i in 0n 1n; do told $i "node 2 of 3 did not connect within 20 s"; done
ended "nobody at node 0" 75 1m
told 1m "was not found within 2 s"
ended "no such host" 75 1u
told 1u "its name has no IPv4 address" "waiting for node 0 at no-such-host.invalid:2000"
nothing_is_left "after faults"
expect 2 "unknown key" "$drover" launch node run.yaml --set nokey=1 --nodes 1
finish
