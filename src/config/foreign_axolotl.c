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
                "base_model_ignore_patterns gptq_disable_exllama gptq_groupsize gptq_model_v1 hf_use_auth_token push_dataset_to_hub "
                "is_falcon_derived_model is_mistral_derived_model is_qwen_derived_model tokenizer_save_jinja_files tokenizer_use_mistral_common hub_strategy hub_revision type_of_model "
                "revision_of_model",
                "the model is a folder on this machine, with its tokenizer"),
        NONE(A, "special_tokens.pad_token", "padding is not learned"),
        NEVER(A, "special_tokens", "expected a section"),
        ONLY(A,
                "trust_remote_code special_tokens.* tokens added_tokens_overrides mean_resizing_embeddings shrink_embeddings "
                "fix_untrained_tokens",
                "false", "the tokenizer's files are used unchanged"),
        CHANGES(A, "model_config overrides_of_model_config",
                "give its fields by --set model.FIELD"),
        MAP(A, "reinit_weights", "model.weights", "true=random false=load"),
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
                "pad_to_sequence_len pad_to_multiple_of eval_sample_packing eval_sequence_len dataset_prepared_path dataset_processes "
                "dataset_num_proc dataset_keep_in_memory shuffle_merged_datasets shuffle_before_merging_datasets "
                "num_dataset_shards_to_save dataloader_num_workers dataloader_pin_memory dataloader_prefetch_factor chat_template "
                "chat_template_jinja chat_template_kwargs eot_tokens default_system_message pretrain_multipack_buffer_size "
                "pretrain_multipack_attn pretraining_sample_concatenation streaming streaming_multipack_buffer_size "
                "skip_prepare_dataset remove_unused_columns sample_packing_sequentially sample_packing_group_size "
                "sample_packing_bin_size sample_packing_eff_est sample_packing_mp_start_method multipack_real_batches batch_flattening "
                "is_preprocess preprocess_iterable total_num_tokens total_supervised_tokens",
                "drover data build makes the set, and rows are read while the previous step computes"),
        FACT(A, "sequence_len", "data.sequence_length", "row_length"),
        FACT(A, "sample_packing", "data.pack", "sample_packing"),
        FACT(A, "train_on_inputs", "data.loss", "train_on_inputs"),
        CHANGES(A,
                "group_by_length max_steps_per_epoch noisy_embedding_alpha neftune_noise_alpha curriculum_sampling "
                "lr_quadratic_warmup relora jagged_restart_steps lisa_n_layers dataset_exact_deduplication fp8 sage_attention qat.* "
                "llmcompressor.* peft.loftq_config.* unfrozen_parameters",
                "drover has no such option"),
        NONE(A, "relora_* jagged_restart_* lisa_* fp8_*", "another key decides whether it is used"),
        CHANGES(A, "min_sample_len dataset_shard_num dataset_shard_idx",
                "drover trains on the whole set; build a set of only those records"),
        FACT(A, "dataloader_drop_last", "training.steps", "drop_last"),
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
        ONLY(A,
                "lora_fan_in_fan_out lora_modules_to_save lora_target_parameters lora_rank_pattern lora_alpha_pattern peft_use_dora "
                "peft_layers_to_transform peft_layers_pattern peft_layer_replication peft_init_lora_weights "
                "peft_trainable_token_indices",
                "false null", "adapters are plain LoRA, and nothing else is trained"),
        NONE(A,
                "lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel lora_on_cpu bnb_config_kwargs "
                "qlora_sharded_model_loading peft_autocast_adapter_dtype peft_ensure_weight_tying merge_lora merge_method",
                "it changes how the result is computed, not the result"),
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
        CHANGES(A,
                "optim_args optim_target_modules lr_div_factor lr_groups embedding_lr embedding_lr_scale loraplus_lr_ratio",
                "one rate is for all weights, and optimizer.* has all that can be set"),
        NONE(A, "adam_beta3 adam_epsilon2 dion_* qgalore_* loraplus_lr_embedding",
                "another key decides whether it is used"),
        FACT(A, "lr_scheduler", "schedule.type", "schedule"),
        FACT(A, "lr_scheduler_kwargs", "schedule.min_lr", "schedule_kwargs"),
        FACT(A, "cosine_min_lr_ratio", "schedule.min_lr", "min_lr_ratio"),
        ONLY(A, "cosine_constant_lr_ratio", "null", "the decay ends with the run"),
        FACT(A, "warmup_steps", "schedule.warmup_steps", "warmup_steps"),
        FACT(A, "warmup_ratio", "schedule.warmup_steps", "warmup_ratio"),
        // precision and memory
        FACT(A, "bf16 bfloat16", "training.precision", "bf16"),
        ONLY(A, "fp16 float16 float32", "false", "training.precision is bf16 or fp32"),
        NONE(A, "tf32", "products are in training.precision"),
        FACT(A, "gradient_checkpointing", "training.recompute", "checkpointing"),
        FACT(A, "activation_offloading", "training.offload", "offload"),
        NONE(A,
                "gradient_checkpointing_kwargs flash_attention flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_qkv "
                "flash_attn_fuse_mlp attn_implementation flex_attn_* flash_optimum torchdistx_path use_ray ray_* xformers_attention sdp_attention flex_attention eager_attention torch_compile local_rank ddp* "
                "plugins liger_* cut_cross_entropy low_cpu_mem_usage",
                "it changes how the result is computed, not the result"),
        NONE(A,
                "chunked_cross_entropy chunked_cross_entropy_num_chunks deepcompile device device_map embeddings_skip_upcast "
                "experimental_skip_move_to_device flash_attn_d512 fp32_norms fused_attn_kernel gc_collect_steps gc_steps gpu_memory_limit "
                "heads_k_stride large_head_attention layer_offloading max_memory ring_attn_func sdpa_varlen selective_checkpointing "
                "tiled_mlp tiled_mlp_* torch_compile_* torch_empty_cache_steps use_kernels world_size",
                "it changes how or where the result is computed, not the result"),
        ONLY(A, "auto_find_batch_size", "false",
                "drover plan says which micro-batch fits the memory, before the run"),
        ONLY(A, "s2_attention", "false", "attention sees the whole row"),
        ONLY(A, "expert_parallel_size", "1", "drover trains dense models"),
        CHANGES(A,
                "deepspeed fsdp fsdp_config fsdp_version dp_shard_size dp_replicate_size accelerator_config",
                "sharding is parallel.zero here, and the rest of its settings is not read"),
        SAME(A, "sequence_parallel_degree context_parallel_size", "parallel.context"),
        SAME(A, "tensor_parallel_size", "parallel.tensor"),
        // the loop and its files
        FACT(A, "output_dir", "run_dir", "run_dir"),
        FACT(A, "save_steps", "checkpoint.every", "save_every"),
        FACT(A, "saves_per_epoch", "checkpoint.every", "saves_per_epoch"),
        FACT(A, "save_strategy", "checkpoint.every", "save_strategy"),
        FACT(A, "save_total_limit", "checkpoint.keep", "keep"),
        NONE(A,
                "save_safetensors save_only_model save_first_step load_best_model_at_end metric_for_best_model greater_is_better "
                "dynamic_checkpoint",
                "a checkpoint is a Hugging Face folder in safetensors"),
        FACT(A, "logging_steps", "training.log_every", "log_every"),
        FACT(A, "eval_steps", "training.eval_every", "eval_every"),
        FACT(A, "evals_per_epoch", "training.eval_every", "evals_per_epoch"),
        FACT(A, "eval_strategy evaluation_strategy", "training.eval_every", "eval_strategy"),
        NONE(A, "eval_batch_size eval_table_size eval_max_new_tokens eval_causal_lm_metrics do_causal_lm_eval early_stopping_patience",
                "evaluations take micro-batches as training does"),
        NONE(A,
                "wandb_* mlflow_* hf_mlflow_log_artifacts use_trackio trackio_* gradio_* generate_samples num_generation_samples "
                "generation_* do_bench_eval bench_dataset bench_split include_tkps profiler_steps_start use_wandb use_mlflow use_tensorboard debug logging_dir loss_watchdog_* axolotl_config_path "
                "resume_from_checkpoint auto_resume_from_checkpoints include_tokens_per_second profiler_steps use_otel_metrics otel_metrics_* comet_* use_comet",
                "a run directory always has log.txt, metrics.jsonl and tensorboard/; a run resumes by itself"),
        NONE(A, "trl.* kto_* orpo_alpha cpo_alpha simpo_gamma dpo_padding_free dpo_use_liger_kernel precompute_ref_log_probs",
                "it is for preference training, which rl chooses"),
        SAME(A, "rl_beta dpo_beta", "dpo.beta"),
        CHANGES(A, "dpo_loss_type dpo_use_weighting dpo_loss_weights rpo_alpha max_prompt_len",
                "DPO has no such option"),
        SAME(A, "dpo_label_smoothing", "dpo.label_smoothing"),
        FACT(A, "rl", "training.objective", "rl"),
        NEVER(A, "reward_model process_reward_model", "reward models are not supported"),
        {.names = NULL},
};
