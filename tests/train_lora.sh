#!/bin/bash
# LoRA runs: what is trained, the same bits however the work is divided, stopped runs resumed to the bit with
# dropout, another base refused, adapters used by eval and generate and trained further.
. "$(dirname "$0")"/story.bash
make_data
expect 0 "step-000010" "$drover" train run.yaml --set run_dir=pre --set training.steps=10
base=pre/checkpoints/step-000010
cat >lora.yaml <<YAML
model: {from: $base}
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 12, global_batch_size: 8, micro_batch_size: 2, eval_every: 0, precision: bf16}
lora: {rank: 4, alpha: 8, dropout: 0.1}
optimizer: {lr: 0.01}
schedule: {warmup_steps: 2}
checkpoint: {every: 2, keep: 3}
YAML
sums() { (cd "$1/checkpoints/step-$2" && sha256sum adapter_model.safetensors optimizer.safetensors); }
same_bits() { sums "$1" "${2:-000012}" | cmp -s - want; }

# --- what a run says and leaves
expect 0 "step-000012" "$drover" train lora.yaml --set run_dir=straight
# 2 layers x 4 x ((64 + 64) + (64 + 32)) numbers of q_proj and v_proj
says "LoRA: 1792 parameters are trained" "rank 4, alpha 8, dropout 0.1"
sums straight 000012 >want
last=straight/checkpoints/step-000012
check "a checkpoint of a LoRA run holds the base" [ ! -e $last/model.safetensors -a ! -e $last/config.json ]
check "files of a PEFT folder" [ -e $last/adapter_model.safetensors -a -e $last/adapter_config.json ]
check "the base is not named" grep -q "\"base_model_name_or_path\": \"$PWD/$base\"" $last/adapter_config.json
expect 0 '"trainable_parameters": 1792,' "$drover" plan lora.yaml --json

# --- the same bits however the work is divided
for set in training.micro_batch_size=1 training.micro_batch_size=8 training.threads=1 training.threads=3 \
    training.recompute=selective training.recompute=full; do
    expect 0 "step-000012" "$drover" train lora.yaml --set run_dir="$set" --set $set
    check "$set gives other bits" same_bits "$set"
done
expect 0 "alpha 4 (rsLoRA)" "$drover" train lora.yaml --set run_dir=root --set lora.use_rslora=true --set lora.alpha=4
check "4 / sqrt(4) is not 8 / 4" same_bits root
expect 0 "step-000012" "$drover" train lora.yaml --set run_dir=seed --set training.seed=7
check "another seed gives the same bits" eval '! same_bits seed'

# --- stopped and resumed
expect 0 "step-000006" "$drover" train lora.yaml --set run_dir=resumed --set training.steps=6 --set schedule.type=constant
expect 0 "step-000012" "$drover" train lora.yaml --set run_dir=whole --set schedule.type=constant
sums whole 000012 >want
expect 0 "resumed from resumed/checkpoints/step-000006" "$drover" train lora.yaml --set run_dir=resumed --set schedule.type=constant
check "a resumed run gives other bits" same_bits resumed

# --- what is refused
for target in _proj proj 'layers\.1\..*q' 'model\.layers\.1'; do
    expect 2 "\"$target\" is not a projection of the model" "$drover" plan lora.yaml --set "lora.target_modules=[$target]"
