#!/bin/bash
# Layouts of a run against one process on the same cores: bench/layouts.sh build/drover [ROUNDS [LAYOUT...]]
# llama-15m, sequence 512, bf16, 8 micro-batches a step, by `drover train`; each round runs every layout once, in turn.
# Columns: median seconds of a step and, against the one process of the round, the speed (median of the rounds); of a
# pipeline also against the speed that its bubble leaves. Needs mpirun. About 12 s a layout and round on two cores.
drover=$(realpath "$1")
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset DROVER_THREADS OMP_NUM_THREADS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

awk 'BEGIN { srand(1); for (i = 0; i < 4000; i++) { for (j = 0; j < 12; j++) printf "%d tells %c of %d. ", rand() * 1e6, 97 + rand() * 26, i * j; print "\n" } }' >text.txt
{
    "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok &&
        "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data
} >setup.log 2>&1 || { cat setup.log; exit 1; }
cat >run.yaml <<'YAML'
model: {preset: llama-15m}
data: {train: data, sequence_length: 512}
training: {steps: 8, global_batch_size: 8, micro_batch_size: 1, eval_every: 0, log_every: 1, precision: bf16}
schedule: {warmup_steps: 5}
checkpoint: {every: 0}
YAML

# name | ranks | keys | bubble (share of the time that ranks wait by the schedule)
layouts="
one|1||0
data|2||0
data, zero 0|2|parallel.zero=0|0
tensor+sequence|2|parallel.tensor=2|0
tensor|2|parallel.tensor=2 parallel.sequence=false|0
pipeline 1f1b|2|parallel.pipeline=2|1/9
pipeline zb-h1|2|parallel.pipeline=2 parallel.schedule=zb-h1|1/9
context|2|parallel.context=2|0
data 8|8||0
"
wanted() { # NAME: no names given, or this one
    [ ${#names[@]} = 0 ] || [ "$1" = one ] || printf '%s\n' "${names[@]}" | grep -qxF "$1"
}
names=("$@")

step_seconds() { # RUN_DIR: the median of its steps after the first two
    sed -nE 's/.*"step_s":([0-9.e-]+).*/\1/p' "$1/metrics.jsonl" | tail -n +3 | sort -g | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
for ((round = 1; round <= rounds; round++)); do
    while IFS='|' read -r name n keys bubble; do
        [ -n "$name" ] && wanted "$name" || continue
        sets=(--set run_dir=run)
        for key in $keys; do sets+=(--set "$key"); done
        rm -rf run
        launch=()
        [ "$n" = 1 ] || launch=(mpirun --oversubscribe -n "$n")
        if ! "${launch[@]}" "$drover" train run.yaml "${sets[@]}" </dev/null >log.txt 2>&1; then
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
        printf "%-18s %10s %10s %s\n", "layout", "s a step", "of one", "of what its bubble leaves"
        for (i = 1; i <= names; i++) printf "%-18s %10.3f %10.3f %.3f\n", order[i], median(seconds, order[i]), median(ratio, order[i]), median(ratio, order[i]) / left[order[i]]
    }' steps.txt
