#!/bin/bash
# LoRA beside a base in blocks as a user does it: the same adapter from a base that is quantised as it is loaded, from the
# blocks of a GGUF file and from what these say; merged, and quantised again; what is refused.
. "$(dirname "$0")"/story.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 1, hidden_size: 256, intermediate_size: 256, num_attention_heads: 2, num_key_value_heads: 1, head_dim: 128/; s/sequence_length: 64/sequence_length: 32/' run.yaml
expect 0 "step-000002" "$drover" train run.yaml --set run_dir=pre --set training.steps=2
base=pre/checkpoints/step-000002
sed -i "s,^model:.*,model: {from: $base},; /^tokenizer/d; s/steps: 40/steps: 2/" run.yaml
echo "lora: {rank: 4, target_modules: all-linear}" >>run.yaml
same() { cmp -s $1/checkpoints/step-000002/adapter_model.safetensors $2/checkpoints/step-000002/adapter_model.safetensors; }

for type in q8_0 q4_k; do
    echo "-- $type"
    expect 0 "proved" "$drover" ckpt export $base --gguf $type.gguf --type $type
    says "same likeliest token"
    check "$type: all rows are whole blocks" eval '! out_has "not a multiple of"'
    expect 0 "proved: all weights are equal to the bit" "$drover" ckpt import $type.gguf --out $type --keep-blocks
    says "model: {from: $type, base_dtype: gguf}"
    check "the file is as it was" cmp $type.gguf $type/model.gguf
    expect 0 "proved: all weights are equal" "$drover" ckpt import $type.gguf --out $type-f32
    expect 0 "step-000002" "$drover" train run.yaml --set run_dir=run-$type --set model.base_dtype=$type
    expect 0 "step-000002" "$drover" train run.yaml --set run_dir=gguf-$type --set model.from=$type --set model.base_dtype=gguf
    expect 0 "step-000002" "$drover" train run.yaml --set run_dir=f32-$type --set model.from=$type-f32
    check "$type: quantised while it is loaded is as quantised before" same run-$type gguf-$type
    check "$type: blocks are as what they say" same gguf-$type f32-$type
done
check "four bits are not eight" eval '! same run-q8_0 run-q4_k'
figures() { "$drover" eval "$@" --precision fp32 --json 2>out; } # in one line
for data in "--data data/set" "--text text.txt"; do
    want=$(figures gguf-q4_k $data) got=$(figures run-q4_k $data)
    check "eval $data gives $got, where the base is in blocks of a file $want" [ -n "$want" -a "$got" = "$want" ]
done
got=$(figures $base --adapter run-q4_k/checkpoints/step-000002 --text text.txt)
check "with the base itself eval gives the same: $got" [ -n "$got" -a "$got" != "$want" ]

echo "-- merged: bf16, or quantised again"
expect 0 "step-000002" "$drover" train run.yaml --set run_dir=strong --set model.base_dtype=q4_k --set optimizer.lr=0.1
last=strong/checkpoints/step-000002
expect 1 "so that the change is lost" "$drover" ckpt merge $base run-q4_k/checkpoints/step-000002 --gguf weak.gguf --type q4_k
expect 0 "proved" "$drover" ckpt merge $base $last --out merged --dtype bf16
expect 0 "proved: merged.gguf.verify.json" "$drover" ckpt merge $base $last --gguf merged.gguf --type q4_k
expect 0 "good: B is A within the bounds" "$drover" ckpt verify merged merged.gguf
expect 2 "merged.gguf\" is there already; --force replaces it" "$drover" ckpt merge $base $last --gguf merged.gguf --type q4_k
expect 2 "--type needs --gguf" "$drover" ckpt merge $base $last --out other --type q4_k
expect 2 "ckpt merge: --type is \"q5_k\", expected f32, f16, bf16, q8_0 or q4_k" "$drover" ckpt merge $base $last --gguf other.gguf --type q5_k

echo "-- what is refused"
expect 2 "key \"model.base_dtype\" is gguf, but model.from \"$base\" is a Hugging Face folder" "$drover" plan run.yaml --set model.base_dtype=gguf
expect 2 "expected a multiple of 256, the numbers of a block of Q4_K" "$drover" plan --set model.preset=llama-135m --set lora.rank=4 --set model.base_dtype=q4_k
says '"model.layers.0.self_attn.q_proj.weight" has rows of 576 numbers'
expect 2 "without a section lora all weights are trained" "$drover" plan --set model.preset=tiny --set model.base_dtype=q8_0
expect 2 "--keep-blocks and --dtype exclude each other" "$drover" ckpt import q8_0.gguf --out none --keep-blocks --dtype bf16
expect 2 "--keep-blocks, but \"$base\" is a Hugging Face folder, expected a GGUF file" "$drover" ckpt import $base --out none --keep-blocks
head -c 3000 q8_0.gguf >cut.gguf
expect 1 "is it truncated?" "$drover" ckpt import cut.gguf --out none --keep-blocks
cp cut.gguf q8_0-f32/model.gguf && mkdir cut && cp q8_0/config.json cut && cp cut.gguf cut/model.gguf
expect 1 "is it truncated?" "$drover" train run.yaml --set model.from=cut --set model.base_dtype=gguf --set run_dir=none
check "nothing was written" [ ! -e none -a ! -e other.gguf ]
finish
