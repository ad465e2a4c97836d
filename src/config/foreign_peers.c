// The keys of other trainers that are answered, and not translated from a file: whoever comes from
// one of them is told what they are called here. Names are those of transformers' TrainingArguments
// and peft's LoraConfig, Megatron-LM's arguments, NeMo and NxD Training, torchtitan and litgpt.
#include "config/foreign_key.h"

#define HINT(names, ours, remark)                                                                  \
    { names, ours, remark, 0, FOREIGN_hint, NULL }
#define NO_RANKS        "as many as mpirun or srun starts"
#define IN_STEPS        "in steps: samples / training.global_batch_size"
#define TOKENS_IN_STEPS "in steps: tokens / (training.global_batch_size x data.sequence_length)"
#define NOT_NEEDED      "drover has no such option"
#define LLAMA_ONLY      "drover's model is the Llama of config.json"

const foreign_key foreign_peers[] = {
        // batches and length
        HINT("learning_rate max_lr base_learning_rate peak_lr", "optimizer.lr", NULL),
        HINT("gradient_accumulation_steps gradient_accumulation_iters accumulate_grad_batches "
             "grad_accum_steps",
                "training.global_batch_size",
                "give the rows of a whole step, which micro_batch_size divides: rows per device x "
                "accumulation steps x ranks"),
        HINT("per_device_train_batch_size per_gpu_train_batch_size train_micro_batch_size_per_gpu "
             "micro_batch local_batch_size micro_bs mbs",
                "training.micro_batch_size", "training.global_batch_size holds the rows of a step"),
        HINT("train_batch_size batch_size effective_batch_size tokens_per_batch gbs global_bs",
                "training.global_batch_size", "in rows of data.sequence_length tokens"),
        HINT("per_device_eval_batch_size eval_batch_size eval_accumulation_steps",
                "training.micro_batch_size", "evaluation takes the same micro-batches"),
        HINT("max_steps train_iters num_train_steps max_train_steps total_steps num_steps max_iters "
             "train_steps",
                "training.steps", NULL),
        HINT("num_train_epochs epochs num_epochs max_epochs", "training.epochs", NULL),
        HINT("exit_duration_in_mins", "training.max_minutes", NULL),
        HINT("exit_interval", "training.stop_at_step", NULL),
        HINT("train_samples train_tokens max_tokens", "training.steps",
                "steps x global_batch_size x sequence_length are the tokens of a run; data info "
                "counts those of a data set"),
        HINT("max_seq_length max_seq_len seq_length seq_len block_size max_length encoder_seq_length "
             "context_length cutoff_len model_max_length sequence_len",
                "data.sequence_length", NULL),
        HINT("max_position_embedding n_positions max_sequence_length n_ctx",
                "model.max_position_embeddings", NULL),
        // precision and memory
        HINT("bf16 bfloat16", "training.precision", "bf16 or fp32"),
        HINT("fp16 half float16 mixed_precision mixed_precision_param torch_dtype dtype "
             "params_dtype amp fp32 tf32 precision_type fp16_enabled",
                "training.precision", "bf16 or fp32; fp16 is not supported"),
        HINT("gradient_checkpointing activation_checkpointing activations_checkpoint_granularity "
             "activations_checkpoint_method recompute_granularity recompute_activations "
             "recompute_method recompute_num_layers activation_checkpoint selective_ac_option "
             "enable_activation_checkpointing disable_gradient_checkpointing",
                "training.recompute", "none, gathers, selective or full"),
        HINT("activation_offloading enable_activation_offloading enable_activation_offload "
             "activation_cpu_offload cpu_checkpointing cpu_offloading cpu_offloading_activations "
             "cpu_offloading_num_layers fine_grained_activation_offloading",
                "training.offload", "none or activations, with backend pjrt"),
        HINT("zero_stage zero_optimization zero_optimization.stage use_distributed_optimizer fsdp deepspeed wrap_with_zero",
                "parallel.zero", NULL),
        HINT("data_parallel_shard_degree data_parallel_replicate_degree dp_shard_size "
             "dp_replicate_size hybrid_shard hsdp sharding_strategy fsdp_sharding_strategy "
             "num_distributed_optimizer_instances",
                "parallel.zero_group",
                "with parallel.zero 3: the number of data ranks that share weights, which is all data ranks / replicas"),
        // optimizer and schedule
        HINT("adam_beta1 adam_beta2 beta1 beta2 adamw_beta1", "optimizer.betas",
                "both in one list, as [0.9, 0.95]"),
        HINT("adam_epsilon adam_eps epsilon opt_eps", "optimizer.eps", NULL),
        HINT("wd decay adam_weight_decay start_weight_decay end_weight_decay l2",
                "optimizer.weight_decay", NULL),
        HINT("max_grad_norm max_norm clip_grad gradient_clip_val gradient_clipping grad_clip grad_norm_clip "
             "gradient_clip",
                "optimizer.clip_grad_norm", NULL),
        HINT("pure_bf16", "optimizer.master_dtype", "bf16: no fp32 masters"),
        HINT("optim optimizer_type optimizer_name optimizer.name opt use_muon", "optimizer.type",
                "adamw, muon or normuon"),
        HINT("momentum muon_momentum muon_beta", "optimizer.muon_momentum", NULL),
        HINT("muon_num_ns_steps muon_ns_steps ns_steps num_ns_steps newton_schulz_steps",
                "optimizer.muon_ns_steps", NULL),
        HINT("matrix_lr embedding_lr unembedding_lr scalar_lr muon_lr muon_learning_rate",
                "optimizer.lr", "one rate: updates of Muon are as large as AdamW's"),
        HINT("muon_use_nesterov muon_nesterov nesterov", NULL, "Muon takes Nesterov's step"),
        HINT("muon_scale_mode muon_extra_scale_factor muon_adjust_lr adjust_lr_fn", NULL,
                "updates of Muon are 0.2 sqrt(max(rows, columns)) times the orthogonal matrix, as with "
                "adjust_lr_fn: match_rms_adamw"),
        HINT("muon_split_qkv muon_no_split_qkv muon_tp_mode", NULL,
                "each matrix of the model is orthogonalised by itself and whole, on any layout"),
        HINT("muon_coefficient_type ns_coefficients", NULL, "the quintic of torch.optim.Muon"),
        HINT("muon_fp32_matmul_prec", "training.precision", "its products follow it"),
        HINT("muon_scalar_optimizer scalar_opt", NULL,
                "AdamW updates everything but the matrices of layers"),
        HINT("lr_scheduler_type lr_decay_style lr_scheduler scheduler_type decay_type scheduler "
             "lr_schedule sched decay_lr",
                "schedule.type", NULL),
        HINT("warmup_ratio lr_warmup_fraction warmup_fraction", "schedule.warmup_ratio", NULL),
        HINT("warmup lr_warmup_iters lr_warmup_steps num_warmup_steps warmup_iters",
                "schedule.warmup_steps", NULL),
        HINT("lr_warmup_samples warmup_samples num_warmup_samples", "schedule.warmup_steps",
                IN_STEPS),
        HINT("warmup_tokens lr_warmup_tokens num_warmup_tokens", "schedule.warmup_steps",
                TOKENS_IN_STEPS),
        HINT("lr_decay_samples lr_wsd_decay_samples decay_samples", "schedule.decay_steps",
                IN_STEPS ", of the decay alone"),
        HINT("lr_decay_tokens decay_tokens", "schedule.decay_steps",
                TOKENS_IN_STEPS ", of the decay alone"),
        HINT("lr_decay_iters lr_decay_steps max_decay_steps lr_wsd_decay_iters constant_steps",
                "schedule.decay_steps", "steps of the decay alone, without those of the warm-up"),
        HINT("decay_ratio lr_decay_ratio lr_wsd_decay_ratio", "schedule.decay_steps",
                "of wsd, in steps: the ratio x training.steps"),
        HINT("min_learning_rate lr_min end_learning_rate final_lr min_lr_ratio min_lr_factor eta_min "
             "lr_scheduler_kwargs",
                "schedule.min_lr", "a learning rate, not a ratio"),
        // parallel
        HINT("tensor_model_parallel_size tensor_parallel_size tensor_parallel_degree tp tp_size "
             "tp_degree",
                "parallel.tensor", NULL),
        HINT("pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel_degree pp pp_size",
                "parallel.pipeline", NULL),
        HINT("virtual_pipeline_model_parallel_size num_layers_per_virtual_pipeline_stage "
             "pipeline_parallel_layers_per_stage interleave_group_size",
                "parallel.virtual_stages", "model chunks of each rank"),
        HINT("pipeline_parallel_schedule pipeline_schedule", "parallel.schedule", NULL),
        HINT("context_parallel_size context_parallel_degree cp cp_size context_parallel_shards",
                "parallel.context", NULL),
        HINT("cp_comm_type context_parallel_rotate_method context_parallel_load_balancer "
             "hierarchical_context_parallel_sizes",
                NULL, "rows are split in zigzag order, keys and values pass around a ring"),
        HINT("data_parallel_size data_parallel_degree dp dp_size devices trainer.devices "
             "num_nodes nproc_per_node num_gpus world_size gpus",
                "parallel.data", NO_RANKS),
        HINT("overlap_grad_reduce overlap_grad_sync overlap_param_gather overlap_param_sync "
             "overlap_param_gather_with_optimizer_step overlap_comm",
                "parallel.overlap", NULL),
        HINT("sequence_parallel_enabled enable_sequence_parallel", "parallel.sequence", NULL),
        HINT("expert_model_parallel_size expert_parallel expert_parallel_size expert_parallel_degree ep "
             "ep_size num_experts num_moe_experts num_local_experts",
                NULL, "drover trains dense Llamas"),
        // model
        HINT("model_name_or_path pretrained_model_name_or_path base_model hf_assets_path model_path "
             "checkpoint_dir pretrained_model initial_load_path pretrained_checkpoint "
             "restore_from_path init_from initial_checkpoint_dir",
                "model.from", NULL),
        HINT("flavor model_name model.name model_type architecture", "model.preset", LLAMA_ONLY),
        HINT("num_layers n_layers n_layer nlayers", "model.num_hidden_layers", NULL),
        HINT("dim n_embd d_model hidden_dim embed_dim", "model.hidden_size", NULL),
        HINT("ffn_hidden_size ffn_dim d_ff intermediate_dim", "model.intermediate_size", NULL),
        HINT("n_heads n_head num_heads", "model.num_attention_heads", NULL),
        HINT("num_query_groups n_kv_heads num_kv_heads n_query_groups group_query_attention",
                "model.num_key_value_heads", NULL),
        HINT("kv_channels head_size", "model.head_dim", NULL),
        HINT("padded_vocab_size make_vocab_size_divisible_by n_vocab vocab", "model.vocab_size",
                NULL),
        HINT("norm_epsilon layernorm_epsilon layer_norm_eps norm_eps rms_eps", "model.rms_norm_eps",
                NULL),
        HINT("rotary_base rope_base rotary_emb_base", "model.rope_theta", NULL),
        HINT("init_method_std init_std", "model.initializer_range", NULL),
        HINT("untie_embeddings_and_output_weights share_embeddings_and_output_weights tied_embeddings "
             "weight_tying",
                "model.tie_word_embeddings", NULL),
        HINT("swiglu normalization activation_function activation position_embedding_type "
             "use_rotary_position_embeddings disable_bias_linear add_bias_linear",
                NULL, LLAMA_ONLY),
        HINT("hidden_dropout attention_dropout dropout", NULL, "the only dropout is lora.dropout"),
        HINT("use_flash_attn flash_attn attn_implementation attention_backend "
             "use_flash_attention_2 use_flash_attention flash_attention",
                NULL, "attention is always fused"),
        // LoRA
        HINT("lora_r lora_rank r use_lora peft_type peft_config peft finetuning_type adapter_dim",
                "lora.rank", "a rank above 0 trains LoRA"),
        HINT("lora_alpha", "lora.alpha", NULL),
        HINT("kl_beta beta ref_policy_kl_penalty dpo_beta pref_beta rl_beta", "dpo.beta",
                "with training.objective: dpo"),
        HINT("label_smoothing dpo_label_smoothing", "dpo.label_smoothing",
                "with training.objective: dpo"),
        HINT("preference_loss loss_type pref_loss rl_algorithm", "training.objective",
                "dpo: the sigmoid of arXiv:2305.18290"),
        HINT("stage", "training.objective",
                "dpo, or tokens for pt and sft; for sft build the set with drover data build --sft"),
        HINT("precompute_ref_log_probs ref_model reference_model model_ref ref_adapter_name", NULL,
                "the reference is the model with which the run begins, of LoRA its base: its log-probabilities are computed "
                "once and kept beside the data"),
        HINT("lora_dropout", "lora.dropout", NULL),
        HINT("rslora use_rslora lora_use_rslora", "lora.use_rslora", NULL),
        HINT("target_modules lora_target_modules lora_target lora_target_linear lora_modules "
             "lora_attn_modules apply_lora_to_mlp apply_lora_to_output",
                "lora.target_modules", "as [q_proj, v_proj], or all-linear"),
        HINT("adapter", "lora.rank",
                "a rank above 0 is LoRA; lora.adapter is a folder to continue from"),
        HINT("adapter_path adapter_name_or_path lora_model_dir resume_adapter_file "
             "peft_model_id lora_path",
                "lora.adapter", NULL),
        HINT("lora_bias bias modules_to_save lora_modules_to_save init_lora_weights fan_in_fan_out "
             "layers_to_transform layers_pattern rank_pattern alpha_pattern use_dora lora_plus_lr_ratio",
                NULL,
                "A begins uniform, B zero; all adapters have one rank, and nothing else is trained"),
        HINT("qlora load_in_4bit load_in_8bit bnb_4bit_quant_type quantization_config quantize_base "
             "quantization_bit quantization_method double_quantization",
                "model.base_dtype",
                "q4_k and q8_0 hold a frozen model in 4 and 8 bits: blocks of ggml, not NF4"),
        // data
        HINT("tokenizer_name tokenizer_model tokenizer_path tokenizer_name_or_path tokenizer_type "
             "vocab_file merge_file tokenizer_dir",
                "tokenizer", "a folder with tokenizer.json or tokenizer.model, or such a file"),
        HINT("data_path dataset dataset_path dataset_name data_prefix train_data_path train_file "
             "train_data data.path dataset_dir train_dataset train_files data_dir tokenized_path",
                "data.train", "the prefix that drover data build wrote"),
        HINT("validation_file valid_data_path eval_dataset validation_data_path val_data "
             "eval_data_path validation_dataset valid_data",
                "data.valid", NULL),
        HINT("splits_string train_val_test_split validation_split val_split "
             "validation_split_percentage val_set_size val_size test_size",
                "data.split", "as [969, 30, 1]"),
        HINT("max_samples max_train_samples", "data.train",
                "drover trains on the whole set; build a set of only those records"),
        HINT("packing sample_packing pack_sequences neat_packing group_by_length reset_position_ids "
             "reset_attention_mask",
                "data.pack", "documents, stream or examples"),
        HINT("train_on_input train_on_inputs train_on_prompt mask_prompt completion_only_loss assistant_only_loss "
             "roles_to_train train_on_eos train_on_source",
                "data.loss",
                "responses, last or all; the data set records which tokens are answers (drover data build --sft)"),
        HINT("excess_length_strategy truncation_mode drop_long_seq truncation", "data.too_long",
                "truncate or drop"),
        HINT("dataset_text_field chat_template response_template instruction_template text_field dataset_kwargs "
             "prompt_template field_messages apply_chat_template chat_template_path template",
                NULL,
                "text is made when the set is built: drover data build --sft --template, or --json-key of plain text"),
        HINT("dataloader_num_workers num_workers num_proc preprocessing_num_workers", NULL,
                "batches are read while the previous step computes"),
        // the loop and its files
        HINT("output_dir save_dir save exp_dir dump_folder results_dir out_dir explicit_log_dir "
             "checkpoint.folder exp_name experiment_name run_name",
                "run_dir", NULL),
        HINT("save_steps save_interval checkpoint_interval every_n_train_steps save_every "
             "save_strategy save_n_steps checkpoint.interval",
                "checkpoint.every", NULL),
        HINT("save_total_limit save_top_k keep_latest_k max_checkpoints", "checkpoint.keep", NULL),
        HINT("logging_steps log_interval log_freq log_every_n_steps log_every_n print_freq",
                "training.log_every", NULL),
        HINT("eval_steps eval_interval val_check_interval eval_strategy evaluation_strategy "
             "validation_freq validation.freq eval_freq eval.interval",
                "training.eval_every", NULL),
        HINT("eval_iters limit_val_batches eval_max_batches validation_steps validation.steps "
             "eval.max_iters",
                "training.eval_batches", NULL),
        HINT("max_eval_samples eval_samples num_eval_samples val_samples limit_val_samples "
             "validation_samples",
                "training.eval_batches", "in batches: samples / training.global_batch_size"),
        HINT("eval_interval_samples eval_every_samples val_interval_samples", "training.eval_every",
                IN_STEPS),
        HINT("save_interval_samples save_every_samples checkpoint_interval_samples",
                "checkpoint.every", IN_STEPS),
        HINT("data_seed random_seed manual_seed", "training.seed", NULL),
        HINT("resume_from_checkpoint load resume resume_if_exists auto_resume", "run_dir",
                "a run resumes by itself from its newest checkpoint"),
        HINT("overwrite_output_dir do_train do_eval always_save_checkpoint", NULL,
                "drover train resumes what is in run_dir and saves at its end; --fresh begins anew"),
        HINT("report_to tensorboard_dir wandb_project wandb_log use_wandb wandb logging_dir logger tensorboard "
             "enable_tensorboard",
                NULL, "a run directory always has metrics.jsonl and tensorboard/"),
        HINT("plot_loss", NULL, "drover plot RUN_DIR draws the loss, during the run and after it"),
        HINT("profiling enable_profiling profile profile_step_start use_pytorch_profiler", NULL,
                "drover bench step --profile shows the time of each op"),
        HINT("push_to_hub hub_model_id hub_strategy", NULL,
                "drover model push uploads a checkpoint"),
        HINT("use_cpu no_cuda device accelerator", "backend", NULL),
        HINT("deterministic full_determinism", "training.deterministic", NULL),
        HINT("torch_compile compile use_torch_compile remove_unused_columns "
             "label_smoothing label_smoothing_factor neftune_noise_alpha",
                NULL, NOT_NEEDED),
        {.names = NULL},
};
