# Sourced by tests/clusters/*.sh, which run drover under real launchers and on hosts with networks of their own, all skipped where
# tools/fetch_launchers.sh has not been. What a run has done is read from status.json, events.jsonl and its checkpoints.
tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")"/..)
. "$tests"/ranks.bash
unset HWLOC_SYNTHETIC # launch node deals the cores out by itself
export OMPI_MCA_btl_tcp_if_include=lo TMPDIR=$dir
LIMIT=300 # seconds for a job, which takes a few; what hangs fails
skip() {
    echo "skipped: $*"
    exit 77
}
launchers=${DROVER_LAUNCHERS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/launchers}
[ -d "$launchers" ] || skip "no launchers in $launchers (tools/fetch_launchers.sh gets them)"
# state FIELD RUN: of status.json
state() { sed -nE "s/^ *\"$1\": \"?([^\",]*)\"?,?$/\1/p" "$2/status.json"; }
# is FIELD RUN VALUE: status.json says so
is() { check "$2: $1 is $(state "$1" "$2"), not $3" [ "$(state "$1" "$2")" = "$3" ]; }
step_is_done() { grep -q "\"step\":$2," "$1/metrics.jsonl" 2>/dev/null; }
# begun RUN STEP: that step is done
begun() { wait_for step_is_done "$1" "$2"; }
# journal RUN PATTERN: a line of its events.jsonl is like that
journal() { if grep -qE -- "$2" "$1/events.jsonl"; then ok; else bad "$1: no $2" "$1/events.jsonl"; fi; }
# find_slurm_local: sets slurm_local, the tool that makes virtual nodes; skips
find_slurm_local() {
    local folder tree
    tree=$(realpath "$tests"/..)
    for folder in "$tree/../shared" "$tree/../../shared"; do
        [ ! -x "$folder/tools/slurm-local" ] || slurm_local=$(realpath "$folder/tools/slurm-local")
    done
    [ -n "${slurm_local-}" ] || skip "no slurm-local beside the tree"
    [ "$(id -u)" = 0 ] || skip "virtual nodes need root"
    command -v /usr/sbin/slurmctld >/dev/null && command -v munge >/dev/null || skip "no Slurm (tools/fetch_launchers.sh slurm)"
    export PATH=$PATH:/usr/sbin:/sbin
}
# start_nodes N: n1 to nN, until the test ends
start_nodes() {
    export SLURM_LOCAL_DIR SLURM_LOCAL_NODES=$1
    SLURM_LOCAL_DIR=$(mktemp -d /tmp/drover-nodes.XXXXXX)
    trap '"$slurm_local" stop >/dev/null 2>&1; rm -rf "$SLURM_LOCAL_DIR" "$dir"' EXIT
    "$slurm_local" start >env.sh 2>out || skip "no virtual nodes: $(tail -n 1 out)"
    . ./env.sh
}
