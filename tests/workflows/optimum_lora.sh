#!/bin/bash
# docs/workflows/optimum-lora.md in small: the variables of generate-jobspec.sh, records of databricks-dolly-15k, the pods of a
# PyTorchJob, an eviction, the job again, the adapter merged into its base. usage: optimum_lora.sh DROVER
. "$(dirname "$0")"/workflow.bash
make_tokenizer tokenizer
expect 0 "" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tokenizer --out texts
make_model Meta-Llama-3.1-8B texts
mkdir dolly
awk 'BEGIN { for (i = 0; i < 120; i++) printf "{\"instruction\": \"Where is fox %d?\", \"context\": \"%s\", \"response\": \"By hen %d.\", \"category\": \"qa\"}\n",
    i, i % 3 ? "" : "Hens lie low.", i * 7 % 31 }' >dolly/databricks-dolly-15k.jsonl
cat >generate-jobspec.sh <<'SH'
#!/bin/bash
export NAMESPACE=kubeflow
export INSTANCE_TYPE=ml.trn1.32xlarge
export EFA_PER_NODE=8
export NEURON_PER_NODE=16
export MODEL_ID=Meta-Llama-3.1-8B
export DATASET_NAME=dolly
export NEURON_CACHE_DIR=/fsx/neuron_cache
export CHECKPOINT_DIR=runs/dolly
export MAX_SEQ_LENGTH=64
export EPOCHS=1
export LEARNING_RATE=2e-5
export TP_SIZE=2
export PP_SIZE=1
export TRAIN_BATCH_SIZE=1
export MAX_TRAINING_STEPS=1200
cat templates/compile_peft.yaml-template | envsubst >compile_peft.yaml
cat templates/launch_peft_train.yaml-template | envsubst >launch_peft_train.yaml
SH
cat >instruction.jinja <<'JINJA'
{% for m in messages %}{% if m.role == 'user' %}### Instruction
{{ m.content }}

### Answer
{% else %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endif %}{% endfor %}
JINJA

expect 0 "120 documents" "$drover" data build --sft --input dolly --tokenizer Meta-Llama-3.1-8B --template instruction.jinja --out dolly-sft
translate --from args generate-jobspec.sh --ranks 4 --data dolly-sft --set lora.rank=16 --set lora.alpha=16 --set lora.dropout=0.05 \
    --set 'lora.target_modules=[q_proj, v_proj]' --set training.global_batch_size=12 --set schedule.type=linear \
    --set schedule.warmup_steps=100 --set schedule.warmup_like=transformers --set optimizer.weight_decay=0.01 \
    --set training.seed=42 --set checkpoint.every=5
has steps 1200
has tensor 2
has rank 16
has from '"Meta-Llama-3.1-8B"'
expect 0 "fits          yes" "$drover" plan run.yaml --ranks 4

# What the operator sets in each pod.
start() { # SETTING...: in the background; ids in pids
    local i port=0 sets=() # 0: node 0 takes a port that is free and says it
    for set in "$@"; do sets+=(--set "$set"); done
    pids=()
    : >job-0.out # the port of a job before is not this one's
    for i in 0 1; do
        RANK=$i WORLD_SIZE=2 MASTER_ADDR=$address MASTER_PORT=$port PET_NPROC_PER_NODE=2 \
            timeout -s KILL $LIMIT "$drover" launch node run.yaml --expect-ranks 4 "${sets[@]}" >job-$i.out 2>&1 &
        pids+=($!)
        [ $i = 1 ] || learn_port job-0.out
    done
}
job() {
    start "$@"
    wait "${pids[1]}"
    wait "${pids[0]}"
}
start
begun runs/dolly "${pids[0]}"
kill -TERM "$(pgrep -P "${pids[1]}")" # as the kubelet does to a pod that is evicted
ended "SIGTERM" 3 "${pids[@]}"
check "status.json says $(state end runs/dolly)" [ "$(state end runs/dolly)" = stopped ]
like_unbroken runs/dolly job

adapter=$(newest runs/dolly)
check "a checkpoint is a PEFT folder" test -s "$adapter"/adapter_model.safetensors
expect 0 "proved" "$drover" ckpt merge Meta-Llama-3.1-8B runs/dolly --out merged --dtype f32
writes merged
writes runs/dolly
finish
