#!/bin/bash
# Strangers at the port of `drover launch node`: silent ones, slow ones, a flood, a wrong proof, a proof said again, a mirror in the
# place of node 0, and one who knows the secret and speaks out of turn. None holds up the nodes or learns anything. Who listens where
# while ranks train, and where the secret is to be seen. Needs mpirun and drover_mpi.so. usage: launch_intruders.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/ranks.bash
unset HWLOC_SYNTHETIC
export OMPI_MCA_btl_tcp_if_include=lo TMPDIR=$dir
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 2/; s/global_batch_size: 8/global_batch_size: 6/' run.yaml
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
head -c 32 /dev/urandom >secret && chmod 600 secret
export DROVER_JOB_SECRET_FILE=$dir/secret
declare -A pids
node() { # I NODES PORT ARGUMENT...: in the background
    local i=$1 nodes=$2 at=$3
    shift 3
    timeout -s KILL 300 "$drover" launch node run.yaml --nodes "$nodes" --node-rank $i --master 127.0.0.1:$at "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
}
ended() { # WHAT CODE I...
    local what=$1 code=$2 i
    shift 2
    for i in "$@"; do
        wait_end "${pids[$i]}"
        check "$what: node $i exits $?, not $code" [ $? = "$code" ] || sed 's/^/    /' node-$i.out
    done
}
strangers=()
intruder() { # WORD...: in the background, until `leave`
    "$tests"/intruder.py "$@" >there.$1 2>/dev/null &
    strangers+=($!)
    wait_for grep -q there there.$1
}
leave() {
    kill "${strangers[@]}" 2>/dev/null
    wait "${strangers[@]}" 2>/dev/null
    strangers=()
}
trap 'leave; rm -rf "$dir"' EXIT
waits() { wait_for grep -q "waiting for node" node-0.out; }
port=$(free_port)
node 0 3 $port --set run_dir=crowd
waits

# --- what is said again, and who knows the secret and speaks out of turn
other=$(free_port)
intruder relay $other $port said
node 1 3 $other --set run_dir=crowd
wait_for grep -q "node 0 is there" node-1.out
expect 0 "" "$tests"/intruder.py replay $port said
check "the relay saw no secret" [ "$(grep -caF "$(cat secret | tr -d '\0')" said)" = 0 ]
leave
ended "a node whose line is cut" 75 1
wait_for grep -q "waiting for it to come again" node-0.out
VERSION=$("$drover" --version) expect 0 "" "$tests"/intruder.py known $port secret

# --- a mirror in the place of node 0
other=$(free_port)
intruder pretend $other beyond
node 1 3 $other --wait 20
ended "a mirror" 2 1
check "a mirror: it learns nothing" [ ! -s beyond ]
leave

# --- crowds
for crowd in "silent $port 200" "drip $port 60" "flood $port"; do intruder $crowd; done
for i in 1 2; do node $i 3 $port --set run_dir=crowd; done
ended "among strangers" 0 0 1 2
check "among strangers: they have trained" test -e crowd/checkpoints/step-000002
leave
check "nobody was told to run anything" [ ! -e "$dir/id" ]
finish
