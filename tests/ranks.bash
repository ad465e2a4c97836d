# Sourced by the shell tests of several ranks instead of story.bash: `ranks N ARGUMENTS...` is drover under mpirun.
# Without mpirun or drover_mpi.so the test says so and is skipped.
. "$(dirname "${BASH_SOURCE[0]}")"/story.bash
if ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$drover")/drover_mpi.so" ]; then
    echo "skipped: no mpirun, or drover is built without it"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DROVER_THREADS=1
ranks() {
    local n=$1
    shift
    mpirun --oversubscribe -n "$n" "$drover" "$@"
}
