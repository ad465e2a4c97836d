#!/usr/bin/env python3
"""Writes the configs of NxD Training that its users have, after the tables of its documentation: one YAML for each, with
all keys of the kind, in a folder. Usage: make_nxdt.py DIR"""
import json
import sys

SHAPES = {
    "llama3_8B": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                      intermediate_size=14336, vocab_size=128256, rope_theta=500000.0, max_position_embeddings=8192),
    "llama3_70B": dict(hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8,
                       intermediate_size=28672, vocab_size=128256, rope_theta=500000.0, max_position_embeddings=8192),
    "llama3.1_405B": dict(hidden_size=16384, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8,
                          intermediate_size=53248, vocab_size=128256, rope_theta=500000.0, max_position_embeddings=131072),
    "llama_7B": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32,
                     intermediate_size=11008, vocab_size=32000, rope_theta=10000.0, max_position_embeddings=4096),
}

# name: shape, nodes x devices, tp, pp, cp, batch, steps, then what differs
FILES = {
    "hf_llama3_70B_config": ("llama3_70B", 16, 32, 32, 8, 1, 1024, 30000, {}),
    "hf_llama3_70B_CP_config": ("llama3_70B", 16, 32, 32, 8, 2, 1024, 30000, {"ring": True}),
    "hf_llama3_70B_trn2_config": ("llama3_70B", 8, 64, 32, 4, 1, 1024, 10000, {"save": 1000, "trn2": True}),
    "hf_llama3.1_70B_config": ("llama3_70B", 32, 32, 32, 8, 1, 1024, 30000, {"positions": 131072, "save": 30000}),
    "hf_llama3_8B_config": ("llama3_8B", 4, 32, 32, 1, 1, 1024, 10000, {"linear": True}),
    "hf_llama3.1_8B_config": ("llama3_8B", 32, 32, 32, 1, 1, 1024, 30000, {"linear": True, "positions": 131072}),
    "hf_llama3_8B_trn2_config": ("llama3_8B", 1, 64, 16, 1, 1, 1024, 10000, {"linear": True, "recompute": "null"}),
    "hf_llama3.1_405B_trn1_config": ("llama3.1_405B", 64, 32, 32, 32, 1, 256, 30000, {"recompute": "full", "positions": 131072}),
    "hf_llama_7B_config": ("llama_7B", 1, 32, 8, 1, 1, 1024, 10000, {"linear": True, "layers": 4, "length": 4096}),
    "hf_llama3_8B_SFT_config": ("llama3_8B", 1, 32, 32, 1, 1, 64, 5000, {"linear": True, "sft": True}),
    "hf_llama3_8B_SFT_lora_config": ("llama3_8B", 1, 32, 32, 1, 1, 64, 5000, {"linear": True, "sft": True, "lora": True}),
    "hf_llama3_8B_DPO_config": ("llama3_8B", 1, 32, 32, 1, 1, 4, 5000, {"linear": True, "align": "dpo"}),
    "hf_llama3_8B_ORPO_config": ("llama3_8B", 1, 32, 32, 1, 1, 16, 5000, {"align": "orpo"}),
    "megatron_llama_7B_config": ("llama_7B", 1, 32, 8, 1, 1, 1024, 20000, {"megatron": True, "length": 4096}),
    "megatron_llama_70b_config": ("llama3_70B", 8, 32, 8, 16, 1, 512, 20000, {"megatron": True, "recompute": "full"}),
    "megatron_llama2_7B_SFT_config": ("llama_7B", 1, 32, 8, 1, 1, 64, 20000, {"megatron": True, "length": 4096}),
}


