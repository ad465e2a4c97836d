#!/bin/bash
# drover report of runs that were trained: the plan beside what was measured, the keys that were set, samples, and two
# runs beside each other.
. "$(dirname "$0")"/story.bash
make_data
sed -i 's/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 3/' run.yaml
expect 0 "done: step 6 of 6" "$drover" train run.yaml --set run_dir=one
expect 0 "done: step 4 of 4" "$drover" train run.yaml --set run_dir=two --set training.steps=4 --set optimizer.lr=0.001
expect 0 "done: step 6 of 6" "$drover" report one two --samples 2
says "wall time" "validation loss" "Plan beside measurement" "memory of the rank with most" "Energy" "ranks           1 on 1 node" \
    "schedule.warmup_steps      5 (default:" "optimizer.lr" "sample 2" "Runs beside each other" "efficiency"
check "no key that was left alone" test "$(grep -c 'training.seed' out)" = 0
# The peak of the tests is 1e11: steps planned at 75 % of it, by the run's own share of it.
check "step time, planned and measured" grep -qE 'step time .* [0-9]+\.[0-9]+ s +[0-9]+\.[0-9]+ s' out
check "memory, planned and measured" grep -qE 'memory of the rank with most.* [0-9.]+ MiB +[0-9.]+ MiB' out
cp out first
expect 0 "sample 2" "$drover" report one two --samples 2
check "the same samples each time" cmp -s <(sed -n '/^sample/,$p' first) <(sed -n '/^sample/,$p' out)
expect 0 '"samples":["' "$drover" report one --samples 1 --json
says '"config_changed":"' '"plan":{"rank_bytes":'
expect 0 "" "$drover" report one two --samples 1 --out page.html
cp page.html out
says "<h3>Samples</h3>" "<h3>Plan beside measurement</h3>" "Runs beside each other" "<svg"
rm -r one/checkpoints
expect 0 "no samples of text: " "$drover" report one --samples 1
echo '{' >one/config.yaml
expect 0 "wall time" "$drover" report one
expect 2 "--samples" "$drover" report one --samples 0
finish
