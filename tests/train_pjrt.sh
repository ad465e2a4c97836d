#!/bin/bash
# backend: pjrt as a user has it, on a CPU plugin: the losses of `cpu`, runs that change the back end half-way, and the same
# bits after a kill. (Evaluation, recomputation, LoRA, pairs and generation: train_pjrt_programs.sh; the cache: compile_cache.sh.)
. "$(dirname "$0")"/pjrt.bash
make_data
train() { expect 0 "" "$drover" train run.yaml --set schedule.type=constant --set checkpoint.every=10 --set run_dir="$@"; }
# Bounds: in fp32 losses differ by 1e-8. In bf16 each back end is up to 5e-5 away from the losses of fp32, and the CPU 1.3e-5
# from itself with its sums in other reduction blocks (parallel.tensor_blocks): two back ends may be twice 5e-5 apart.

# --- 20 steps on both, fp32 and bf16
for precision in fp32 bf16; do
    bound=$([ $precision = fp32 ] && echo 1e-5 || echo 1e-4)
    for backend in cpu pjrt; do
        train $backend-$precision --set training.steps=20 --set training.precision=$precision --set backend=$backend
    done
    check "$precision: losses of pjrt and cpu differ" near $bound cpu-$precision pjrt-$precision
done

expect 2 "--profile needs a back end that runs op by op: expected backend cpu, but --set is \"pjrt\"" "$drover" bench step run.yaml \
    --set backend=pjrt --profile

# --- ten steps on one, resumed on the other
for backends in "cpu pjrt" "pjrt cpu"; do
    set -- $backends
    train $1-$2 --set training.steps=10 --set training.precision=fp32 --set backend="$1"
    train $1-$2 --set training.steps=20 --set training.precision=fp32 --set backend="$2"
    says "resumed from $1-$2/checkpoints/step-000010"
    says "arithmetic"
    check "resumed on $2 after $1: losses differ" near 1e-5 cpu-fp32 $1-$2
done

# --- the same bits: unbroken, resumed, killed
train again --set training.steps=10 --set backend=pjrt
train again --set training.steps=20 --set backend=pjrt
sums pjrt-bf16 000020 >want
check "resumed on pjrt: other bits" cmp -s <(sums again 000020) want
"$drover" train run.yaml --set schedule.type=constant --set backend=pjrt --set training.steps=20 --set checkpoint.every=1 --set checkpoint.keep=0 --set run_dir=killed >out 2>&1 &
wait_for test -d killed/checkpoints/step-000003
kill -9 $!
wait $! 2>/dev/null
train killed --set training.steps=20 --set backend=pjrt
check "killed and resumed on pjrt: other bits" cmp -s <(sums killed 000020) want
finish
