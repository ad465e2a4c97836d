# Sourced by tests of `drover launch node` instead of ranks.bash: nodes on this machine, one process each, run.yaml to train.
# The first failure ends the test: what comes after it would wait for what cannot come.
tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
. "$(dirname "${BASH_SOURCE[0]}")"/ranks.bash
LIMIT=300 # seconds for a job, which takes far less; what hangs fails
unset HWLOC_SYNTHETIC # ranks take their cores by themselves
export HWLOC_COMPONENTS=-pci,-linuxio # as ranks.bash: no devices
export OMPI_MCA_btl_tcp_if_include=lo
export TMPDIR=$dir/tmp
mkdir "$TMPDIR"
at_end() { :; } # what a test has besides to put away
trap 'kill -KILL $(ours "drover|orted|prted|mpirun") 2>/dev/null; at_end; rm -rf "$dir"' EXIT
bad() {
    echo "FAILED, line ${BASH_LINENO[-2]}: $1"
    [ -z "$2" ] || sed 's/^/    /' "$2"
    for each in node-*.out; do
        [ "$each" = "$2" ] || { echo "$each:" && tail -n 4 "$each" | sed 's/^/    /'; }
    done 2>/dev/null
    exit 1
}
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 6/' run.yaml

settings() { for set in "$@"; do printf -- '--set\n%s\n' "$set"; done; }
# node I NODES ARGUMENT...: in the background, its process id in pids[I], its words in node-I.out; 1x is another node 1. master:
# where node 0 is to be found, if not at $address:$port. After `port=0` comes a node 0, which takes a port and says it to this script.
declare -A pids
node() {
    local i=$1 nodes=$2
    shift 2
    : >node-$i.out # a node of this name may have spoken before
    timeout -s KILL $LIMIT "$drover" launch node run.yaml --nodes "$nodes" --node-rank "${i%%[!0-9]*}" --master "${master:-$address:$port}" \
        "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
    if [ "${i%%[!0-9]*}" = 0 ] && [ "${master:-$port}" = 0 ]; then learn_port node-$i.out; fi
}
launcher() { pgrep -P "${pids[$1]}"; }        # of node I: the child of timeout
daemon_of() { pgrep -f -P "$(launcher "$1")" 'orted|prte|mpirun'; } # by command lines: a name has 15 letters at most
descendants() { # PID
    local child
    for child in $(pgrep -P "$1"); do echo "$child" && descendants "$child"; done
}
rank_of() { # a rank on node I, a child of whatever Open MPI starts there
    local pid
    for pid in $(descendants "$(launcher "$1")"); do
        ! tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q '^drover train' || { echo "$pid" && return; }
    done
}
ours() { # PATTERN: processes that this test has started, by their command lines; wherever they have gone, their TMPDIR is below $dir
    local pid
    for pid in $(pgrep -f "$1"); do
        ! grep -qsz "^TMPDIR=$dir/" "/proc/$pid/environ" || echo "$pid"
    done
}
one_lives() {
    local pid
    for pid in "${pids[@]}"; do ! is_gone "$pid" && return; done
    return 1
}
# follows COMMAND...: until it succeeds, which the nodes bring about; when all of them have ended, it cannot
follows() {
    local until=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        one_lives || "$@" >/dev/null 2>&1 || bad "no node is left to bring about: $*"
        [ $SECONDS -lt $until ] || bad "waited three minutes in vain for: $*"
        sleep 0.05
    done
}
# ended WHAT CODE I...: those nodes have ended with that status
ended() {
    local what=$1 code=$2 i got
    shift 2
    for i in "$@"; do
        wait "${pids[$i]}"
        got=$?
        if [ $got = "$code" ]; then ok; else bad "$what: node $i exits $got, not $code" node-$i.out; fi
    done
}
told() { # I TEXT...: node I says it
    local i=$1 text
    shift
    for text in "$@"; do
        if grep -qaF -- "$text" node-$i.out; then ok; else bad "node $i does not say \"$text\"" node-$i.out; fi
    done
}
nothing_runs() { [ -z "$(ours 'launch rank|orted|prted|mpirun|^drover train')" ]; }
nothing_left() { wait_for nothing_runs; }

# --- what becomes of a run
restarts() { grep -c '"event":"restart"' "$1/events.jsonl" 2>/dev/null; } # RUN
finished() { follows grep -q "\"step\":$2," "$1/metrics.jsonl"; }        # RUN STEP
has_saved() { [ "$(last_saved "$1")" -gt "$2" ]; }                       # RUN STEP: a checkpoint after it
# runs_again RUN N: after restart N, or a later one on a machine that is slow, the new attempt has begun its first step
runs_again() {
    [ "$(restarts "$1")" -ge "$2" ] && grep -E '"event":"(restart|running)"' "$1/events.jsonl" | tail -n 1 | grep -q running
}
# strike RUN SIGNAL PID...: and an attempt that begins after that has begun its first step
strike() {
    local run=$1 before
    before=$(restarts "$run")
    kill -"$2" "${@:3}" 2>/dev/null || bad "$run: nobody is there to get $2"
    follows runs_again "$run" $((before + 1))
}
