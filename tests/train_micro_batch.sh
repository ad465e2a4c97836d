#!/bin/bash
# The size of a micro-batch changes no bit: losses, norms, validation, hashes of every step and every file of a
# checkpoint with 1, 2 and 4 rows, in bf16 and fp32, LoRA, layouts, and runs that go on with another size. What is
# said of it, and refused. Needs mpirun.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 4/; s/eval_every: 0/eval_every: 2, eval_batches: 2, hash_every: 1/; s/micro_batch_size: 2/micro_batch_size: 1/; s/checkpoint:.*/checkpoint: {every: 2, keep: 0}/; s/schedule:.*/schedule: {type: constant, warmup_steps: 1}/' run.yaml
echo 'parallel: {lanes: 2, context_leaves: 2}' >>run.yaml
rows=training.micro_batch_size
# What is no time, speed or number of bytes in a line of metrics.jsonl.
numbers() { grep -oE '"(step|loss|val_loss|lr|grad_norm|param_norm|tokens)": *[^,}]*' "$1/metrics.jsonl"; }
same() { # RUN ONE
    cmp <(numbers "$1") <(numbers "$2") && cmp "$1/hashes.jsonl" "$2/hashes.jsonl" &&
        diff -r "$1/checkpoints" "$2/checkpoints"
}
expect 0 "step-000004" train 1 one
[ "$(numbers one | wc -l)" -ge 20 ] && ok || bad "metrics.jsonl has too few numbers" one/metrics.jsonl
for n in 2 4; do
    expect 0 "step-000004" train 1 rows$n $rows=$n
    check "$n rows: the bits of one" same rows$n one
done
expect 0 "step-000004" train 1 fp1 training.precision=fp32
expect 0 "step-000004" train 1 fp4 training.precision=fp32 $rows=4 training.recompute=full parallel.zero=0
check "fp32, 4 rows recomputed: the bits of one" same fp4 fp1
lora="model.preset= model.from=one/checkpoints/step-000004 lora.rank=4 lora.dropout=0.1 lora.target_modules=all-linear"
expect 0 "step-000004" train 1 lora1 $lora
expect 0 "step-000004" train 1 lora4 $lora $rows=4
check "LoRA, 4 rows: the bits of one" same lora4 lora1
expect 0 "step-000004" train 4 mesh $rows=2 parallel.tensor=2 parallel.pipeline=2
check "tensor 2, pipeline 2, 2 rows: the bits of one" same mesh one
expect 0 "step-000004" train 4 spread $rows=4 parallel.context=2
check "context 2, data 2, 4 rows: the bits of one" same spread one

# --- evaluation
expect 0 loss "$drover" eval run.yaml --json --set run_dir=one --set $rows=1
cp out eval1
expect 0 loss "$drover" eval run.yaml --json --set run_dir=one --set $rows=4
check "eval: 4 rows give another loss" cmp <(grep -E '"(loss|tokens)"' out) <(grep -E '"(loss|tokens)"' eval1)

# --- going on with another size: nothing to be said, unless addends are others
expect 0 "step-000002" train 1 on training.steps=2 $rows=4
expect 0 "resumed from on/checkpoints/step-000002" train 1 on $rows=2
check "a resumed run says that something has changed" [ "$(grep -cE "changed since.*(micro|addend)" out)" = 0 ]
rm -rf on/checkpoints/step-000002
check "4 rows, then 2: other files" cmp <(cd on/checkpoints && find . -type f -exec sha256sum {} + | sort) \
    <(cd one/checkpoints && rm -rf step-000002 && find . -type f -exec sha256sum {} + | sort)
expect 0 "parallel.addend_rows: 1 -> 2; gradients are sums of other addends" \
    train 1 on $rows=2 parallel.addend_rows=2 training.steps=5

# --- refused
expect 2 "--set: key \"parallel.addend_rows\" is 3, expected a divisor of training.micro_batch_size 4" \
    train 1 bad $rows=4 parallel.addend_rows=3
for set in parallel.zero=2 training.grad_dtype=bf16 backend=pjrt; do
    expect 2 "key \"parallel.addend_rows\" is 1, but ${set/=/ } adds whole micro-batches up" train 1 bad $rows=2 parallel.addend_rows=1 \
        parallel.context_leaves=auto $set
done
finish
