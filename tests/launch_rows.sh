#!/bin/bash
# `drover launch node` with the variables that each launcher sets, on two nodes: the ranks that it asks for, with every node in its
# place. And `drover train` with those of launchers that have started ranks where no MPI joins them: refused. Needs mpirun and
# drover_mpi.so. usage: launch_rows.sh DROVER
. "$(dirname "$0")"/ranks.bash
unset HWLOC_SYNTHETIC
export OMPI_MCA_btl_tcp_if_include=lo TMPDIR=$dir
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
row=0
# both BY RANKS ARGUMENTS -- VARIABLE...: two nodes; @ in a variable is the node, + the node and one, PORT a free port
both() {
    local by=$1 each=$2 arguments=$3 i variables
    shift 4
    row=$((row + 1))
    port=$(free_port)
    for i in 0 1; do
        variables=("${@//@/$i}")
        variables=("${variables[@]//+/$((i + 1))}")
        # shellcheck disable=SC2086 # words
        timeout -s KILL 300 env "${variables[@]//PORT/$port}" "$drover" launch node run.yaml ${arguments//PORT/$port} \
            --set run_dir=row$row --set training.stop_at_step=1 >node-$i.out 2>&1 &
        pids[$i]=$!
    done
    for i in 0 1; do
        wait_end "${pids[$i]}"
        check "$by: node $i exits $?, not 3" [ $? = 3 ] || sed 's/^/    /' node-$i.out
        check "$by: node $i knows its place" grep -q "launch: 2 nodes x $each rank.*, by $by; this is node $i" node-$i.out
    done
    check "$by: $((2 * each)) ranks" grep -q "\"event\": *\"start\".*\"ranks\": *$((2 * each))" row$row/events.jsonl
}
declare -a pids
both RANK 2 "" -- RANK=@ WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=PORT PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=PORT \
    PET_NNODES=2 PET_NODE_RANK=@ PET_NPROC_PER_NODE=2 # PyTorchJob
both PET_NODE_RANK 1 "" -- PET_NNODES=2 PET_NODE_RANK=@ PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=PORT \
    JOB_COMPLETION_INDEX=@ # TrainJob, torch
both JAX_PROCESS_ID 1 "" -- JAX_PROCESS_ID=@ JAX_NUM_PROCESSES=2 JAX_COORDINATOR_ADDRESS=127.0.0.1:PORT # TrainJob, jax
both RANK 1 "" -- RANK=@ WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=PORT VC_TASK_INDEX=0 VC_MASTER_NUM=1 VC_WORKER_NUM=1 # Volcano
both VC_TASK_INDEX 1 "--master 127.0.0.1:PORT" -- VC_TASK_INDEX=@ VC_NODE_NUM=2 VC_NODE_HOSTS=v-node-0.v,v-node-1.v # its plugin svc
both JOB_COMPLETION_INDEX 2 "" -- JOB_COMPLETION_INDEX=@ DROVER_NODES=2 DROVER_MASTER=127.0.0.1:PORT DROVER_RANKS_PER_NODE=2 # JobSet
both DROVER_NODE_RANK 1 "" -- DROVER_NODE_RANK=@ DROVER_NODES=2 DROVER_MASTER=127.0.0.1:PORT RAY_JOB_ID=0a # Ray, SkyPilot
both SLURM_PROCID 1 "--master 127.0.0.1:PORT" -- SLURM_JOB_ID=42 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_NNODES=2 \
    SLURM_STEP_NODELIST='n[1-2]' SLURM_LOCALID=0 SLURM_PROCID=@ PMIX_RANK=@ PMIX_NAMESPACE=slurm.pmix.42.0 # a task a node

refused() { # TEXT VARIABLE...: drover train, which would be one of several
    local text=$1
    shift
    expect 2 "$text" timeout -s KILL 300 env "$@" "$drover" train run.yaml --set run_dir=never
    check "$*: one line" [ "$(grep -c '^drover: ' out)" = 1 ]
}
step=(SLURM_JOB_ID=42 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST='n[1-2]' SLURM_PROCID=0 SLURM_LOCALID=0)
one="started as one of 4 processes, but MPI sees 1; expected mpirun, or srun --mpi=pmix"
refused "$one" "${step[@]}"                                           # srun --mpi=none
refused "$one" "${step[@]}" PMI_RANK=0 PMI_SIZE=4 PMI_FD=99           # srun --mpi=pmi2
refused "$one" PMI_RANK=1 PMI_SIZE=4 PMI_FD=99 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 # MPICH, Intel MPI
refused "elastic" PET_NNODES=1:4 PET_RDZV_ENDPOINT=etcd:2379 PET_RDZV_BACKEND=etcd # PyTorchJob, elastic
refused "launch node" RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 # torchrun's child
check "nothing was trained" [ ! -e never/metrics.jsonl ]
expect 2 "expected drover train" env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$drover" launch node run.yaml
expect 2 "PET_NODE_RANK is" env PET_NNODES=2 PET_NODE_RANK=0 JOB_COMPLETION_INDEX=1 PET_MASTER_ADDR=127.0.0.1 "$drover" launch node run.yaml
finish