done
cp -r $base other
printf '\x01' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 5)) conv=notrunc 2>/dev/null
expect 1 "the adapter belongs to another base" "$drover" train lora.yaml --set run_dir=resumed --set model.from=other --set training.steps=14
says 'tensor "' 'base "other"'
rm other/manifest.json # which would tell of the changed byte first
expect 1 "the adapter belongs to another base" "$drover" ckpt merge other $last --out merged-other
check "a refused merge leaves a folder" [ ! -e merged-other ]
expect 0 "proved" "$drover" ckpt merge $base $last --out merged
cp -r $last peft && rm peft/base.json peft/manifest.json
expect 0 "the adapter was trained on" "$drover" ckpt merge other peft --out merged-peft
expect 1 "the adapter belongs to another base" "$drover" eval other --adapter $last --data data/set
expect 2 "a run keeps its branches" "$drover" train lora.yaml --set run_dir=resumed --set lora.rank=2 --set training.steps=14
expect 2 "is a checkpoint of a LoRA run, but the config has no LoRA" "$drover" train run.yaml --set run_dir=resumed --set training.steps=14
expect 2 "is a checkpoint of a whole model, but the config has LoRA" "$drover" train lora.yaml --set run_dir=pre
expect 2 "expected model.from" "$drover" train run.yaml --set run_dir=none --set lora.rank=4
expect 2 'target_modules: "q_prj" is not a projection' "$drover" train lora.yaml --set run_dir=none --set 'lora.target_modules=[q_prj]'
expect 2 'is not a regular expression' "$drover" train lora.yaml --set run_dir=none --set 'lora.target_modules=(k.*_proj'
expect 2 'target_modules: "(q_proj" is not a regular expression' "$drover" train lora.yaml --set run_dir=none --set 'lora.target_modules=(q_proj'
expect 2 'key "lora.rank" is 2, but the adapter' "$drover" train lora.yaml --set run_dir=none --set lora.adapter=$last --set lora.rank=2
rm -r straight/checkpoints/step-000010 straight/checkpoints/step-000008
truncate -s -1 $last/adapter_model.safetensors
expect 1 "adapter_model.safetensors" "$drover" train lora.yaml --set run_dir=straight --set training.steps=14
rm -rf straight

# --- used: a run, its checkpoint, and base and adapter all say the same; the base something else
last=whole/checkpoints/step-000012
expect 0 '"loss"' "$drover" eval $last --data data/set --json
cp out adapter.json
expect 0 '"loss"' "$drover" eval whole --data data/set --json
check "eval of a run is not that of its adapter" grep -qF "$(grep loss adapter.json)" out
expect 0 '"loss"' "$drover" eval $base --adapter whole --data data/set --json
check "eval of base and adapter is not that of the adapter" grep -qF "$(grep loss adapter.json)" out
expect 0 '"loss"' "$drover" eval $last --data data/set --json --set data.sequence_length=64
cp out adapter64.json
expect 0 '"loss"' "$drover" eval lora.yaml --set run_dir=whole --data data/set --json
check "eval by the config is not that of the adapter" grep -qF "$(grep loss adapter64.json)" out
expect 0 '"loss"' "$drover" eval $base --data data/set --json
check "the adapter changes nothing" eval '! grep -qF "$(grep loss adapter.json)" out'
expect 0 "Document" "$drover" generate $base --adapter $last --prompt "Document" --max-tokens 8 --temperature 0
expect 0 "Document" "$drover" generate $last --prompt "Document" --max-tokens 8 --temperature 0
# The adapter's folder may have a tokenizer of its own, of which a letter is a token here; without one it is the base's.
cp -r $last retokened && rm retokened/tokenizer* retokened/special_tokens_map.json
expect 0 '"prompt_tokens": 1,' "$drover" generate $base --adapter retokened --prompt "Document" --max-tokens 1 --json
echo "text" | "$drover" tokenizer train --input - --vocab-size 257 --out letters 2>out && cp letters/tokenizer* retokened
expect 0 '"prompt_tokens": 8,' "$drover" generate $base --adapter retokened --prompt "Document" --max-tokens 1 --json
echo "Document" >document.txt
for verb in "--text document.txt" "--text document.txt --no-bos"; do
    expect 0 "tokens 9" "$drover" eval $base --adapter retokened $verb
done
expect 2 "is an adapter itself" "$drover" generate $last --adapter $last --prompt x
expect 2 "it is not an adapter" "$drover" generate $base --adapter $base --prompt x
expect 2 "no model" "$drover" generate --prompt x
cp -r $last moved
sed -i 's#"base_model_name_or_path": .*#"base_model_name_or_path": "gone",#' moved/adapter_config.json
expect 1 'base_model_name_or_path is "gone"' "$drover" generate moved --prompt x

# --- trained further, all projections, and by expression
expect 0 "adapter from $last" "$drover" train run.yaml --set model.from=$base --set model.preset= --set run_dir=further \
    --set training.steps=2 --set lora.adapter=$last
says "rank 4, alpha 8" "LoRA: 1792 parameters"
expect 0 '"trainable_parameters": 9248,' "$drover" plan lora.yaml --json --set lora.target_modules=all-linear
expect 0 '"trainable_parameters": 512,' "$drover" plan lora.yaml --json --set 'lora.target_modules=.*layers\.1\..*q_proj'
finish
