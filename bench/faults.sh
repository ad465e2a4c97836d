#!/bin/bash
# How long a dead rank stays unnamed: a rank of a run under mpirun is killed with SIGKILL, again and again, on several
# layouts; for each kill the milliseconds until the message that names it stands in the output, and until mpirun ends.
# usage: faults.sh PROGRAM [KILLS]
. "$(dirname "$0")"/../tests/ranks.bash
kills=${2:-8}
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 4/; s/micro_batch_size: 2/micro_batch_size: 1/; s/checkpoint:.*/checkpoint: {every: 0}/; s/schedule:.*/schedule: {type: constant}/' run.yaml
layouts=("4 parallel.data=4" "4 parallel.pipeline=4" "4 parallel.tensor=2" "2 parallel.context=2")
ms() { echo $((($(date +%s%N) - from) / 1000000)); }
echo "| layout | rank | named after, ms | mpirun ended after, ms |"
echo "|---|---|---|---|"
for k in $(seq "$kills"); do
    read -r n key <<<"${layouts[k % ${#layouts[@]}]}"
    rm -rf run
    mpirun --oversubscribe -n "$n" "$drover" train run.yaml --set run_dir=run --set training.steps=1000000 --set "$key" >out 2>&1 &
    mpirun=$!
    wait_for grep -q '"step":9,' run/metrics.jsonl
    victim=$((k % n))
    for pid in $(pgrep -P $mpirun); do
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$victim" && break
    done
    from=$(date +%s%N)
    kill -KILL "$pid"
    until grep -q "drover: rank $victim (.*died, last heard of at step" out || ! kill -0 $mpirun 2>/dev/null; do sleep 0.005; done
    named=$(ms)
    grep -q "drover: rank $victim (.*died, last heard of at step" out || named="not named"
    wait $mpirun
    echo "| $n ranks, $key | $victim | $named | $(ms) |"
done
