#!/bin/bash
# Layouts of a run against one process on the same cores: bench/layouts.sh build/drover [ROUNDS [LAYOUT...]]
# llama-15m, sequence 512, bf16, 8 micro-batches a step, by `drover train`; each round runs every layout once, in turn.
# Columns: median seconds of a step and, against the one process of the round, the speed (median of the rounds); of a
# pipeline also against the speed that its bubble leaves. Needs mpirun. About 12 s a layout and round on two cores.
drover=$(realpath "$1")
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
here=$(realpath "$(dirname "$0")")
unset DROVER_THREADS OMP_NUM_THREADS
. "$here"/layouts.bash
set_up "{preset: llama-15m}" 512 8 8
names=("$@")
[ $# = 0 ] || names+=(one)

step_seconds() { # RUN_DIR: the median of its steps after the first two
    sed -nE 's/.*"step_s":([0-9.e-]+).*/\1/p' "$1/metrics.jsonl" | tail -n +3 | sort -g | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
for ((round = 1; round <= rounds; round++)); do
    while IFS='|' read -r name n keys bubble; do
        [ -n "$name" ] && wanted "$name" || continue
        if ! run_layout "$n" "$keys"; then
            echo "$name: failed" && tail -3 log.txt && continue
        fi
        echo "$name|$round|$bubble|$(step_seconds run)" | tee -a steps.txt
        [ -z "$KEEP" ] || { mkdir -p "$KEEP" && cp run/metrics.jsonl "$KEEP/${name// /_}.$round.jsonl" && cp -r run/ranks "$KEEP/${name// /_}.ranks" 2>/dev/null; }
    done <<<"$layouts"
done
awk -F'|' '
    $1 == "one" { one[$2] = $4 }
    !($1 in n) { order[++names] = $1 }
    { split($3, f, "/"); left[$1] = f[2] ? 1 - f[1] / f[2] : 1; seconds[$1, ++n[$1]] = $4; ratio[$1, n[$1]] = one[$2] / $4 }
    function median(of, name,   i, j, t, v) {
        for (i = 1; i <= n[name]; i++) v[i] = of[name, i]
        for (i = 1; i <= n[name]; i++) for (j = i + 1; j <= n[name]; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
        return v[int((n[name] + 1) / 2)]
    }
    END {
        printf "%-28s %10s %10s %s\n", "layout", "s a step", "of one", "of what its bubble leaves"
        for (i = 1; i <= names; i++) printf "%-28s %10.3f %10.3f %.3f\n", order[i], median(seconds, order[i]), median(ratio, order[i]), median(ratio, order[i]) / left[order[i]]
    }' steps.txt
