# Sourced by tests of `drover launch node` instead of ranks.bash: nodes on this machine, one process each, run.yaml to train.
tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
. "$(dirname "${BASH_SOURCE[0]}")"/ranks.bash
LIMIT=300 # seconds for a job, which takes far less; what hangs fails
unset HWLOC_SYNTHETIC # ranks take their cores by themselves
export OMPI_MCA_btl_tcp_if_include=lo
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 6/' run.yaml
export TMPDIR=$dir/tmp
mkdir "$TMPDIR"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
settings() { for set in "$@"; do printf -- '--set\n%s\n' "$set"; done; }
# node I NODES ARGUMENT...: in the background, its process id in pids[I], its words in node-I.out; 1x is another node 1
declare -A pids
node() {
    local i=$1 nodes=$2
    shift 2
    timeout -s KILL $LIMIT "$drover" launch node run.yaml --nodes "$nodes" --node-rank "${i%x}" --master 127.0.0.1:${master_port:-$port} "$@" >node-$i.out 2>&1 &
    pids[$i]=$!
}
launcher() { pgrep -P "${pids[$1]}"; }        # of node I: the child of timeout
daemon_of() { pgrep -P "$(launcher "$1")" 'orted|prted|mpirun'; }
rank_of() { pgrep -P "$(daemon_of "$1")" -f '^drover train' | head -n 1; } # a rank on node I
descendants() { # PID
    local child
    for child in $(pgrep -P "$1"); do echo "$child" && descendants "$child"; done
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
        if grep -qF -- "$text" node-$i.out; then ok; else bad "node $i does not say \"$text\"" node-$i.out; fi
    done
}
nothing_left() {
    wait_for eval '! pgrep -f "launch rank|orted|drover train run.yaml" -s 0 >/dev/null'
}
