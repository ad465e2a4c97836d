#!/bin/bash
# The other programs of backend: pjrt on a CPU plugin, beside those of `cpu`: evaluation, recomputation, offload, LoRA with dropout, preference
# pairs, generation. Bounds as in train_pjrt.sh.
golden=$(realpath "$(dirname "$0")"/golden/parquet)
. "$(dirname "$0")"/pjrt.bash
make_data
train() { expect 0 "" "$drover" train run.yaml --set schedule.type=constant --set checkpoint.every=10 --set run_dir="$@"; }
for precision in fp32 bf16; do
    train cpu-$precision --set training.steps=20 --set training.precision=$precision
done

# --- products in fp8: a number between two of fp8 may go either way, so losses differ more than in bf16
for backend in cpu pjrt; do
    train fp8-$backend --set training.steps=20 --set training.precision=fp8 --set backend=$backend
done
check "fp8: losses of pjrt and cpu differ" near 5e-4 fp8-cpu fp8-pjrt
for run in fp8-cpu fp8-pjrt cpu-bf16; do mkdir $run-first && head -1 $run/metrics.jsonl >$run-first/metrics.jsonl; done
check "fp8: the first loss of pjrt differs" near 1e-6 fp8-cpu-first fp8-pjrt-first
check "fp8: the first loss is that of bf16" eval '! near 1e-5 fp8-cpu-first cpu-bf16-first'

# --- logits in pieces: a loop of four, and all at once, have the same losses
for mib in 0.05 0; do
    mkdir -p text-$mib
    DROVER_PJRT_DUMP=text-$mib train logits-$mib --set training.steps=10 --set training.precision=fp32 --set backend=pjrt --set pjrt.logit_mib=$mib
done
check "pjrt.logit_mib: losses differ" near 1e-6 logits-0.05 logits-0
check "0.05 MiB: no pieces of 32 rows" grep -q "tensor<32x400xf32>" text-0.05/whole_step.mlir
check "0.05 MiB: logits of all rows" eval '! grep -q "tensor<128x400xf32>" text-0.05/whole_step.mlir'
check "256 MiB: logits in pieces" eval 'grep -q "tensor<128x400xf32>" text-0/whole_step.mlir && ! grep -q "tensor<32x400xf32>" text-0/whole_step.mlir'

# --- evaluation, recomputation, LoRA with dropout
for backend in cpu pjrt; do
    expect 0 "" "$drover" eval run.yaml --set backend=$backend --set run_dir=cpu-fp32 --set training.precision=fp32 --data data/set --json
    sed -n 's/.*"loss": *\([0-9.]*\).*/{"loss": \1}/p' out >eval-$backend.json
    mkdir -p eval-$backend && mv eval-$backend.json eval-$backend/metrics.jsonl
done
check "evaluation differs" near 1e-5 eval-cpu eval-pjrt
for mode in selective full; do
    train $mode --set training.steps=20 --set training.recompute=$mode --set backend=pjrt
    check "recompute $mode: losses differ" near 1e-4 cpu-bf16 $mode
done
# --- activations that wait in the host's memory: every value is a copy, so not a bit differs
for mode in none full; do
    for offload in none activations; do
        mkdir -p text-$mode-$offload
        DROVER_PJRT_DUMP=text-$mode-$offload train $mode-$offload --set training.steps=10 --set training.recompute=$mode \
            --set training.offload=$offload --set backend=pjrt
    done
    check "offload, recompute $mode: other bits" cmp -s <(sums $mode-none 000010) <(sums $mode-activations 000010)
    check "offload, recompute $mode: other losses" cmp -s <(losses $mode-none) <(losses $mode-activations)
    check "offload, recompute $mode: nothing goes to the host" grep -q pinned_host text-$mode-activations/whole_step.mlir
    check "no offload, recompute $mode: something goes to the host" eval "! grep -q pinned_host text-$mode-none/whole_step.mlir"
done
expect 2 "training.offload\" is activations and parallel.pipeline is 2, expected 1" "$drover" plan run.yaml --set training.offload=activations \
    --set backend=pjrt --set parallel.pipeline=2
for backend in cpu pjrt; do
    train lora-$backend --set model.preset=null --set model.vocab_size=null --set model.num_hidden_layers=null --set model.from=cpu-fp32/checkpoints/step-000020 \
        --set model.weights=load --set lora.rank=4 --set lora.dropout=0.1 --set training.steps=10 --set training.precision=fp32 --set backend=$backend
done
check "LoRA: losses differ" near 1e-5 lora-cpu lora-pjrt

# --- preference pairs, whose reference each back end computes for itself
cat >chat.jinja <<'JINJA'
{% for m in messages %}<{{ m.role }}>{{ m.content }}</>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}
JINJA
expect 0 "40 preference pairs" "$drover" data build --preference --tokenizer tok --template chat.jinja --input "$golden"/pairs.jsonl --out data/pairs
for backend in cpu pjrt; do
    train pairs-$backend --set training.objective=dpo --set data.train=data/pairs --set data.split=[80,20,0] --set training.steps=5 --set training.eval_every=5 \
        --set training.precision=fp32 --set training.global_batch_size=4 --set backend=$backend
    says "loss 0.6931" "accuracy"
    rm data/pairs.reference-*
done
check "pairs: losses differ" near 1e-5 pairs-cpu pairs-pjrt
# What AdamW and clipping hide in the losses, a factor of the gradient, its norm shows.
for figure in val_rewards/margins grad_norm; do
    for backend in cpu pjrt; do
        mkdir -p figure-$backend
        sed -n "s|.*\"$figure\": *\([-0-9.e]*\).*|{\"loss\": \1}|p" pairs-$backend/metrics.jsonl | tail -1 >figure-$backend/metrics.jsonl
    done
    check "pairs: $figure differs" near 1e-3 figure-cpu figure-pjrt
done

# --- generation: the same likeliest tokens
for backend in cpu pjrt; do
    expect 0 "" "$drover" generate cpu-fp32/checkpoints/step-000020 --prompt "Document 7 tells of" --temperature 0 \
        --max-tokens 20 --precision fp32 --backend $backend
    grep '^Document 7' out >text-$backend
done
check "generation differs" cmp -s text-cpu text-pjrt
# The plugin as the command names it, and as the config of the run does.
try() { DROVER_PJRT_PLUGIN=none "$drover" generate "$1" --prompt "Document 7" --max-tokens 1 --backend "$2" >out 2>&1; }
check "pjrt:cpu is not the cpu plugin" try cpu-fp32 pjrt:cpu
check "the plugin of the environment was not asked for" eval '! try cpu-fp32 pjrt'
train named --set training.steps=1 --set backend=pjrt --set pjrt.plugin=cpu
check "generate: not the plugin of the run" try named pjrt
check "eval --text: not the back end of the run" eval 'DROVER_PJRT_PLUGIN=none "$drover" eval named --text text.txt --context 64 --precision fp32 >out 2>&1'
finish
