#!/bin/bash
# Ranks that share rows, over mpirun: losses and evaluations near those of one process, and with as many reduction blocks the bits of
# one; checkpoints that any layout goes on from, what cannot be cut. (More layouts, on ranks that are threads: test_grid,
# test_context_bits.) Needs mpirun and drover_mpi.so.
. "$(dirname "$0")"/ranks.bash
make_data
sed -i 's/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 3, eval_batches: 5/; s/precision: bf16/precision: fp32/; s/global_batch_size: 8/global_batch_size: 4/' run.yaml

expect 0 "step 6" train 1 one
expect 0 "context 2, data 2, 2 accumulation groups, ZeRO-1" train 4 c2d2 parallel.context=2 training.micro_batch_size=1
check "losses of one rank, whose rows are not cut" near c2d2 one
expect 0 ": ok" "$drover" ckpt verify c2d2/checkpoints/step-000006
tokens() { sed -n 's/.*"val_loss".*"tokens":\([0-9]*\).*/\1/p' "$1/metrics.jsonl"; }
check "as many tokens as one rank counts" test "$(tokens c2d2)" = "$(tokens one)"

# --- the bits do not depend on who has which reduction block of a row
sed -i "s/schedule:.*/schedule: {type: constant, warmup_steps: 5}/" run.yaml # the rate of a step does not depend on training.steps
for layout in "1 1" "2 2" "4 4"; do
    expect 0 "step 6" train ${layout% *} blocks${layout#* } parallel.context_blocks=4 parallel.context=${layout#* }
done
expect 0 "step 2" train 4 moved parallel.context_blocks=4 parallel.context=4 training.steps=2
expect 0 "resumed from moved/checkpoints/step-000002" train 2 moved parallel.context_blocks=4 parallel.context=1 parallel.pipeline=2 training.steps=4
expect 0 "resumed from moved/checkpoints/step-000004" train 4 moved parallel.context_blocks=4 parallel.context=2 parallel.tensor=2
same_files() { # RUN OF
    local file
    for file in model optimizer; do
        cmp $1/checkpoints/step-000006/$file.safetensors $2/checkpoints/step-000006/$file.safetensors || return
    done
}
for run in blocks2 blocks4 moved; do
    check "$run: model and optimizer of one rank with 4 reduction blocks" same_files $run blocks1
done
for run in blocks2 blocks4; do
    check "$run: losses of one rank, to the last digit" test "$(losses $run)" = "$(losses blocks1)"
done

# --- what cannot be cut, and plans
expect 2 "\"parallel.context_blocks\" is 3, expected parallel.context 1 x 1, 2, 4" train 1 bad parallel.context_blocks=3
expect 0 "layout        tensor 1, context 1 with 4 reduction blocks, data 1" "$drover" plan run.yaml --set parallel.context_blocks=4
expect 2 "\"data.sequence_length\" is 64, expected a multiple of 6: two chunks for each of parallel.context 3 ranks" train 3 bad parallel.context=3
check "it is said once" test "$(grep -c 'expected a multiple of 6' out)" = 1
expect 2 "expected a multiple of tensor 1 x pipeline 1 x context 2" train 3 bad parallel.context=2
expect 0 "over the context axis" "$drover" plan run.yaml --ranks 4 --set parallel.context=2
says "context 2, data 2" "over the data and context axis"
finish
