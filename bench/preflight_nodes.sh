#!/bin/bash
# How long nodes are measured before the first world (`drover launch node --preflight`), from the moment when all have met to the
# verdict: as many nodes as are asked for on this machine, each a launcher, a daemon and a rank. One of them may take less memory
# than the others and is to be named for it; figures of many nodes on few cores say nothing as speeds, so others are, too.
# Beside it the processor time of all these processes: what is more than it, on few cores, is waiting by schedule.
# usage: [SECONDS_EACH=10] preflight_nodes.sh PROGRAM [NODES...]   (16 32 64)
. "$(dirname "$0")"/../tests/nodes.bash
length=${SECONDS_EACH:-10}
counts=("${@:2}")
[ ${#counts[@]} -gt 0 ] || counts=(16 32 64)
sed -i 's/global_batch_size: 8/global_batch_size: 1024/' run.yaml
available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; } # MiB
since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }'; }
printf '%6s  %9s  %8s  %10s  %9s  %7s  %s\n' nodes "to meet" verdict processors "MiB held" named "the one with less memory"
for n in "${counts[@]}"; do
    new_port
    slow=$((n / 2)) before=$(available) least=$(available) began=$EPOCHREALTIME
    pids=()
    for i in $(seq $((n - 1)) -1 0); do
        ulimit -S -v "$([ "$i" = $slow ] && echo 3000000 || echo unlimited)"
        node $i "$n" --wait 120 --preflight warn --preflight-seconds "$length" --set run_dir=run-$n
    done
    ulimit -S -v unlimited
    follows grep -q "^measuring $n nodes" node-0.out
    met=$(since "$began") began=$EPOCHREALTIME
    until grep -qE "stands out|could not be measured" node-0.out || ! one_lives; do
        now=$(available)
        [ "$now" -ge "$least" ] || least=$now
        sleep 0.1
    done
    took=$(since "$began")
    busy=$(for pid in $(ours "launch node"); do cat "/proc/$pid/stat"; done | awk '{ t += $14 + $15 + $16 + $17 } END { printf "%.1f", t / 100 }')
    sleep 0.5
    kill -KILL $(ours 'drover|orted|mpirun') 2>/dev/null
    wait 2>/dev/null
    printf '%6d  %7s s  %6s s  %8s s  %9d  %7d  %s\n' "$n" "$met" "$took" "$busy" $((before - least)) "$(grep -c 'stands out: ' node-0.out)" \
        "$(sed -nE "s/^.*node $slow \([^)]*\) stands out: //p" node-0.out)"
    grep "could not be measured" node-0.out
done
