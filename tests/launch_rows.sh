#!/bin/bash
# `drover launch node` with the variables that each launcher sets, on two nodes: the ranks that it asks for, with every node in its
# place. And `drover train` with those of launchers that have started ranks where no MPI joins them: refused. Needs mpirun and
# drover_mpi.so. usage: launch_rows.sh DROVER
. "$(dirname "$0")"/nodes.bash
row=0
# both BY RANKS ARGUMENTS -- VARIABLE...: two nodes; @ in a variable is the node, + the node and one, HERE and PORT where node 0 is:
# it takes a port that is free, and says it before node 1 comes
both() {
    local by=$1 each=$2 arguments=$3 i variables
    shift 4
    row=$((row + 1)) port=0
    : >node-0.out
    arguments=${arguments//HERE/$address}
    for i in 0 1; do
        variables=("${@//@/$i}")
        variables=("${variables[@]//+/$((i + 1))}")
        variables=("${variables[@]//HERE/$address}")
        # shellcheck disable=SC2086 # words
        timeout -s KILL $LIMIT env "${variables[@]//PORT/$port}" "$drover" launch node run.yaml ${arguments//PORT/$port} \
            --set run_dir=row$row --set training.stop_at_step=1 >node-$i.out 2>&1 &
        pids[$i]=$!
        [ $i = 1 ] || learn_port node-0.out
    done
    ended "$by" 3 0 1
    for i in 0 1; do
        check "$by: node $i knows its place" grep -q "launch: 2 nodes x $each rank.*, by $by; this is node $i" node-$i.out
    done
    check "$by: $((2 * each)) ranks" grep -q "\"event\": *\"start\".*\"ranks\": *$((2 * each))" row$row/events.jsonl
}
both RANK 2 "" -- RANK=@ WORLD_SIZE=4 MASTER_ADDR=HERE MASTER_PORT=PORT PET_MASTER_ADDR=HERE PET_MASTER_PORT=PORT \
    PET_NNODES=2 PET_NODE_RANK=@ PET_NPROC_PER_NODE=2 # PyTorchJob
both PET_NODE_RANK 1 "" -- PET_NNODES=2 PET_NODE_RANK=@ PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=HERE PET_MASTER_PORT=PORT \
    JOB_COMPLETION_INDEX=@ # TrainJob, torch
both JAX_PROCESS_ID 1 "" -- JAX_PROCESS_ID=@ JAX_NUM_PROCESSES=2 JAX_COORDINATOR_ADDRESS=HERE:PORT # TrainJob, jax
both RANK 1 "" -- RANK=@ WORLD_SIZE=2 MASTER_ADDR=HERE MASTER_PORT=PORT VC_TASK_INDEX=0 VC_MASTER_NUM=1 VC_WORKER_NUM=1 # Volcano
both VC_TASK_INDEX 1 "--master HERE:PORT" -- VC_TASK_INDEX=@ VC_NODE_NUM=2 VC_NODE_HOSTS=v-node-0.v,v-node-1.v # its plugin svc
both JOB_COMPLETION_INDEX 2 "" -- JOB_COMPLETION_INDEX=@ DROVER_NODES=2 DROVER_MASTER=HERE:PORT DROVER_RANKS_PER_NODE=2 # JobSet
both DROVER_NODE_RANK 1 "" -- DROVER_NODE_RANK=@ DROVER_NODES=2 DROVER_MASTER=HERE:PORT RAY_JOB_ID=0a # Ray
both SLURM_PROCID 1 "--master HERE:PORT" -- SLURM_JOB_ID=42 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_NNODES=2 \
    SLURM_STEP_NODELIST='n[1-2]' SLURM_LOCALID=0 SLURM_PROCID=@ PMIX_RANK=@ PMIX_NAMESPACE=slurm.pmix.42.0 # a task a node

refused() { # TEXT VARIABLE...: drover train, which would be one of several
    local text=$1
    shift
    expect 2 "$text" timeout -s KILL 300 env "$@" "$drover" train run.yaml --set run_dir=never
    check "$*: one line" [ "$(grep -c '^drover: ' out)" = 1 ]
}
step=(SLURM_JOB_ID=42 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST='n[1-2]' SLURM_PROCID=0 SLURM_LOCALID=0)
one="started as one of 4 processes, but MPI sees 1; expected mpirun, or srun --mpi=pmix"
refused "started by srun as one of 4 processes, which find no MPI there (--mpi=none); expected srun --mpi=pmix, or mpirun" "${step[@]}"
refused "$one" "${step[@]}" PMI_RANK=0 PMI_SIZE=4 PMI_FD=99           # srun --mpi=pmi2
refused "$one" PMI_RANK=1 PMI_SIZE=4 PMI_FD=99 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 # MPICH, Intel MPI
refused "elastic" PET_NNODES=1:4 PET_RDZV_ENDPOINT=etcd:2379 PET_RDZV_BACKEND=etcd # PyTorchJob, elastic
refused "launch node" RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 # torchrun's child
# The shell of an interactive step (salloc -n 4 with use_interactive_step): one process, in which SLURM_NTASKS is the allocation's.
shell=(SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NNODES=1 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=n1)
expect 0 "done: step 2 of 2" env "${shell[@]}" "$drover" train run.yaml --set run_dir=shell --set training.steps=2
expect 0 "done: step 2 of 2" env "${shell[@]}" "$drover" launch node run.yaml --set run_dir=shell-node --set training.steps=2 --ranks-per-node 1
check "nothing was trained" [ ! -e never/metrics.jsonl ]
expect 2 "expected drover train" env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$drover" launch node run.yaml
expect 2 "PET_NODE_RANK is" env PET_NNODES=2 PET_NODE_RANK=0 JOB_COMPLETION_INDEX=1 PET_MASTER_ADDR=127.0.0.1 "$drover" launch node run.yaml
finish
