#!/bin/bash
# A long row on 1, 2, 4, 8 context ranks: what a rank holds, planned and measured: bench/context.sh build/drover [TOKENS]
# llama-15m, bf16, one row of TOKENS (8192) a step, two steps. Columns: bytes planned of the rank, most memory of any of
# the processes (VmHWM), the difference, and what the plan allows the process besides. Needs mpirun and python3.
drover=$(realpath "$1")
tokens=${2:-8192}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
awk 'BEGIN { srand(1); for (i = 0; i < 2000; i++) { for (j = 0; j < 12; j++) printf "%d tells %c of %d. ", rand() * 1e6, 97 + rand() * 26, i * j; print "\n" } }' >text.txt
{
    "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok &&
        "$drover" data build --input text.txt --tokenizer tok --out data
} >setup.log 2>&1 || { cat setup.log; exit 1; }
cat >run.yaml <<YAML
model: {preset: llama-15m, max_position_embeddings: 131072}
data: {train: data, sequence_length: $tokens}
training: {steps: 2, global_batch_size: 1, micro_batch_size: 1, eval_every: 0, precision: bf16}
checkpoint: {every: 0}
YAML
# Each process says its own peak as it ends.
cat >peak.sh <<'SH'
#!/bin/bash
"$@" &
pid=$!
while kill -0 $pid 2>/dev/null; do
    now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null)
    [ -z "$now" ] || peak=$now
    sleep 0.05
done
wait $pid || exit
echo "$peak" >>peaks
SH
chmod +x peak.sh
printf '%-8s %8s %14s %14s %10s %10s %8s\n' context blocks planned peak besides allowed step_s
run() { # RANKS BLOCKS
    local sets=(--set parallel.context=$1 --set parallel.context_blocks=$2 --set run_dir=run$1.$2) launch=()
    plan=$("$drover" plan run.yaml --json --ranks $1 "${sets[@]}")
    [ $1 = 1 ] || launch=(mpirun --oversubscribe -n $1)
    rm -f peaks
    DROVER_THREADS=$(($1 == 1 ? 2 : 1)) "${launch[@]}" ./peak.sh "$drover" train run.yaml "${sets[@]}" >log.txt 2>&1 || { tail -3 log.txt; return; }
    PLAN=$plan python3 - "$1" "$2" <<'PY'
import json, os, sys
plan = json.loads(os.environ["PLAN"])["bytes"]
peak = 1024 * max(int(x) for x in open("peaks"))
step = [json.loads(x) for x in open("run%s.%s/metrics.jsonl" % (sys.argv[1], sys.argv[2]))][-1].get("step_s", 0)
print("%-8s %8s %14d %14d %10d %10d %8.2f" % (sys.argv[1], sys.argv[2], plan["total"], peak, peak - plan["total"], plan["process"], step))
PY
}
for case in ${CASES:-1:1 2:2 4:4 8:8 1:2 1:8 2:8}; do run ${case%:*} ${case#*:}; done
