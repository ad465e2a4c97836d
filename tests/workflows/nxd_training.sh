#!/bin/bash
# docs/workflows/nxd-training.md in small: a YAML of NxD Training for a continual pre-training, with tensor x pipeline ranks, its
# tokenised folder, a signal before the time limit, the job again, a published model. usage: nxd_training.sh DROVER
. "$(dirname "$0")"/workflow.bash
make_tokenizer tokenizer
make_config_json config.json
cp -r "$tests"/golden/arrow/saved_ids wikicorpus_llama3_tokenized_8k
mkdir conf
cat >conf/hf_llama3_70B_config.yaml <<'YAML'
name: hf_llama
model_source: hf
seed: 1234
trainer:
  devices: 2
  num_nodes: 2
  max_epochs: -1
  max_steps: 30000
  log_every_n_steps: 1
  val_check_interval: 30001
  limit_val_batches: 0.0
  gradient_clip_val: 1.0
exp_manager:
  explicit_log_dir: null
  name: hf_llama
  resume_if_exists: True
  resume_ignore_no_checkpoint: True
  resume_from_checkpoint: /fsx/pretrained_weight
  checkpoint_callback_params:
    save_top_k: 2
    every_n_train_steps: 10
    model_parallel_size: ${multiply:${distributed_strategy.tensor_model_parallel_size}, ${distributed_strategy.pipeline_model_parallel_size}}
  save_xser: True
distributed_strategy: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, zero1: True, sequence_parallel: True, kv_replicator: 1}
data:
  micro_batch_size: 1
  global_batch_size: 8
  train_dir: wikicorpus_llama3_tokenized_8k
model:
  model_config: config.json
  encoder_seq_length: 16
  max_position_embeddings: 64
  num_layers: 2
  hidden_size: 64
  weight_init_only: True
  use_cpu_initialization: False
  activations_checkpoint_granularity: selective
  fusions: {softmax: True, flash_attention: True}
  optim:
    name: adamw
    lr: 0.000015
    weight_decay: 0.1
    betas: [0.9, 0.95]
    sched: {name: CosineAnnealing, warmup_steps: 2000, constant_steps: 0, min_lr: 1e-06, max_steps: "${trainer.max_steps}"}
precision: {type: mixed_precision}
compiler_cache_url: /home/ubuntu/neuron_cache
YAML

# The model that is trained on: one step of a run of its own, as it would come from the hub.
expect 0 "documents" "$drover" data build --input wikicorpus_llama3_tokenized_8k --tokenizer tokenizer --out wikicorpus_llama3_tokenized_8k
make_model Meta-Llama-3-70B wikicorpus_llama3_tokenized_8k

expect 2 "make a Hugging Face folder of NxD's shards by drover ckpt import, and give it by --set model.from=DIR" \
    "$drover" config --from nxdt conf/hf_llama3_70B_config.yaml
translate --from nxdt conf/hf_llama3_70B_config.yaml --set model.from=Meta-Llama-3-70B --set run_dir=runs/llama3-70b
has tensor 2
has pipeline 2
has steps 30000
has warmup_like nemo
expect 0 "fits          yes" "$drover" plan run.yaml --ranks 4
expect 2 "this job has 1 rank, but 4 were expected" "$drover" train run.yaml --expect-ranks 4

job() { # SETTING...
    local sets=()
    for set in "$@"; do sets+=(--set "$set"); done
    timeout -s KILL $LIMIT mpirun --oversubscribe -n 4 "$drover" train run.yaml --expect-ranks 4 "${sets[@]}" >job-0.out 2>&1
}
mpirun --oversubscribe -n 4 "$drover" train run.yaml --expect-ranks 4 >job-0.out 2>&1 &
pid=$!
begun runs/llama3-70b $pid
kill -USR1 $pid # as --signal=USR1@600 of sbatch does
wait_end $pid
check "SIGUSR1: status.json says $(state end runs/llama3-70b)" [ "$(state end runs/llama3-70b)" = stopped ]
check "SIGUSR1: status.json has status $(state status runs/llama3-70b)" [ "$(state status runs/llama3-70b)" = 3 ]
like_unbroken runs/llama3-70b job

expect 0 "proved" "$drover" ckpt export runs/llama3-70b --out published --dtype bf16
writes published
finish
