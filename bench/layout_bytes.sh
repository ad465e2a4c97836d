#!/bin/bash
# What drover plan prints of each kind of layout against what its ranks hold and send: bench/layout_bytes.sh build/drover [LAYOUT...]
# Memory: the largest resident set of any rank, less the process's constant that the plan states, against the bytes planned
# for a rank (of a pipeline, for the one that needs most). Wire: bytes that a rank sends in a step, the mean of all ranks,
# against those planned. 16 layers of llama-135m with 8 heads and a vocabulary of 4096, sequence 512, bf16. Needs mpirun, 4 GiB.
drover=$(realpath "$1")
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 DROVER_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

awk 'BEGIN { for (i = 0; i < 4000; i++) print "Document " i " tells of " i * i % 9973 " lazy hens and a fox.\n" }' >text.txt
{
    "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok &&
        "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data
} >setup.log 2>&1 || { cat setup.log; exit 1; }
cat >run.yaml <<'YAML'
model: {preset: llama-135m, vocab_size: 4096, num_hidden_layers: 16, num_attention_heads: 8, num_key_value_heads: 4}
data: {train: data, sequence_length: 512}
training: {steps: 2, global_batch_size: 4, micro_batch_size: 1, eval_every: 0, log_every: 1, precision: bf16}
schedule: {warmup_steps: 5}
checkpoint: {every: 0}
YAML
cat >measure.py <<'PY'
# Runs a command and notes its largest resident set in bytes.
import os, resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
with open("rss." + os.environ.get("OMPI_COMM_WORLD_RANK", "0"), "w") as f:
    f.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(status)
PY
cat >compare.py <<'PY'
import glob, json, sys
name, plan = sys.argv[1], json.load(open("plan.json"))
rss = [int(open(f).read()) for f in glob.glob("rss.*")]
steps = [s for s in map(json.loads, open("run/metrics.jsonl")) if "loss" in s]
sent = steps[-1].get("rank_sent_bytes", [0])
wire = sum(plan["wire_bytes"].values())
total, process = plan["bytes"]["total"], plan["bytes"]["process"]
mib = lambda n: n / 2**20
print("%-24s %9.1f %9.1f %7.3f %8.1f %13.0f %13.0f %8.0f" % (name, mib(total), mib(max(rss)), max(rss) / (total + process),
      mib(max(rss) - total), wire, sum(sent) / len(sent), sum(sent) / len(sent) - wire))
PY
# name | ranks | keys
layouts="
one|1|
data 2, zero 0|2|parallel.zero=0
data 2, zero 1|2|
tensor 2|2|parallel.tensor=2 parallel.sequence=false
tensor 2, sequence|2|parallel.tensor=2
gpipe 2|2|parallel.pipeline=2 parallel.schedule=gpipe
1f1b 2|2|parallel.pipeline=2
interleaved 2|2|parallel.pipeline=2 parallel.schedule=interleaved parallel.virtual_stages=2
zb-h1 2|2|parallel.pipeline=2 parallel.schedule=zb-h1
context 2|2|parallel.context=2
"
names=("$@")
printf '%-24s %9s %9s %7s %8s %13s %13s %8s\n' layout "plan MiB" "peak MiB" of+const beside "planned sent" sent beside
while IFS='|' read -r name n keys; do
    [ -n "$name" ] || continue
    [ ${#names[@]} = 0 ] || printf '%s\n' "${names[@]}" | grep -qxF "$name" || continue
    sets=(--set run_dir=run)
    for key in $keys; do sets+=(--set "$key"); done
    rm -rf run rss.*
    launch=()
    [ "$n" = 1 ] || launch=(mpirun --oversubscribe -n "$n")
    if ! "$drover" plan run.yaml --ranks "$n" --json "${sets[@]}" >plan.json 2>log.txt ||
        ! "${launch[@]}" python3 measure.py "$drover" train run.yaml "${sets[@]}" </dev/null >log.txt 2>&1; then
        echo "$name: $(tail -1 log.txt)"
        continue
    fi
    python3 compare.py "$name"
done <<<"$layouts"
