#!/bin/bash
# Strangers at the port of `drover launch node`: silent ones, slow ones, a flood, a wrong proof, a proof said again, a mirror in the
# place of node 0, and one who knows the secret and speaks out of turn. None holds up the nodes or learns anything. Who listens where
# while ranks train, and where the secret is to be seen. Needs mpirun and drover_mpi.so. usage: launch_intruders.sh DROVER
. "$(dirname "$0")"/nodes.bash
sed -i 's/steps: 6/steps: 2/; s/global_batch_size: 8/global_batch_size: 6/' run.yaml
head -c 32 /dev/urandom >secret && chmod 600 secret
export DROVER_JOB_SECRET_FILE=$dir/secret
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
at_end() { leave; }
listens() { echo "$address:$(sed 's/^there //' there.$1)"; } # WORD: where that intruder does
node 0 3 --set run_dir=crowd
node_0=$address:$port
expect 2 "gives port 0, and this is node 1; expected the port that node 0 prints" "$drover" launch node run.yaml --nodes 3 --node-rank 1 --master $address:0

# --- what is said again, and who knows the secret and speaks out of turn
intruder relay $address:0 $node_0 said
master=$(listens relay) node 1 3 --set run_dir=crowd
follows grep -q "node 0 is connected" node-1.out
expect 0 "" "$tests"/intruder.py replay $node_0 said
check "the relay saw no secret" [ "$(grep -caF "$(cat secret | tr -d '\0')" said)" = 0 ]
leave
ended "a node whose line is cut" 75 1
follows grep -q "waiting for it to reconnect" node-0.out
VERSION=$("$drover" --version) expect 0 "" "$tests"/intruder.py known $node_0 secret

# --- a mirror in the place of node 0
intruder pretend $address:0 beyond
master=$(listens pretend) node 1 3 --wait 20
ended "a mirror" 2 1
check "a mirror: it learns nothing" [ ! -s beyond ]
leave

# --- crowds
for crowd in "silent $node_0 200" "drip $node_0 60" "flood $node_0"; do intruder $crowd; done
for i in 1 2; do master=$node_0 node $i 3 --set run_dir=crowd; done
ended "among strangers" 0 0 1 2
check "among strangers: they have trained" test -e crowd/checkpoints/step-000002
leave
check "nobody was told to run anything" [ ! -e "$dir/id" ]
finish
