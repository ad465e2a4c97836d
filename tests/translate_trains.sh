#!/bin/bash
# Each config of NxD Training that its users have, and command lines and YAML of other trainers, trained for 20 or 100 steps at toy
# width: the rates are those of the trainer's own formula (translate/rates.py). usage: translate_trains.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
make_data
make_chat
"$tests"/translate/make_nxdt.py . || bad "make_nxdt.py"
cat >small.json <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 400,
 "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": false, "initializer_range": 0.02}
JSON
# Theirs, but for the width and the length: one rank, rows of 32 tokens, 4 of them in a step.
toy="--ranks 1 --set tokenizer=tok --set data.sequence_length=32 --set parallel.tensor=1 --set parallel.pipeline=1
--set parallel.context=1 --set checkpoint.every=0 --set training.log_every=1 --set training.eval_every=0"
width="--set model.hidden_size=32 --set model.intermediate_size=64 --set model.num_hidden_layers=1 --set model.num_attention_heads=2
--set model.num_key_value_heads=2 --set model.vocab_size=400 --set model.max_position_embeddings=512 --set model.rope_theta=10000"
small_head="--set model.head_dim=16"
# A folder of Hugging Face's, for fine-tuning.
expect 0 "step 1" "$drover" train run.yaml $width --set run_dir=base --set training.steps=1 --set checkpoint.every=1
# trains NAME FORMULA KIND DATA WORD...: translated, trained, and the rates are those
trains() {
    local name=$1 formula=$2 kind=$3 data=$4
    shift 4
    if "$drover" config --from "$kind" $toy --set run_dir="run-$name" --data $data --accept all "$@" >"$name.toy" 2>report; then ok; else bad "$name" report; fi
    expect 0 "" "$drover" train "$name.toy"
    check "$name: the rates of $formula" "$tests"/translate/rates.py "run-$name"/metrics.jsonl $formula
}
value() { sed -n "s/^ *$1: \([^ ]*\).*/\1/p" "$2" | tail -n 1; }
for yaml in *.yaml; do
    name=${yaml%.yaml}
    case $name in run | *DPO* | *ORPO*) continue ;; esac
    read -r _ _ _ _ schedule <"$name.expected"
    steps=20
    case $name in hf_llama3_8B_config | hf_llama3_70B_config | *lora*) steps=100 ;; esac
    sed -E "s/max_steps: [0-9]+\$/max_steps: $steps/; s/warmup_steps: [0-9]+/warmup_steps: 10/; s/global_batch_size: .*/global_batch_size: 4/; s/model_config: .*/model_config: small.json/" "$yaml" >"$name.small"
    data=data/set model="$width $small_head"
    case $name in
    *SFT_lora*) data=data/chat model="--set model.from=base/checkpoints/step-000001" ;;
    hf*SFT*) data=data/chat ;;
    esac
    formula="nemo_cosine 0.000015 10 $steps 1e-6"
    [ "$schedule" = cosine ] || formula="linear 1.5e-4 10 $steps"
    trains "$name" "$formula" nxdt $data "$name.small" $model
done
sed 's/constant_steps: 0/constant_steps: 30/; s/max_steps: 20$/max_steps: 100/' megatron_llama_7B_config.small >constant.small
trains constant_steps "nemo_cosine_30 0.000015 10 100 1e-6" nxdt data/set constant.small $width $small_head
check "its decay is what they leave" [ "$(value decay_steps constant_steps.toy)" = 60 ]
sed 's/constant_steps: 30/constant_steps: 90/' constant.small >long.small
expect 2 "constant_steps\" is \"90\", expected steps that leave some for the decay: 100 in all, 10 of warm-up" "$drover" config --from nxdt $toy --data data/set --accept all long.small $width
lora=run-hf_llama3_8B_SFT_lora_config
"$drover" config "hf_llama3_8B_SFT_lora_config.toy" >out
says "from: \"base/checkpoints/step-000001\"" "rank: 16" "loss: responses"
check "an adapter came of the LoRA" [ -s $lora/checkpoints/step-000100/adapter_model.safetensors ]

# --- transformers' cosine and linear, NxD's scripts, Axolotl
args="--max_steps 100 --per_device_train_batch_size 2 --gradient_accumulation_steps 2"
trains cosine "cosine 2e-4 10 100" args data/set $width $small_head -- python run_clm.py $args --learning_rate 2e-4 --lr_scheduler_type cosine --warmup_steps 10
check "theirs: 2 rows, 2 micro-batches" [ "$(value global_batch_size cosine.toy) $(value micro_batch_size cosine.toy)" = "4 2" ]
trains ratio "linear 2e-4 6 100" args data/set $width $small_head -- python run_clm.py $args --learning_rate 2e-4 --warmup_ratio 0.055
trains constant "constant 1e-3 4 100" args data/set $width $small_head -- python run_clm.py $args --learning_rate 1e-3 --warmup_steps 4 \
    --lr_scheduler_type constant_with_warmup
trains options "linear 4e-4 7 100" args data/set $width $small_head --set training.global_batch_size=4 -- bash run_llama3.1_8b.sh -w 7 -l 4e-4 -t 100 -g 1024 -n 1
trains nxd "nemo_cosine 1e-3 5 100 1e-5" args data/set $width $small_head -- torchrun run_llama_nxd.py --train_batch_size 4 --num_microbatches 2 \
    --pipeline_parallel_size 1 --tensor_parallel_size 1 --lr 1e-3 --min_lr 1e-5 --warmup_steps 5 --max_steps 100 --seq_len 32
cat >axolotl.small <<'YAML'
base_model: base/checkpoints/step-000001
sequence_len: 32
micro_batch_size: 2
gradient_accumulation_steps: 2
max_steps: 100
lr_scheduler: cosine
learning_rate: 0.0002
warmup_ratio: 0.1
YAML
trains axolotl "cosine 2e-4 10 100" axolotl data/set axolotl.small
finish
