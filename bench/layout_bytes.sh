#!/bin/bash
# What drover plan prints of each kind of layout against what its ranks hold and send: bench/layout_bytes.sh build/drover [LAYOUT...]
# Memory: the largest resident set of any rank (VmHWM, the save at the end among it) against the bytes planned for the rank
# that needs most and those stated for the process. Wire: bytes that a rank sends in a step, the mean of all ranks, against
# those planned. Sequence 512, bf16, threads 1. MODEL=small: 4 layers of llama-15m with 8 heads and a vocabulary of
# 4096; otherwise 16 layers of llama-135m. LAYOUTS=zero: all levels of ZeRO on 2, 4 and 8 ranks, beside every schedule of
# pipelines, with 8 layers. Ends with 1 where a peak is not within 5 % (LAYOUTS=zero: 3 %). Needs mpirun, 4 GiB (zero: 7).
drover=$(realpath "$1")
shift
here=$(realpath "$(dirname "$0")")
export DROVER_THREADS=1
. "$here"/layouts.bash
model="preset: llama-135m, num_hidden_layers: 16"
within=0.05
if [ "$LAYOUTS" = zero ]; then
    model="preset: llama-135m, num_hidden_layers: 8" within=0.03 layouts=
    for schedule in gpipe 1f1b interleaved zb-h1; do
        pipelines+=("pipeline 2 $schedule|parallel.pipeline=2 parallel.schedule=$schedule")
    done
    pipelines[2]+=" parallel.virtual_stages=2"
    for ranks in 2 4 8; do
        for zero in 0 1 2 3; do
            for pipeline in "|" "${pipelines[@]}"; do
                data=$((ranks / (${#pipeline} > 1 ? 2 : 1)))
                [ "$data" -gt 1 ] || [ "$zero" = 0 ] || continue
                layouts+="data $data ${pipeline%|*} zero $zero|$ranks|parallel.zero=$zero ${pipeline#*|}"$'\n'
            done
        done
    done
fi
[ "$MODEL" != small ] || model="preset: llama-15m, num_hidden_layers: 4"
set_up "{$model, vocab_size: 4096, num_attention_heads: 8, num_key_value_heads: 4}" 512 8 2
names=("$@")
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
stages = plan.get("pipeline", {}).get("rank_wire_bytes") or [sum(plan["wire_bytes"].values())]
wire = sum(stages) / len(stages)
total, process = plan["bytes"]["total"], plan["bytes"]["process"]
mib = lambda n: n / 2**20
share = max(rss) / (total + process)
print("%-36s %9.1f %9.1f %9.1f %7.3f %13.0f %13.0f %8.0f" % (name, mib(total), mib(process), mib(max(rss)), share, wire,
      sum(sent) / len(sent), sum(sent) / len(sent) - wire))
sys.exit(abs(share - 1) > float(sys.argv[2]))
PY
status=0
printf '%-36s %9s %9s %9s %7s %13s %13s %8s\n' layout "plan MiB" "process" "peak MiB" of-both "planned sent" sent beside
while IFS='|' read -r name n keys _; do
    [ -n "$name" ] && wanted "$name" || continue
    rm -f rss.*
    if ! run_layout "$n" "$keys" python3 measure.py ||
        ! "$drover" plan run.yaml --ranks "$n" --json "${sets[@]}" >plan.json 2>log.txt; then
        echo "$name: $(tail -1 log.txt)"
        status=1
        continue
    fi
    python3 compare.py "$name" "$within" || status=1
done <<<"$layouts"
exit $status
