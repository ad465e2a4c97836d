#!/bin/bash
# Data-parallel training of two hosts over a network link of a given rate, on one machine:
#   bench/link.sh build/drover [--rate RATE]... [--micro-batches N]... [--zero N]... [--rounds N] [--set KEY=VALUE]... [--against KEY=VALUE]...
# Each rank is a host with a network and a name of its own, and mpirun starts the second one as over ssh. Between them is a pair of
# virtual Ethernet cards, whose sending ends are each shaped to RATE (as tc writes it: 10gbit, 2.5gbit, 1gbit; none: not
# shaped; memory: one host and no link): full duplex, as a cable is. All of it ends with this script, however it ends.
# llama-15m, sequence 512, bf16, one thread a rank, micro-batches of one row, 8 steps, the first two left out; without options
# rates memory, 10gbit, 2.5gbit and 1gbit; 1, 4 and 8 micro-batches a rank and step; ZeRO 0 and 1; one round. --set is for
# every run. With --against each case is run once more in each round, with these keys after those of --set.
# A row is of medians: seconds of a step; tokens/s; seconds that a rank waits in it for messages, mean of both; MB that a rank sends;
# seconds that these take at what the link reaches, which is measured first; the share of the step that is waiting; the
# speed-up if all of it were hidden that fits during computing, at most one micro-batch (the backward pass of the last one and the
# next forward pass); with --against its seconds, and the speed of the run against it (above 1: faster), median of the rounds.
# Needs root, mpirun, iproute2. About 10 s a run.
usage() { sed -n 3p "$0" | cut -c5-; exit 2; }
[ -x "$1" ] || usage
drover=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
if [ -z "$LINK_INSIDE" ]; then # the namespaces live as long as their processes, and these no longer than this shell
    for need in mpirun ip tc unshare setpriv; do command -v $need >/dev/null || { echo "link.sh: no $need"; exit 1; }; done
    [ "$(id -u)" = 0 ] || { echo "link.sh: network namespaces need root"; exit 1; }
    TMPDIR=$(mktemp -d)
    export TMPDIR LINK_INSIDE=1
    setpriv --pdeathsig KILL unshare --net --uts --pid --mount-proc --fork --kill-child "$here"/link.sh "$drover" "${@:2}" &
    inside=$!
    trap '{ kill -KILL $inside; wait; } 2>/dev/null; rm -rf "$TMPDIR"' EXIT
    trap 'exit 130' INT TERM HUP
    wait $inside
    exit
fi
shift
rates=() counts=() zeros=() common=() against=() rounds=1
while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || usage
    case $1 in
    --rate) rates+=("$2") ;;
    --micro-batches) counts+=("$2") ;;
    --zero) zeros+=("$2") ;;
    --rounds) rounds=$2 ;;
    --set) common+=("$2") ;;
    --against) against+=("$2") ;;
    *) usage ;;
    esac
    shift 2
