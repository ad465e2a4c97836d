#!/bin/bash
# backend: pjrt on several local devices, as a user has it: losses of one device in several layouts, checkpoints
# that any layout and the CPU back end go on from, the same bits after a stop, what does not fit. Skipped where
# there is no plugin.
. "$(dirname "$0")"/pjrt.bash
make_data
sed -i 's/micro_batch_size: 2/micro_batch_size: 1/; s/bf16/fp32/' run.yaml
train() { "$drover" train run.yaml --set schedule.type=constant --set checkpoint.every=5 --set training.steps=10 --set run_dir="$@"; }
pjrt="--set backend=pjrt"

expect 0 "step 10" train one $pjrt
expect 0 "8 ranks on 1 host over threads: tensor 1, data 8, 8 accumulation groups, ZeRO-1" train d8 $pjrt --set pjrt.devices=8
expect 0 "tensor 2, data 4, 4 accumulation groups, ZeRO-1" train t2d4 $pjrt --set pjrt.devices=8 --set parallel.tensor=2
expect 0 "2 ranks on 1 host over threads: tensor 2, data 1" train t2 $pjrt --set parallel.tensor=2
for run in d8 t2d4 t2; do
    check "$run: losses of one device" near 1e-5 $run one
    expect 0 ": ok" "$drover" ckpt verify $run/checkpoints/step-000010
done
for layout in one tensor=2 context=2; do # ranks find the scale of a tensor together
    expect 0 "step 1" train fp8-$layout $pjrt --set training.precision=fp8 --set training.steps=1 $([ $layout = one ] || echo --set parallel.$layout)
    check "fp8, $layout: the loss of one device" near 5e-6 fp8-$layout fp8-one
done
check "rank 0 alone has a log" [ -z "$(ls t2d4/ranks | grep log)" ]
check "each checkpoint is told once" [ "$(grep -c 'checkpoint: ' d8/log.txt)" = 2 ]

# --- from one layout to another: eight devices, one device, the CPU back end
expect 0 "step 5" train mixed $pjrt --set pjrt.devices=8 --set parallel.tensor=2 --set training.steps=5
expect 0 "resumed from mixed/checkpoints/step-000005" train mixed $pjrt --set training.steps=7
expect 0 "resumed from mixed/checkpoints/step-000007" train mixed --set training.steps=8
expect 0 "resumed from mixed/checkpoints/step-000008" train mixed $pjrt --set parallel.tensor=4
check "8 devices, 1, cpu, 4 devices: losses of one" near 1e-5 mixed one

# --- a pipeline: its checkpoint goes on elsewhere, and it goes on from others
expect 0 "pipeline 2 x 1 stages, data 2" train staged $pjrt --set parallel.pipeline=2 --set parallel.data=2 --set training.steps=5
expect 0 "resumed from staged/checkpoints/step-000005" train staged $pjrt --set training.steps=8
expect 0 "resumed from staged/checkpoints/step-000008" train staged $pjrt --set parallel.pipeline=2 --set parallel.tensor=2
check "pipeline x data, one device, pipeline x tensor: losses of one" near 1e-5 staged one

# --- evaluations whose micro-batches the ranks cannot share evenly: nobody waits for a rank that has none left
uneven="--set training.steps=2 --set training.eval_every=2 --set data.split=[96,4,0]"
val_losses() { sed -n 's/.*"val_loss": *\([-0-9.e]*\).*/\1/p' "$1/metrics.jsonl"; }
expect 0 "step 2" train whole $uneven $pjrt
for layout in "shared --set pjrt.devices=4" "piped --set pjrt.devices=4 --set parallel.pipeline=2"; do
    expect 0 "step 2" timeout -k 5 200 "$drover" train run.yaml --set schedule.type=constant $uneven $pjrt --set run_dir=$layout
    check "$layout: validation losses of one device" [ "$(paste <(val_losses whole) <(val_losses ${layout%% *}) |
        awk '($1 / $2 - 1) ^ 2 < 1e-10' | wc -l)" = 2 ]
done

# --- a stop, and a resume with the same bits
"$drover" train run.yaml --set schedule.type=constant $pjrt --set pjrt.devices=4 --set checkpoint.every=5 --set training.steps=100000 --set run_dir=stopped >out 2>&1 &
wait_for grep -q '"step":5,' stopped/metrics.jsonl
kill -TERM $!
wait_end $!
check "a stop exits 3" [ $? = 3 ]
says "stopped by SIGTERM after step" "the same command resumes it"
train straight $pjrt --set pjrt.devices=4 >out 2>&1
train broken $pjrt --set pjrt.devices=4 --set training.steps=5 >out 2>&1
expect 0 "resumed" train broken $pjrt --set pjrt.devices=4
for file in model optimizer; do
    check "resumed on four devices: $file of the unbroken run" cmp {broken,straight}/checkpoints/step-000010/$file.safetensors
done

# --- compiled beforehand for the same devices: the run finds all programs
rm -rf cache
expect 0 "Total failed: 0" "$drover" compile run.yaml $pjrt --devices 4 --set schedule.type=constant
ls cache | sort >compiled
expect 0 "step 10" train found $pjrt --set pjrt.devices=4
check "a run on four devices compiles what drover compile had not" cmp -s compiled <(ls cache | sort)

# --- what does not fit
expect 2 "key \"pjrt.devices\" is 3, expected a multiple of 2: tensor 2 x pipeline 1 x context 1" train bad $pjrt --set pjrt.devices=3 --set parallel.tensor=2
expect 2 "key \"pjrt.devices\" is 4, expected 8" train bad $pjrt --set pjrt.devices=4 --set parallel.data=8
expect 2 "expected a multiple of micro_batch_size 1 x data-parallel ranks 5" train bad $pjrt --set pjrt.devices=5
expect 2 "key \"pjrt.devices\" is \"0\"" train bad $pjrt --set pjrt.devices=0
expect 2 "2 tensor ranks with 2 reduction blocks divide the vocabulary of 401 unevenly" train bad $pjrt --set parallel.tensor=2 --set model.vocab_size=401

# --- several processes of one cluster, a device each: stages exchange over MPI; the CPU plugin joins none in one program
if command -v mpirun >/dev/null && [ -e "$(dirname "$drover")/drover_mpi.so" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    two() { mpirun --oversubscribe -n 2 "$drover" train run.yaml --set schedule.type=constant $pjrt --set training.steps=10 --set run_dir="$@"; }
    expect 0 "2 ranks on 1 host over MPI: tensor 1, pipeline 2 x 1 stages" two processes --set parallel.pipeline=2
    check "two processes: losses of one" near 1e-5 processes one
    expect 1 "is for 2 processes, but plugin \"cpu\" runs each program in one process, expected parallel.pipeline 2" two bad
    expect 2 "key \"pjrt.devices\" is 2, but 2 processes were started; expected 1" two bad --set pjrt.devices=2
fi
expect 2 "key \"parallel.context_blocks\" is 4, expected 2, a reduction block of the row for each context rank: backend pjrt" train bad $pjrt --set parallel.context=2 --set parallel.context_blocks=4
finish