def head(nodes, devices, steps, more):
    source = "megatron" if more.get("megatron") else "hf"
    pretrained = "/home/ubuntu/pretrained_ckpt/" if more.get("sft") or more.get("align") else "null"
    return f"""name: run
model_source: {source}
seed: 1234

trainer:
  devices: {devices}
  num_nodes: {nodes}
  max_epochs: -1 # the steps come first
  max_steps: {steps}
  log_every_n_steps: 10
  val_check_interval: {steps + 1}
  check_val_every_n_epoch: null
  num_sanity_val_steps: 0
  limit_val_batches: 0.0
  limit_test_batches: 0.0
  gradient_clip_val: 1.0
{"  lnc: 2" + chr(10) + "  sequential_move_factor: 32" + chr(10) if more.get("trn2") else ""}
exp_manager:
  log_local_rank_0_only: True
  create_tensorboard_logger: True
  explicit_log_dir: null
  exp_dir: null
  name: ${{name}}
  resume_if_exists: True
  resume_ignore_no_checkpoint: True
  create_checkpoint_callback: True
  checkpoint_callback_params:
    monitor: step
    save_top_k: 1
    mode: max
    save_last: False
    filename: 'run--{{step}}-{{consumed_samples}}'
    model_parallel_size: ${{multiply:${{distributed_strategy.tensor_model_parallel_size}}, ${{distributed_strategy.pipeline_model_parallel_size}}}}
    every_n_train_steps: {more.get("save", 10)}
    use_master_weights_in_ckpt: False
  log_parameter_norm: True
  log_gradient_norm: True
  enable_recovery_time_instrumentation: False
  save_xser: True
  load_xser: True
  save_bf16: False
  async_checkpointing: False
  resume_from_checkpoint: {pretrained}
  ckpt_ptl_version: 2.5.0
"""


def data(batch, more):
    text = f"\ndata:\n  micro_batch_size: 1\n  global_batch_size: {batch}\n"
    if more.get("megatron"):
        return text + """  data_prefix: [1.0, /data/book.jsonl-processed_text_document]
  index_mapping_dir: null
  data_impl: mmap
  splits_string: 980,10,10
  seq_length: ${model.encoder_seq_length}
  skip_warmup: True
  num_workers: 1
  dataloader_type: single
  reset_position_ids: False
  reset_attention_mask: False
  eod_mask_loss: False
  validation_drop_last: True
  no_seqlen_plus_one_input_tokens: False
  pad_samples_to_global_batch_size: False
  tokenizer:
    library: huggingface
    type: /data/tokenizer
    model: null
    vocab_file: null
    merge_file: null
    delimiter: null
    sentencepiece_legacy: False
    use_fast: False
"""
    if more.get("sft") or more.get("align"):
        return text + """  train_dir: /data/training.jsonl
  val_dir: /data/validation.jsonl
  dev_choose_samples: 2250
  seq_length: 4096
  tokenizer:
    type: /data/tokenizer
"""
    return text + "  train_dir: /data/wikicorpus_tokenized_8k\n  val_dir: null\n  test_dir: null\n"


