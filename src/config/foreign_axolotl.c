// Keys of Axolotl's YAML (axolotl-ai-cloud/axolotl, docs/config) for pre-training, SFT and LoRA of
// a Llama.
#include "config/foreign_key.h"
#include "config/foreign_tables.h"

#define A FOREIGN_AXOLOTL

const foreign_key foreign_axolotl[] = {
        // model
        FACT(A, "base_model", "model.from", "from"),
        FACT(A, "tokenizer_config", "tokenizer", "tokenizer"),
        ONLY(A, "model_type", "LlamaForCausalLM AutoModelForCausalLM MistralForCausalLM",
                "the model is a Llama"),
        NONE(A,
                "tokenizer_type tokenizer_use_fast tokenizer_legacy base_model_config is_llama_derived_model hub_model_id "
                "base_model_ignore_patterns gptq_disable_exllama hf_use_auth_token push_dataset_to_hub",
                "the model is a folder on this machine, with its tokenizer"),
        ONLY(A, "trust_remote_code special_tokens tokens", "false",
                "the tokenizer is taken as it lies"),
        ONLY(A, "load_in_8bit load_in_4bit gptq", "false",
                "model.base_dtype q4_k and q8_0 hold a frozen model in blocks of ggml, not NF4"),
        ONLY(A, "strict resize_token_embeddings_to_32x", "false true",
                "drover's configs are always strict"),
        // data
        FACT(A, "datasets", "data.train", "datasets"),
        FACT(A, "pretraining_dataset", "data.train", "pretraining_dataset"),
        FACT(A, "test_datasets", "data.valid", "test_datasets"),
        FACT(A, "val_set_size", "data.split", "val_share"),
        NONE(A,
                "pad_to_sequence_len eval_sample_packing dataset_prepared_path dataset_processes dataset_keep_in_memory shuffle_merged_datasets dataloader_num_workers "
                "dataloader_pin_memory dataloader_prefetch_factor chat_template default_system_message pretrain_multipack_buffer_size "
                "pretrain_multipack_attn skip_prepare_dataset remove_unused_columns sample_packing_sequentially sample_packing_group_size sample_packing_bin_size "
                "sample_packing_eff_est",
                "drover data build makes the set, and rows are read while the step before computes"),
        FACT(A, "sequence_len", "data.sequence_length", "row_length"),
        FACT(A, "sample_packing", "data.pack", "sample_packing"),
        FACT(A, "train_on_inputs", "data.loss", "train_on_inputs"),
        CHANGES(A,
                "group_by_length max_steps_per_epoch noisy_embedding_alpha neftune_noise_alpha curriculum_sampling "
                "lr_quadratic_warmup relora jagged_restart_steps lisa_n_layers dataset_exact_deduplication fp8 qat.* llmcompressor.* peft.loftq_config.*",
                "drover has no such option"),
        NONE(A, "relora_* jagged_restart_* lisa_* fp8_*", "another key says whether it is used"),
        MAP(A, "excess_length_strategy", "data.too_long", "truncate=truncate drop=drop"),
        // LoRA
        FACT(A, "adapter", "lora.rank", "adapter"),
        FACT(A, "lora_model_dir", "lora.adapter", "lora_model_dir"),
        FACT(A, "lora_r", "lora.rank", "lora_rank"),
        FACT(A, "lora_alpha", "lora.alpha", "lora_alpha"),
        FACT(A, "lora_dropout", "lora.dropout", "lora_dropout"),
        FACT(A, "lora_target_modules", "lora.target_modules", "targets"),
        FACT(A, "lora_target_linear", "lora.target_modules", "target_linear"),
        FACT(A, "peft_use_rslora", "lora.use_rslora", "use_rslora"),
        ONLY(A, "lora_fan_in_fan_out lora_modules_to_save peft_use_dora", "false null",
                "adapters are plain LoRA, and nothing else is trained"),
        NONE(A, "lora_mlp_kernel lora_qkv_kernel lora_o_kernel",
                "it says how the same is computed"),
        // batches and steps
        FACT(A, "micro_batch_size", "training.micro_batch_size", "micro"),
        FACT(A, "gradient_accumulation_steps", "training.global_batch_size", "accumulation"),
        FACT(A, "batch_size", "training.global_batch_size", "rows_of_device"),
        FACT(A, "num_epochs", "training.steps", "epochs"),
        FACT(A, "max_steps", "training.steps", "steps"),
        SAME(A, "seed", "training.seed"),
        // optimizer and schedule
        FACT(A, "optimizer", "optimizer.type", "optimizer"),
        SAME(A, "learning_rate", "optimizer.lr"),
        SAME(A, "weight_decay", "optimizer.weight_decay"),
        FACT(A, "adam_beta1", "optimizer.betas", "beta1"),
        FACT(A, "adam_beta2", "optimizer.betas", "beta2"),
        SAME(A, "adam_epsilon adam_eps", "optimizer.eps"),
        SAME(A, "max_grad_norm", "optimizer.clip_grad_norm"),
        FACT(A, "lr_scheduler", "schedule.type", "schedule"),
        FACT(A, "lr_scheduler_kwargs", "schedule.min_lr", "schedule_kwargs"),
        FACT(A, "cosine_min_lr_ratio", "schedule.min_lr", "min_lr_ratio"),
        ONLY(A, "cosine_constant_lr_ratio", "null", "the decay ends with the run"),
        FACT(A, "warmup_steps", "schedule.warmup_steps", "warmup_steps"),
        FACT(A, "warmup_ratio", "schedule.warmup_steps", "warmup_ratio"),
        // precision and memory
        FACT(A, "bf16 bfloat16", "training.precision", "bf16"),
        ONLY(A, "fp16 float16", "false", "training.precision is bf16 or fp32"),
        NONE(A, "tf32", "products are in training.precision"),
        FACT(A, "gradient_checkpointing", "training.recompute", "checkpointing"),
        FACT(A, "activation_offloading", "training.offload", "offload"),
        NONE(A,
                "gradient_checkpointing_kwargs flash_attention flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_qkv "
                "flash_attn_fuse_mlp attn_implementation flex_attn_* flash_optimum torchdistx_path use_ray ray_* xformers_attention sdp_attention flex_attention eager_attention torch_compile local_rank ddp* "
                "plugins liger_* cut_cross_entropy low_cpu_mem_usage",
                "it says how the same is computed"),
        ONLY(A, "s2_attention", "false", "attention sees the whole row"),
        CHANGES(A, "deepspeed fsdp fsdp_config fsdp_version",
                "what it shards is parallel.zero here, and what its file says beside that is not read"),
        SAME(A, "sequence_parallel_degree context_parallel_size", "parallel.context"),
        SAME(A, "tensor_parallel_size", "parallel.tensor"),
        // the loop and its files
        FACT(A, "output_dir", "run_dir", "run_dir"),
        FACT(A, "save_steps", "checkpoint.every", "save_every"),
        FACT(A, "saves_per_epoch", "checkpoint.every", "saves_per_epoch"),
        FACT(A, "save_strategy", "checkpoint.every", "save_strategy"),
        FACT(A, "save_total_limit", "checkpoint.keep", "keep"),
        NONE(A, "save_safetensors save_only_model save_first_step",
                "a checkpoint is a Hugging Face folder in safetensors"),
        FACT(A, "logging_steps", "training.log_every", "log_every"),
        FACT(A, "eval_steps", "training.eval_every", "eval_every"),
        FACT(A, "evals_per_epoch", "training.eval_every", "evals_per_epoch"),
        FACT(A, "eval_strategy evaluation_strategy", "training.eval_every", "eval_strategy"),
        NONE(A, "eval_batch_size eval_table_size eval_max_new_tokens eval_causal_lm_metrics do_causal_lm_eval early_stopping_patience",
                "evaluations take micro-batches as training does"),
        NONE(A,
                "wandb_* mlflow_* use_wandb use_mlflow use_tensorboard debug logging_dir loss_watchdog_* axolotl_config_path "
                "resume_from_checkpoint auto_resume_from_checkpoints include_tokens_per_second profiler_steps use_otel_metrics otel_metrics_* comet_* use_comet",
                "a run directory always has log.txt, metrics.jsonl and tensorboard/; a run resumes by itself"),
        NONE(A, "trl.* kto_*", "it is for preference training, which rl says"),
        SAME(A, "rl_beta", "dpo.beta"),
        SAME(A, "dpo_label_smoothing", "dpo.label_smoothing"),
        FACT(A, "rl", "training.objective", "rl"),
        NEVER(A, "reward_model process_reward_model", "reward models are not supported"),
};
const int n_foreign_axolotl = sizeof foreign_axolotl / sizeof *foreign_axolotl;
