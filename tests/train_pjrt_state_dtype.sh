#!/bin/bash
# State and gradients in bf16 on `backend: pjrt`: the random bits of the CPU back end, so its losses; several micro-batches
# in a program; two tensor and two data devices; the bits of an unbroken run after a resume. Skipped where there is no plugin.
. "$(dirname "$0")"/pjrt.bash
make_data
sed -i 's/bf16/fp32/' run.yaml
train() { # RUN_DIR OPTION...
    expect 0 "" "$drover" train run.yaml --set schedule.type=constant --set checkpoint.every=5 --set training.steps=10 \
        --set optimizer.state_dtype=bf16 --set training.grad_dtype=bf16 --set run_dir="$@"
}
sums() { (cd "$1/checkpoints/step-000010" && sha256sum -- *.safetensors); }
# Products differ in the last place of fp32, so one rounding in some thousands falls on the other side.
train cpu
train pjrt --set backend=pjrt
check "losses of pjrt and cpu differ" near 1e-4 cpu pjrt
train broken --set backend=pjrt --set training.steps=5
train broken --set backend=pjrt
says "resumed from broken/checkpoints/step-000005"
check "resumed: other bits" test "$(sums pjrt)" = "$(sums broken)"
train devices --set backend=pjrt --set parallel.tensor=2 --set pjrt.devices=4 --set training.micro_batch_size=1
check "losses of four devices differ" near 1e-4 cpu devices
train low-cpu --set training.precision=bf16
train low --set training.precision=bf16 --set backend=pjrt
check "without masters: losses of pjrt and cpu differ" near 1e-3 low-cpu low
finish
