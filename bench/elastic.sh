#!/bin/bash
# LoRA on 4 -> 3 -> 2 -> 4 nodes in one run, tensor and data ranks, then pipelines, with ZeRO-1: the bytes of one rank that
# nothing happened to, and each row once, in order. Full training: tests/launch_supervise.sh. A minute.
# usage: elastic.sh PROGRAM
. "$(dirname "$0")"/../tests/nodes.bash
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 3/; s/checkpoint:.*/checkpoint: {every: 20, keep: 0}/; s/training: {/training: {log_every: 10, /' run.yaml
echo 'parallel: {accumulation_groups: 4}' >>run.yaml
steps=240
"$drover" train run.yaml --set run_dir=base --set training.steps=2 >base.out 2>&1 || bad "the base" base.out
base=$(ls -d base/checkpoints/step-*)
sed -i "s#^model:.*#model: {from: $base}#" run.yaml
echo 'lora: {rank: 4}' >>run.yaml
"$drover" train run.yaml --set run_dir=one --set training.steps=$steps >one.out 2>&1 || bad "one rank" one.out
adapter() { (cd "$1/checkpoints/step-$2" && sha256sum adapter_model.safetensors optimizer.safetensors trainer.json); }
for axis in tensor=2 data=4; do
    run=${axis%=*}
    new_port
    opts="--max-restarts 9 --min-nodes 1 --grow-after 0s --wait 60 --set parallel.$axis --set parallel.zero=1 --set training.steps=$steps --set run_dir=$run"
    for i in 3 1 0 2; do node $i 4 $opts; done
    wait_for grep -q '"step":5,' $run/metrics.jsonl
    kill -KILL "$(launcher 3)" $(descendants "$(launcher 3)")
    follows runs_again $run 1
    kill -KILL "$(launcher 1)" $(descendants "$(launcher 1)")
    follows runs_again $run 2
    for i in 1x 3x; do node $i 4 $opts; done
    follows runs_again $run 3
    ended "$run" 0 0 2 1x 3x
    grep -E "instead of" node-0.out
    for step in 000020 000120 000$steps; do check "$axis: the bits of step $step" test "$(adapter $run $step)" = "$(adapter one $step)"; done
    check "$axis: each row once, in order" [ "$(sed -nE 's/.*"consumed_samples":([0-9]+),.*/\1/p' $run/metrics.jsonl | awk '$1 != 8 * NR { bad = 1 } END { print NR, bad + 0 }')" = "$steps 0" ]
done
finish
