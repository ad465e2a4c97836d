# Sourced by the shell tests of several ranks instead of story.bash: `ranks N ARGUMENTS...` is drover under mpirun,
# `train N RUN_DIR SETTING...` a run of $config. Without mpirun or drover_mpi.so the test says so and is skipped.
. "$(dirname "${BASH_SOURCE[0]}")"/story.bash
if ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$drover")/drover_mpi.so" ]; then
    echo "skipped: no mpirun, or drover is built without it"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DROVER_THREADS=1
# Plug-ins of Open MPI that serve what drover does not ask of it (collectives, files, windows) are not loaded: a third of
# what mpirun and each of its ranks take to start.
export OMPI_MCA_coll=^adapt,cuda,han,hcoll,inter,monitoring,sm,sync,tuned OMPI_MCA_io=^ompio \
    OMPI_MCA_osc=^monitoring,portals4,rdma,sm,ucx OMPI_MCA_op=^avx OMPI_MCA_topo=^treematch OMPI_MCA_vprotocol=^pessimist
# Nor does mpirun look for cores and devices, in a virtual machine a third of the processor time of a start; it binds to none then.
export HWLOC_SYNTHETIC="core:$(nproc) pu:1"
# Files of checkpoints are cut in blocks of 8 KiB instead of 8 MiB, so that a table is several, whose writers are several ranks.
export DROVER_CKPT_BLOCK_BYTES=8192
# patient_mpirun: from here on survivors of a rank that died have 5 s (1 is usual) to say so: the machine may be busy.
patient_mpirun() { export OMPI_MCA_odls_base_sigkill_timeout=5; }
ranks() {
    local n=$1
    shift
    mpirun --oversubscribe -n "$n" "$drover" "$@"
}
# ranks_and_last N COMMAND... : COMMAND OF THE LAST RANK... (mpirun's own form for this, -n 1 A : -n 1 B, ends with a segmentation
# fault in the Open MPI 5 of Debian 13 and Ubuntu 26.04: open-mpi/ompi issue 13303)
ranks_and_last() {
    local n=$1 others=()
    shift
    while [ "$1" != : ]; do others+=("$1"); shift; done
    shift
    mpirun --oversubscribe -n "$n" bash -c "[ \$OMPI_COMM_WORLD_RANK = $((n - 1)) ] && exec$(printf ' %q' "$@")
        exec$(printf ' %q' "${others[@]}")"
}
config=run.yaml
train() { # N RUN_DIR SETTING...: N ranks, 1 without mpirun
    local n=$1 run=$2 sets=()
    shift 2
    for set in "$@"; do sets+=(--set "$set"); done
    if [ "$n" = 1 ]; then "$drover" train $config --set run_dir="$run" "${sets[@]}"
    else ranks "$n" train $config --set run_dir="$run" "${sets[@]}"; fi
}
losses() { # RUN [KIND]: of steps and validations, or only those named KIND (loss, val_loss)
    sed -nE "s/.*\"(${2:-loss|val_loss})\":([^,]*),.*/\2/p" "$1/metrics.jsonl"
}
near() { # RUN ONE [BOUND [LEAST [KIND]]]: all losses (of KIND), at least LEAST of them, within BOUND
    paste <(losses "$1" ${5-}) <(losses "$2" ${5-}) | awk -v bound="${3:-1e-3}" -v least="${4:-9}" '
        NF != 2 || ($1 - $2) ^ 2 > bound ^ 2 { bad = 1 } END { exit bad || NR < least }'
}