def model(shape, more):
    length = more.get("length", 8192)
    positions = more.get("positions", "${.encoder_seq_length}")
    text = f"\nmodel:\n  encoder_seq_length: {length}\n  max_position_embeddings: {positions}\n"
    text += f"  num_layers: {more.get('layers', shape['num_hidden_layers'])}\n  hidden_size: {shape['hidden_size']}\n"
    if more.get("megatron"):
        text += f"""  ffn_hidden_size: {shape['intermediate_size']}
  num_attention_heads: {shape['num_attention_heads']}
  num_kv_heads: {shape['num_key_value_heads']}
  init_method_std: 0.021
  use_scaled_init_method: True
  hidden_dropout: 0
  attention_dropout: 0
  ffn_dropout: 0
  kv_channels: null
  apply_query_key_layer_scaling: True
  normalization: rmsnorm
  layernorm_epsilon: 1e-5
  make_vocab_size_divisible_by: 8
  persist_layer_norm: True
  share_embeddings_and_output_weights: False
  position_embedding_type: rope
  rotary_percentage: 1
  activation: swiglu
  transformer_block_type: pre_ln
  has_bias: False
"""
    else:
        text += f"""  model_config: CONFIG_JSON
  qkv_linear: True
  fuse_qkv: True
  rope_theta: {shape['rope_theta']}
  transpose_nki_inputs: True
  pipeline_cuts: ["model.layers.18"]
  weight_init_only: {bool(more.get("sft") or more.get("align"))}
  save_logits: False
  use_emha: False
"""
    text += f"""  use_cpu_initialization: True
  activations_checkpoint_granularity: {more.get("recompute", "selective")}
  activations_checkpoint_recompute: [CoreAttention]
  fusions:
    softmax: True
    flash_attention: {not more.get("ring")}
    ring_attention: {bool(more.get("ring"))}
  do_layer_norm_weight_decay: True
  optim:
    name: {"adamw_fp32OptState" if more.get("linear") else "adamw"}
    lr: {"1.5e-4" if more.get("linear") else "0.000015"}
    weight_decay: {"0.01" if more.get("linear") else "0.1"}
    capturable: False
    betas:
    - 0.9
    - {"0.999" if more.get("linear") else "0.95"}
    sched:
      name: {"LinearAnnealingWithWarmUp" if more.get("linear") else "CosineAnnealing"}
      warmup_steps: {"10" if more.get("sft") or more.get("align") else "100" if more.get("linear") else "2000"}
      max_steps: ${{trainer.max_steps}}
"""
    return text + ("" if more.get("linear") else "      min_lr: 1e-06\n      constant_steps: 0\n")


def rest(more):
    text = ""
    if more.get("sft"):
        text += "\nmodel_alignment_strategy:\n  sft:\n    packing: True\n"
    if more.get("align"):
        text += f"\nmodel_alignment_strategy:\n  {more['align']}:\n    beta: 0.1\n    max_prompt_length: 2048\n"
    if more.get("lora"):
        text += """  peft:
    lora_rank: 16
    lora_alpha: 32
    lora_dropout: 0.05
    lora_bias: "none"
    lora_verbose: True
    target_modules: ["qkv_proj"]
    load_lora_from_ckpt: False
    save_lora_base: True
    merge_lora: False
    save_lora_config_adapter: True
    merge_sharded_lora: False
"""
    return text + f"""
precision:
  type: {"autocast" if more.get("lora") else "bf16SR" if more.get("linear") else "mixed_precision"}
  master_weights: False
  fp32_grad_acc: False
  xla_use_bf16: '0'
  xla_downcast_bf16: '0'
  neuron_rt_stochastic_rounding_en: '0'
  parallel_layers_reduce_dtype: bf16

compiler_flags: '--model-type transformer'
compiler_cache_url: /home/ubuntu/neuron_cache
aync_exec_max_inflight_requests: 5
bucket_size_collectives: 1024
neuron_rt_exec_timeout: 100
neuron_experimental_compress_rg: False
"""


def main():
    folder = sys.argv[1]
    for name, (shape, nodes, devices, tp, pp, cp, batch, steps, more) in FILES.items():
        layout = f"""
distributed_strategy:
  tensor_model_parallel_size: {tp}
  pipeline_model_parallel_size: {pp}
  virtual_pipeline_model_parallel_size: 1
  context_parallel_size: {cp}
  zero1: {not more.get("lora")}
  sequence_parallel: True
  kv_replicator: {max(1, tp // SHAPES[shape]["num_key_value_heads"])}
  expert_model_parallel_size: 1
"""
        text = head(nodes, devices, steps, more) + layout + data(batch, more) + model(SHAPES[shape], more) + rest(more)
        with open(f"{folder}/{name}.yaml", "w") as file:
            file.write(text.replace("CONFIG_JSON", f"{folder}/{shape}.json"))
        with open(f"{folder}/{name}.expected", "w") as file:  # ranks, data ranks, batch, steps, schedule
            kind = "linear" if more.get("linear") else "cosine"
            print(nodes * devices, nodes * devices // (tp * pp * cp), batch, steps, kind, file=file)
    for name, shape in SHAPES.items():
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                       "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "initializer_range": 0.02, **shape}, file)


main()
