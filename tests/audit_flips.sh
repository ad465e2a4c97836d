#!/bin/bash
# drover audit finds and places a bit that flipped in a weight, a gradient, an optimizer's moment or a token: by a drover with
# hooks that turn one over (flips.c), alone and on a rank of two.
. "$(dirname "$0")"/story.bash
unset DROVER_CPU DROVER_GEMM
flipping=$(dirname "$drover")/tests/flipping_drover
[ -x "$flipping" ] || { echo "skipped: $flipping is not built"; exit 77; }
make_data
sed -i 's/steps: 40/steps: 5/; s/micro_batch_size: 2/micro_batch_size: 2, arithmetic: portable, hash_every: 1/
    s/global_batch_size: 8/global_batch_size: 4/; s/warmup_steps: 5/warmup_steps: 1/; s/checkpoint:.*/checkpoint: {every: 1}/' run.yaml
flipped() { # NAME FLIP: a run whose bit flips, then its audit, which fails
    FLIP=$2 expect 0 "step 5" "$flipping" train run.yaml --set run_dir="$1"
    expect 1 "step 4 differs: " "$drover" audit "$1"
}
down=model.layers.1.mlp.down_proj.weight
# Of two weights in bf16 the upper one of word 100 is element 201.
flipped weight "weight $down 4 100 20"
says "step 4 differs: weight of $down (memory): the step used another value than the replay has after step 3" \
    "one bit explains it: bit 20 of element 201; recorded "
flipped gradient "gradient grad.$down 4 7 22"
says "step 4 differs: gradient of $down (matmul): the loss is equal, and no other gradient differs" "bit 22 of element 7;"
flipped moment "moment adam_m.$down 4 9 21"
says "step 4 differs: update of $down (update): the gradient is equal, but the update or the state of the optimizer"
flipped batch "batch - 4 50 0"
says "step 4 differs: batch (data): the run trained on other tokens"
expect 0 "equal: 3 of" "$drover" audit batch --steps 1:3
# What comes after the flip is its consequence: from a checkpoint behind it all is equal again.
expect 0 "equal: 1 of the steps 5 to 5" "$drover" audit weight --steps 5
"$drover" audit weight --json 2>/dev/null >json
check "JSON" grep -q "\"compared\":3,\"ranks\":1,\"difference\":{\"step\":4,\"what\":\"weight\",\"tensor\":\"$down\",\"tensors\":1,\"op\":\"memory\",\"element\":201,\"bit\":20,\"recorded\":" json

# A gradient of each kind, in a step of its own: the audit names the op that writes it in the graph. Token 0 is in no batch: bit 30
# makes 2 of the 0 that its embedding has.
flips() { # NAME SETTINGS BIT/STATE/PARAMETER...: settings as one word
    local name=$1 sets=$2 step=0 flips='' one bit state parameter
    shift 2
    for one in "$@"; do
        IFS=/ read -r bit state parameter <<<"$one"
        step=$((step + 1)) flips+="gradient grad.$state $step 1 $bit;"
    done
    FLIP=$flips expect 0 "step $step" "$flipping" train run.yaml --set run_dir="$name" --set training.steps=$step --set checkpoint.keep=0 $sets
    "$drover" graph run.yaml $sets >graph 2>/dev/null
    step=0
    for one in "$@"; do
        IFS=/ read -r bit state parameter <<<"$one"
        step=$((step + 1)) op=$(sed -nE "s/.* = ([a-z_]+)\\(.*[ (]grad\\.$state(\\.second)?[,)].*/\\1/p" graph | paste -sd '&' | sed 's/&/ and /')
        expect 1 "step $step differs: gradient of $parameter ($op): " "$drover" audit "$name" --steps $step
    done
}
layer=model.layers.1
flips tied "--set model.qk_norm=true" 30/model.embed_tokens.weight/model.embed_tokens.weight 22/$layer.self_attn.q_norm.weight/$layer.self_attn.q_norm.weight \
    22/$layer.self_attn.qkv_proj.weight/$layer.self_attn.q_proj.weight 22/$layer.input_layernorm.weight/$layer.input_layernorm.weight
flips untied "--set model.tie_word_embeddings=false --set model.qkv_bias=true" 22/lm_head.weight/lm_head.weight \
    30/model.embed_tokens.weight/model.embed_tokens.weight 22/$layer.self_attn.qkv_proj.bias/$layer.self_attn.q_proj.bias
expect 0 "step 1" "$drover" train run.yaml --set run_dir=base --set training.steps=1
sed -i 's#^model:.*#model: {from: base/checkpoints/step-000001}#' run.yaml
peft=model.$layer.self_attn
flips adapter "--set lora.rank=4" 22/base_model.$peft.q_proj.lora_B.weight/base_model.$peft.q_proj.lora_B.weight \
    22/$layer.self_attn.qkv_proj.lora_A.weight/base_model.$peft.q_proj.lora_A.weight
finish
