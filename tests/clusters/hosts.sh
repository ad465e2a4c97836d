#!/bin/bash
# Four hosts with networks of their own. `drover launch node` against plain mpirun, for Open MPI 4 of Debian and 5 of PyPI (where
# tools/fetch_launchers.sh has fetched it): the same checkpoints byte for byte on DP, TP, PP, CP, ZeRO-1 and LoRA. Who listens
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
open_hosts 5
(umask 077; head -c 24 /dev/urandom | base64 >secret)
declare -A pids
master=h1
# node I [ARGUMENT...]: launch node on host I + 1, in the background, by Open MPI $major. Its status goes to a file: the shell
# forgets that of a process whose number another one has had since.
node() {
    local i=$1
    shift
    rm -f node-$i.status
    launch_on $i "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
}
launch_on() { # I ARGUMENT...
    local i=$1
    shift
    DROVER_JOB_SECRET_FILE=$dir/secret DROVER_NODES=4 DROVER_NODE_RANK=$i DROVER_MASTER=$master:2940 TMPDIR=/tmp \
        in_host h$((i + 1)) env $(paths $major) timeout -s KILL $LIMIT "$drover" launch node "$@"
    echo $? >node-$i.new && mv node-$i.new node-$i.status
}
ended() { # WHAT CODE I...
    local what=$1 code=$2 i got
    shift 2
    for i in "$@"; do
        wait_for test -e node-$i.status || pkill -TERM -P "${pids[$i]}"
        wait_for test -e node-$i.status
        got=$(cat node-$i.status)
        if [ "$got" = "$code" ]; then ok; else bad "$what: node $i exits $got, not $code" node-$i.out; fi
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

five=$launchers/openmpi5
versions=(4)
[ -x "$five"/bin/mpirun ] && versions+=(5) || echo "no Open MPI 5 in $five: not tried"
paths() { # of Open MPI $1, for env
    [ $1 = 4 ] || echo "PATH=$five/bin:$PATH LD_LIBRARY_PATH=$five/lib PRTE_MCA_prte_silence_shared_fs=1"
}
for major in "${versions[@]}"; do all_layouts; done

# --- who listens where: node 0 at the master's address until all are there, then Open MPI alone
listeners() { in_host h$1 ss -ltnpH | awk '{ print $4, $NF }'; }
secret=$(cat secret)
shows_secret() { # of any process that runs from here, or in a file of the run
    local f
    for f in /proc/[0-9]*; do
        [ "$(readlink $f/cwd)" = "$dir" ] || continue
        if grep -qaF "$secret" $f/cmdline $f/environ 2>/dev/null; then return 0; fi
    done
    grep -rqaF "$secret" "$1" node-*.out
}
look_at_ports() {
    local i major=4
    export OMPI_MCA_btl_tcp_port_min_v4=20000 OMPI_MCA_btl_tcp_port_range_v4=100 OMPI_MCA_btl_tcp_port_min_v6=21000 OMPI_MCA_btl_tcp_port_range_v6=100
    for i in 0 1 2; do node $i run.yaml --set run_dir=ports --set training.steps=100000; done
    wait_for grep -q "waiting for node 3" node-0.out
    listeners 1 >out
    check "while they meet: node 0 at one address" [ "$(grep -c . out)" = 1 ]
    check "while they meet: at the master's address" grep -q "^10.77.0.1:2940 .*drover" out
    for i in 2 3; do
        listeners $i >out
        check "while they meet: node $((i - 1)) listens nowhere" [ ! -s out ]
    done
    check "the secret is nowhere to be seen while they wait" eval '! shows_secret /dev/null'
    node 3 run.yaml --set run_dir=ports --set training.steps=100000
    begun ports 5
    for i in 1 2 3 4; do
        listeners $i >out
        check "host $i: no launcher listens" eval '! grep -q 2940 out'
        check "host $i: its rank has ports of Open MPI's messages alone" eval '! grep \"drover\" out | grep -vqE ":2[01]0[0-9][0-9] "'
    done
    check "the secret is nowhere to be seen" eval '! shows_secret ports'
}
look_at_ports
# --- a host that stops for a while, one that is cut off, one that loses its power
rank_on() { pgrep -f "^drover train .*run_dir=$2" | while read -r p; do [ "$(readlink /proc/$p/ns/net)" = "$(readlink /proc/${host_pid[h$1]}/ns/net)" ] && echo $p; done; }
stopped=$(rank_on 2 ports)
kill -STOP "$stopped"
wait_for grep -q "rank 1 (.*holds up the others" node-0.out
kill -CONT "$stopped"
wait_for grep -q "rank 1 continues" node-0.out
end_host h4
ended "a host loses its power" 75 0 1 2
wait_for test -e node-3.status # of what ran on the host, which is gone
is status ports 75

# --- a name that is known late
start_host h4 && connect_host 4
master=late major=4
for i in 0 1 2 3; do node $i run.yaml --set run_dir=late; done
wait_for grep -q "its name has no IPv4 address" node-3.out
echo "10.77.0.1 late" >>"$host_folder"/hosts
ended "a name that is known late" 0 0 1 2 3

# --- a host whose link goes down: no connection is reset, and it is found before `ended` gives up, after two minutes or more; TCP
# alone takes a quarter of an hour
master=h1
for i in 0 1 2 3; do node $i run.yaml --set run_dir=cut --set training.steps=100000; done
begun cut 5
in_host h3 ip link set eth0 down
ended "a host is cut off" 75 0 1 2 3
journal cut '"event": ?"failure", ?"rank": ?2, ?"host": ?"h3".*cannot be reached any more'
in_host h3 ip link set eth0 up

# --- the MPI Operator: mpirun on a launcher that is no worker, over what stands for ssh
printf 'h%d slots=1\n' 1 2 3 4 >hostfile
for i in 1 2 3 4; do echo "h$i ${host_pid[h$i]}"; done >host-pids
cat >rsh <<SH
#!/bin/bash
# ssh's options, then a host and the words for its shell
while [ "\$1" = -o ]; do shift 2; done
while [ "\${1#-}" != "\$1" ]; do shift; done
pid=\$(sed -n "s/^\$1 //p" "$dir"/host-pids)
shift
exec nsenter --target "\$pid" --net --uts --mount --pid --wdns="\$PWD" sh -c "\$*"
SH
chmod +x rsh
operator() { # WORD...: mpirun as the launcher pod has it, by Open MPI $major
    env $(paths $major) K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=$dir/hostfile \
        OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" OMPI_MCA_orte_set_default_slots=1 OMPI_MCA_plm_rsh_agent=$dir/rsh \
        PRTE_MCA_plm_ssh_agent=$dir/rsh PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp \
        nsenter --target "${host_pid[h5]}" --net --uts unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' \
        "$host_folder"/hosts timeout -s KILL $LIMIT mpirun "$@"
}
program=("$drover" train run.yaml --expect-ranks 4 --expect-nodes 4)
major=4
expect 0 "step 4" operator -n 4 "${program[@]}" --set run_dir=operator4 --set parallel.zero=0
says "4 ranks on 4 hosts over MPI"
check "the operator's variables, Open MPI 4: the bytes of mpirun" test "$(files operator4)" = "$(files dp.mpi)"
if [ ${#versions[@]} = 2 ]; then
    major=5
    # Open MPI 5 reads none of these variables: all ranks would be on the launcher.
    expect 2 "this job has 1 node, but 4 were expected" operator --map-by :OVERSUBSCRIBE -n 4 "${program[@]}" --set run_dir=operator
    check "Open MPI 5 without its hostfile: nothing is trained" [ ! -e operator/metrics.jsonl ]
    expect 0 "step 4" operator --hostfile hostfile -n 4 "${program[@]}" --set run_dir=operator5 --set parallel.zero=0
    says "4 ranks on 4 hosts over MPI"
    check "the operator's hostfile, Open MPI 5: the bytes of mpirun" test "$(files operator5)" = "$(files dp.mpi)"
fi
finish
