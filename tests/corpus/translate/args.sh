2#!/bin/bash
LR=${1:-2e-5}
for i in 1 2; do echo $i; done
torchrun --nproc_per_node=8 train.py --learning_rate $LR --max_steps 1200 --bf16 \
    --per-device-train-batch-size 1 --gradient_accumulation_steps=$((1 + 2)) --lora_r 16 --lora_target_modules q_proj v_proj
