#!/bin/bash
# A run that another trainer began goes on (model.weights: resume): the losses of the next four steps are those that torch had
# (tools/golden_foreign.py). Then it is a run of its own, and what cannot go on says so.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
foreign=$tests/golden/foreign/midrun ranks=$tests/golden/rank_states/midrun
cat >run.yaml <<END
data: {train: $foreign/data, sequence_length: 8, pack: stream, split: [1, 0, 0]}
training: {steps: 9, global_batch_size: 4, micro_batch_size: 4, precision: fp32, eval_every: 0}
optimizer: {lr: 1.0e-2, betas: [0.9, 0.95], eps: 1.0e-6, weight_decay: 0.1, clip_grad_norm: 1}
schedule: {type: constant, warmup_steps: 8}
END
start() { # FOLDER RUN [OPTIONS...]
    local from=$1 run=$2
    shift 2
    "$drover" train run.yaml --set model.from="$from" --set model.weights=resume --set run_dir="$run" "$@"
}
losses_are_torchs() { # RUN: to the rounding of fp32 sums
    sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1"/metrics.jsonl >got
    tr -d '[]' <"$foreign"/losses.json | tr ',' '\n' | paste got - |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) exit 1 } END { exit NR != 4 }'
}

# --- from each format
for name in own titan flattened; do
    expect 0 "goes on from $foreign/$name: step 5, 5 updates, row 20" start "$foreign"/$name $name
    check "$name: other losses than torch's" losses_are_torchs $name
    check "$name: says that the rates differ" eval '! out_has "continues with learning rate"'
done
expect 0 "goes on from $ranks: step 5, 5 updates, row 20" start "$ranks" ranks
check "files of ranks: other losses than torch's" losses_are_torchs ranks
check "what the checkpoint has is said to be missing" eval '! out_has "does not record the number of samples"'
expect 0 "titan does not record the number of samples: 5 steps of training.global_batch_size 4" \
    start "$foreign"/titan said --set training.steps=6
expect 0 "\"rows_taken\": 36" cat titan/checkpoints/step-000009/trainer.json
expect 0 ": ok" "$drover" ckpt verify titan/checkpoints/step-000009
expect 0 "continues with learning rate 0.0075, but the schedule of the config has 0.006 in step 6" \
    start "$foreign"/flattened rates --set training.steps=6 --set schedule.warmup_steps=10
expect 0 "model: bf16/checkpoints/step-000009" start "$foreign"/own bf16 --set training.precision=bf16
expect 0 "nothing to do: step 5 is done, and training.steps asks for 4" start "$foreign"/own short --set training.steps=4

# --- imported: a checkpoint of drover
for case in titan:42 flattened:63; do
    name=${case%:*}
    expect 0 "weights: resume}" "$drover" ckpt import "$foreign"/$name --out imported-$name --optimizer
    says "with the optimizer's state of step 5, ${case#*:} tensors" "all weights are equal to the bit"
    expect 0 ": ok" "$drover" ckpt verify imported-$name
    expect 0 "step 5, 5 updates, row 20" start imported-$name again-$name
    check "$name, imported: other weights" cmp -s $name/checkpoints/step-000009/model.safetensors again-$name/checkpoints/step-000009/model.safetensors
done
expect 0 'in a config: model: {from: "a, b: c", weights: resume}' "$drover" ckpt import "$foreign"/titan --out "a, b: c" --optimizer
expect 0 "exp_avg_sq.model.norm.weight" "$drover" ckpt show imported-flattened
says "master.model.norm.weight"
expect 1 "golden/foreign/model\" has weights, but no optimizer's state" "$drover" ckpt import "${foreign%/*}"/model --out no --optimizer
check "something was written" [ ! -e no ]
cp -r imported-flattened harmed && sed -i s/exp_avg_sq.model.norm/exp_avg_sq.model.morn/ harmed/optimizer.safetensors
expect 1 "tensor \"exp_avg_sq.model.morn.weight\" has no place" start harmed no
expect 1 "tensor \"exp_avg_sq.model.morn.weight\" has no place" "$drover" ckpt import harmed --out not --optimizer

for type in muon normuon; do # of drover's own runs
    expect 0 "step 2" "$drover" train run.yaml --set model.from="$foreign"/own --set optimizer.type=$type --set training.steps=2 --set run_dir=$type
    expect 0 "weights: resume}" "$drover" ckpt import $type/checkpoints/step-000002 --out imported-$type --optimizer
    for from in $type/checkpoints/step-000002 imported-$type; do
        expect 0 "step 2, 2 updates" start $from "again-$type-${from%%[-/]*}" --set optimizer.type=$type --set training.steps=3
    done
    cmp -s again-$type-{$type,imported}/checkpoints/step-000003/model.safetensors
    check "$type, imported: other weights" [ $? = 0 ]
done

# --- begun, it is a run like others
expect 3 "stopped by training.stop_at_step after step 7" start "$foreign"/titan parts --set training.stop_at_step=7
expect 0 "resumed from parts/checkpoints/step-000007: step 7" start "$foreign"/titan parts
check "in two parts: other losses than torch's" losses_are_torchs parts
cmp -s parts/checkpoints/step-000009/model.safetensors titan/checkpoints/step-000009/model.safetensors
check "in two parts: other weights" [ $? = 0 ]

# --- what cannot go on
cp -r "$foreign"/own alone && rm alone/optimizer.safetensors
expect 1 "\"alone\" has weights, but no optimizer's state" start alone no
expect 2 "key \"model.weights\" is \"resume\", which needs model.from" "$drover" config run.yaml --set model.preset=llama-135m \
    --set model.weights=resume
expect 2 "is resume, but of a LoRA run only adapters are trained" start "$foreign"/own no --set lora.rank=2
expect 2 "is resume, but with training.objective dpo" start "$foreign"/own no --set training.objective=dpo --set data.pack=auto
expect 2 "has the state of AdamW, but optimizer.type is muon" start "$foreign"/own no --set optimizer.type=muon
finish
