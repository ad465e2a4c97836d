# Sourced by every shell test first: `drover` is the path of the program under test, $1 of the test. A test that
# is given no program ends here.
drover=$(realpath -- "${1:-}" 2>/dev/null)
if ! { [ -f "$drover" ] && [ -x "$drover" ]; }; then
    echo "usage: $0 PROGRAM (\"${1:-}\" is none)" >&2
    exit 2
fi

# Signals that whoever started the test had ignored or blocked (nohup, the background of a shell, a daemon) do what they do by
# default. No shell can change that for itself: the test is started again.
if [ -z "${signals_are_reset-}" ] && grep -Eq '^Sig(Blk|Ign):.*[1-9a-f]' /proc/self/status; then
    exec env --default-signal signals_are_reset=1 "${BASH:-sh}" "$0" "$@"
fi
unset signals_are_reset

# Nor do its variables decide anything: within a job of a scheduler drover would take itself for a rank of that job, and
# a proxy would stand between it and the servers of the tests. Of drover's own variables, tests see those that are meant
# for them, and the folder of the plug-ins.
for name in $(compgen -e); do
    case $name in
    DROVER_KILLS | DROVER_LAUNCHERS_DIR | DROVER_MODELS | DROVER_PEERS | DROVER_PJRT_DIR | DROVER_PLAN_CUDA | DROVER_SCRAPES | \
        DROVER_SEED | DROVER_SMOLLM2) ;;
    DROVER_* | OMPI_COMM_* | PMIX_* | PMI_* | PET_* | SLURM* | RANK | WORLD_SIZE | LOCAL_RANK | LOCAL_WORLD_SIZE | MASTER_ADDR | MASTER_PORT | \
        HF_* | *_proxy | *_PROXY | COLUMNS | LINES | LC_* | NO_COLOR | OMP_NUM_THREADS | SOURCE_DATE_EPOCH | CDPATH) unset "$name" ;;
    esac
done
export LANG=C.UTF-8
umask 022

# The peak that mfu and plans are measured against is said instead of measured at every start: that takes longer than
# most runs of the tests.
export DROVER_PEAK_FLOPS=1e11

# AddressSanitizer's address space is beyond any ulimit -v: a program built with it does not start under one.
sanitized() { ! (ulimit -v 4000000; exec "$drover" --version >/dev/null 2>&1); }

