#!/bin/bash
# `drover launch node` beside plain mpirun, in turn: how long until the ranks of four nodes on this machine have met in MPI, and how
# long their steps take. Messages go by TCP in both, as between hosts. usage: launch_node.sh DROVER [ROUNDS]
. "$(dirname "$0")"/../tests/ranks.bash
unset HWLOC_SYNTHETIC
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self TMPDIR=$dir
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/steps: 40/steps: 60/; s/checkpoint:.*/checkpoint: {every: 0}/' run.yaml
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
by_node() {
    local i
    for i in 3 2 1; do "$drover" launch node run.yaml --nodes 4 --node-rank $i --master 127.0.0.1:$port --set run_dir="$1" >out-$i 2>&1 & done
    "$drover" launch node run.yaml --nodes 4 --node-rank 0 --master 127.0.0.1:$port --set run_dir="$1" >out-0 2>&1
    wait
}
by_mpirun() { ranks 4 train run.yaml --set run_dir="$1" >out-0 2>&1; }
for round in $(seq "${2:-5}"); do
    for how in by_node by_mpirun; do
        began=$(date +%s.%N)
        $how $how-$round
        python3 - $how $how-$round "$began" <<'PY'
import json, statistics, sys
how, run, began = sys.argv[1:]
start = next(e for e in map(json.loads, open(run + "/events.jsonl")) if e["event"] == "start")
steps = [m["tokens_per_s"] for m in map(json.loads, open(run + "/metrics.jsonl")) if m.get("step", 0) > 10 and "tokens_per_s" in m]
print(f"{how}: ranks have met after {start['time'] - float(began):.2f} s; a step takes {8 * 64e3 / statistics.median(steps):.1f} ms (median of {len(steps)})")
PY
    done
done