done
[ ${#rates[@]} -gt 0 ] || rates=(memory 10gbit 2.5gbit 1gbit)
[ ${#counts[@]} -gt 0 ] || counts=(1 4 8)
[ ${#zeros[@]} -gt 0 ] || zeros=(0 1)

export DROVER_THREADS=1 DROVER_PEAK_FLOPS=1e12
unset OMP_NUM_THREADS
. "$here"/layouts.bash
set_up "{preset: llama-15m}" 512 2 8

# --- two hosts: this shell is on the first
hostname node0
exec 3< <(exec unshare --net --uts bash -c 'hostname node1 && echo up && exec sleep infinity')
peer=$!
read -r _ <&3 || exit 1
there=(nsenter --net --uts --target $peer)
# What mpirun takes for ssh: a host, which is the other one, and a command line for its shell.
printf '#!/bin/bash\nshift\nexec %s bash -c "$*"\n' "${there[*]}" >remote_shell
chmod +x remote_shell
ip link add eth0 type veth peer name eth0 netns $peer
card() { # HOST [COMMAND THAT ENTERS IT...]
    local host=$1
    shift
    "$@" ip link set lo up && "$@" ip address add 10.99.0.$((host + 1))/24 dev eth0 && "$@" ip link set eth0 up
}
card 0 && card 1 "${there[@]}" || exit 1
shape() { # RATE, of both directions
    local enter
    for enter in "" "${there[*]}"; do
        $enter tc qdisc delete dev eth0 root 2>/dev/null
        [ "$1" = none ] || $enter tc qdisc add dev eth0 root tbf rate "$1" burst 256kb latency 50ms || exit 1
    done
}
cat >reach.py <<'PY'
# Gbit/s of bytes that a program gets through the link in two seconds after the first half, in one direction.
import socket, sys, time
block = memoryview(bytearray(1 << 20))
if len(sys.argv) == 1:
    out = socket.create_server(("10.99.0.2", 5001)).accept()[0]
    try:
        while True: out.sendall(block)
    except OSError: sys.exit()
for attempt in range(100):
    try: link = socket.create_connection(("10.99.0.2", 5001)); break
    except OSError: time.sleep(0.02)
begin, got, counted_s = time.monotonic(), 0, 0
while counted_s < 2:
    n = link.recv_into(block)
    now = time.monotonic()
    if now - begin > 0.5:
        if not counted_s: since = now
        else: got += n
        counted_s = now - since or 1e-9
print("%.4g" % (got * 8e-9 / counted_s))
PY
reached() { # of the link as it is shaped
    "${there[@]}" python3 reach.py &
    python3 reach.py from
    wait $!
}

# --- runs
cat >row.py <<'PY'
import json, statistics, sys
name, reached, n_micro, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
median = statistics.median
def steps(which, r):
    return [s for s in map(json.loads, open("%s.%d.jsonl" % (which, r))) if "loss" in s][2:]
def step_s(which, r):
    return median(s["step_s"] for s in steps(which, r))
all_steps = [s for r in range(rounds) for s in steps("base", r)]
seconds = median(step_s("base", r) for r in range(rounds))
wait = median(statistics.mean(s["rank_wait_s"]) for s in all_steps)
sent = max(max(s["rank_sent_bytes"]) for s in all_steps)
hidden = min(wait, median(s["compute_s"] for s in all_steps) / n_micro)
row = "%-22s %9.3f %9.0f %9.3f %9.1f %9s %8.1f%% %9.3f" % (name, seconds, median(s["tokens_per_s"] for s in all_steps), wait,
    sent / 1e6, "%.3f" % (sent * 8e-9 / reached) if reached else "-", 100 * wait / seconds, seconds / (seconds - hidden))
if len(sys.argv) > 5:
    row += " %9.3f %9.3f" % (median(step_s("against", r) for r in range(rounds)),
        median(step_s("against", r) / step_s("base", r) for r in range(rounds)))
print(row)
PY
run_case() { # NAME KEYS, as run_layout takes them: its metrics to NAME.jsonl
    run_layout 2 "$2" || { tail -3 log.txt; exit 1; }
    mv run/metrics.jsonl "$1.jsonl"
}
one_host=("${launcher[@]}")
two_hosts=(mpirun --mca plm_rsh_agent "$PWD/remote_shell" --host node0,node1 --bind-to none)
printf '%-22s %9s %9s %9s %9s %9s %9s %9s' "rate zero micro-batches" "s a step" tokens/s "wait s" "sent MB" "at rate s" waiting hidden
[ ${#against[@]} = 0 ] && echo || printf ' %9s %9s\n' "against s" faster
for rate in "${rates[@]}"; do
    gbits=0 launcher=("${one_host[@]}")
    if [ "$rate" != memory ]; then
        shape "$rate"
        gbits=$(reached) launcher=("${two_hosts[@]}")
        echo "# $rate: $gbits Gbit/s reached"
    fi
    for zero in "${zeros[@]}"; do
        for n in "${counts[@]}"; do
            keys="training.global_batch_size=$((2 * n)) parallel.zero=$zero ${common[*]}"
            for ((round = 0; round < rounds; round++)); do
                run_case base.$round "$keys"
                [ ${#against[@]} = 0 ] || run_case against.$round "$keys ${against[*]}"
            done
            python3 row.py "$rate $zero $n" "$gbits" "$n" "$rounds" "${against[@]:0:1}"
        done
    done
done
