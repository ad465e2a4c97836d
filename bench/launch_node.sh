#!/bin/bash
# `drover launch node` beside plain mpirun, in turn: how long until the ranks of NODES nodes on this machine (as many as it
# has cores, at most four) have met in MPI, and how long their steps take. Messages go by TCP in both, as between hosts. The
# last lines are medians over the rounds, and whether ranks met within 3 s and steps are alike; status 1: not. On a quiet
# machine two minutes. usage: launch_node.sh DROVER [ROUNDS [NODES]]
. "$(dirname "$0")"/../tests/ranks.bash
unset HWLOC_SYNTHETIC
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self TMPDIR=$dir
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 200/; s/checkpoint:.*/checkpoint: {every: 0}/' run.yaml
cores=$(nproc) nodes=${3:-$((cores < 4 ? cores : 4))} # more ranks than cores compare who gives way to whom
by_node() {
    local i
    for i in $(seq $((nodes - 1))); do "$drover" launch node run.yaml --nodes $nodes --node-rank $i --master $address:$port --set run_dir="$1" >out-$i 2>&1 & done
    "$drover" launch node run.yaml --nodes $nodes --node-rank 0 --master $address:$port --set run_dir="$1" >out-0 2>&1
    wait
}
# A kernel may share cores by session (sched_autogroup). Each node of this machine is one, all ranks of one mpirun are one
# together, and hosts share nothing: steps of four nodes on two cores took 7 % longer. Root switches it off meanwhile.
autogroup=/proc/sys/kernel/sched_autogroup_enabled
if [ "$(cat $autogroup 2>/dev/null)" = 1 ]; then
    if echo 0 2>/dev/null >$autogroup; then
        trap 'echo 1 >$autogroup; rm -rf "$dir"' EXIT
    else
        echo "the kernel shares cores by session, which only root can switch off: steps are not alike on fewer cores than nodes"
    fi
fi
# The same for both: a thread a rank, nothing bound, and no yielding, which mpirun sets where one node has more ranks than cores,
# which drover asks for where nobody has said anything, and which made steps on a busy machine three times as long.
export DROVER_THREADS=1 OMPI_MCA_mpi_yield_when_idle=0
by_mpirun() { mpirun --oversubscribe --bind-to none -n $nodes "$drover" train run.yaml --set run_dir="$1" >out-0 2>&1; }
for round in $(seq "${2:-5}"); do
    for how in by_node by_mpirun; do
        began=$(date +%s.%N)
        $how $how-$round
        python3 - $how $how-$round "$began" <<'PY'
import json, statistics, sys
how, run, began = sys.argv[1:]
start = next(e for e in map(json.loads, open(run + "/events.jsonl")) if e["event"] == "start")
steps = [m["tokens_per_s"] for m in map(json.loads, open(run + "/metrics.jsonl")) if m.get("step", 0) > 10 and "tokens_per_s" in m]
met, step_ms = start["time"] - float(began), 8 * 64e3 / statistics.median(steps)
open("rounds", "a").write(f"{how} {met} {step_ms}\n")
print(f"{how}: ranks have met after {met:.2f} s; a step takes {step_ms:.1f} ms (median of {len(steps)})")
PY
    done
done
python3 - <<'PY'
import statistics
rounds = [line.split() for line in open("rounds")]
median = {how: [statistics.median(float(r[k]) for r in rounds if r[0] == how) for k in (1, 2)] for how in ("by_node", "by_mpirun")}
ratios = sorted(float(a[2]) / float(b[2]) for a, b in zip(rounds[::2], rounds[1::2]))
met, ratio = median["by_node"][0], statistics.median(ratios)
print(f"ranks have met after {met:.2f} s (mpirun: {median['by_mpirun'][0]:.2f} s), within 3 s: {'yes' if met <= 3 else 'NO'}")
print(f"a step takes {ratio:.3f} of mpirun's ({ratios[0]:.3f} to {ratios[-1]:.3f}), alike within 5 %: {'yes' if abs(ratio - 1) <= 0.05 else 'NO'}")
raise SystemExit(met > 3 or abs(ratio - 1) > 0.05)
PY
