#!/bin/bash
# backend: pjrt as a user has it, on a CPU plugin: the losses of `cpu`, runs that change the back end half-way,
# the same bits after a kill, evaluation, recomputation, LoRA. Skipped where there is no plugin.
golden=$(realpath "$(dirname "$0")"/golden/parquet)
. "$(dirname "$0")"/pjrt.bash
make_data
train() { expect 0 "" "$drover" train run.yaml --set schedule.type=constant --set checkpoint.every=10 --set run_dir="$@"; }
# Bounds: in fp32 losses differ by 1e-8. In bf16 each back end is up to 5e-5 away from the losses of fp32, and the CPU 1.3e-5
# from itself with its sums in other leaves (parallel.leaves): two back ends may be twice 5e-5 apart.

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

# --- other programs: evaluation, recomputation, clipping off, LoRA with dropout
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

# --- the compile cache: filled once, used again, a damaged or foreign file is named and replaced. (Of one layer, since the compiler
# takes as long as there are layers.)
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 1/' run.yaml
compile() { "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache="$dir/compiled" "$@"; }
expect 0 "Total successful: 2" compile
says "Total graphs: 2" "Total failed: 0"
check "not two programs" [ "$(ls compiled | wc -l)" = 2 ]
own=(compiled/*)
ls -i compiled >files
expect 0 "Total successful: 2" compile
check "compiled again though they were there" cmp -s files <(ls -i compiled)
expect 0 "Total successful: 2" compile --set pjrt.flags=[xla_allow_excess_precision=True]
check "other options, but the same programs" [ "$(ls compiled | wc -l)" = 4 ]
expect 0 "Total successful: 2" compile
expect 0 "Total successful: 2" compile --set pjrt.flags=[xla_allow_excess_precision=True]
for harm in 'truncate -s 10|truncate -s 0' 'sed -i s/drvprog3/drvprog0/|head -c 1000 /dev/urandom >'; do # of the one, and of the other
    eval "${harm%|*} ${own[0]}"
    eval "${harm#*|} ${own[1]}"
    expect 0 "Total successful: 2" compile
    for file in "${own[@]}"; do check "$file was not compiled again ($harm)" grep -q "compile cache: \"$dir/$file.*the program is compiled again" out; done
    expect 0 "Total successful: 2" compile
    check "harmed files were not replaced ($harm)" [ "$(grep -c 'compiled again' out)" = 0 ]
done
# A file that is whole, but of another program: of rows of another length, with as many arguments and results.
expect 0 "Total successful: 2" compile --set pjrt.cache="$dir/other" --set data.sequence_length=32
for file in compiled/*; do cp "$(ls -S other/* | sed -n 1p)" $file; done
expect 0 "Total successful: 2" compile
says 'it holds another program, "whole_step"; the program is compiled again'
for file in compiled/*; do rm $file && mkfifo $file; done
expect 0 "Total successful: 2" timeout -k 5 200 "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache="$dir/compiled"
says "is no regular file; the program is compiled again"
for i in 1 2 3; do compile >many$i 2>&1 --set data.sequence_length=32 & done
wait
for i in 1 2 3; do check "several writers: $i" grep -q "Total successful: 2" many$i; done
check "files written aside were left" [ -z "$(ls compiled | grep -v 'pjrt$')" ]
expect 0 "Total successful: 2" compile --set pjrt.cache=/dev/full
check "a folder that cannot be written: not one warning" [ "$(grep -c 'compile cache: ' out)" = 1 ]
expect 0 "Total successful: 2" "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache=none
finish
