// Flags of programs that train: TrainingArguments of transformers, NeuronTrainingArguments of
// Optimum Neuron, the scripts of TRL, and those of NxD (examples/training/llama). "--" and "-" are
// left out.
#include "config/foreign_key.h"
#include "config/foreign_tables.h"

#define A FOREIGN_ARGS

const foreign_key foreign_args[] = {
        FACT(A, "nproc_per_node", "parallel.data", "devices"),
        FACT(A, "num_nodes", "parallel.data", "nodes"),
        CHANGES(A, "config", "only TRL's programs are known to read it"),
        // batches and steps
        FACT(A, "per_device_train_batch_size per_gpu_train_batch_size train_batch_size batch_size",
                "training.micro_batch_size", "micro"),
        FACT(A, "gradient_accumulation_steps grad_accum_usteps", "training.global_batch_size",
                "accumulation"),
        FACT(A, "max_steps max_training_steps", "training.steps", "steps"),
        FACT(A, "num_train_epochs max_epochs epochs", "training.steps", "epochs"),
        FACT(A, "steps_this_run", "training.stop_at_step", "stop_at"),
        FACT(A, "max_seq_length max_length seq_len block_size sequence_length",
                "data.sequence_length", "row_length"),
        SAME(A, "seed", "training.seed"),
        // precision and memory
        FACT(A, "bf16", "training.precision", "bf16"),
        ONLY(A, "fp16 fp16_full_eval tf32 bf16_full_eval use_autocast", "false",
                "training.precision is bf16 or fp32"),
        FACT(A, "use_mix_precision use_fp32_optimizer use_amp optimizer_use_master_weights use_master_weights use_gpu_compatible_precision",
                "optimizer.master_dtype", "masters"),
        NONE(A, "stochastic_rounding_enabled optimizer_save_master_weights_in_ckpt optimizer_use_fp32_grad_acc use_fp32_grad_acc",
                "what is kept in bf16 is always rounded stochastically; fp32 weights are saved where the run has them"),
        MAP(A, "gradient_checkpointing activation_checkpointing", "training.recompute",
                "true=full false=none"),
        MAP(A, "use_selective_checkpoint selective_checkpoint_enabled", "training.recompute",
                "true=selective 1=selective false=none 0=none"),
        NONE(A, "gradient_checkpointing_kwargs activation_checkpointing_kwargs",
                "training.recompute chooses by op; it changes no value"),
        FACT(A, "activation_offloading", "training.offload", "offload"),
        // optimizer and schedule
        SAME(A, "learning_rate lr", "optimizer.lr"),
        SAME(A, "weight_decay", "optimizer.weight_decay"),
        FACT(A, "adam_beta1 beta1", "optimizer.betas", "beta1"),
        FACT(A, "adam_beta2 beta2", "optimizer.betas", "beta2"),
        SAME(A, "adam_epsilon", "optimizer.eps"),
        SAME(A, "max_grad_norm", "optimizer.clip_grad_norm"),
        ONLY(A, "optim", "adamw_torch adamw_torch_fused adamw_hf adamw_apex_fused adamw",
                "it is AdamW; optimizer.type has muon, too"),
        ONLY(A, "optim_args optim_target_modules", "null", "optimizer.* has all that can be set"),
        ONLY(A, "average_tokens_across_devices", "true",
                "the loss of a step is the mean over the tokens of all ranks"),
        FACT(A, "lr_scheduler_type scheduler_type", "schedule.type", "schedule"),
        FACT(A, "lr_scheduler_kwargs", "schedule.min_lr", "schedule_kwargs"),
        FACT(A, "warmup_steps", "schedule.warmup_steps", "warmup_steps"),
        FACT(A, "warmup_ratio", "schedule.warmup_steps", "warmup_ratio"),
        SAME(A, "min_lr", "schedule.min_lr"),
        FACT(A, "constant_steps", "schedule.decay_steps", "constant_steps"),
        // parallel
        SAME(A, "tensor_parallel_size tp_size", "parallel.tensor"),
        SAME(A, "pipeline_parallel_size pp_size", "parallel.pipeline"),
        SAME(A, "context_parallel_size", "parallel.context"),
        SAME(A, "virtual_pipeline_size", "parallel.virtual_stages"),
        FACT(A, "num_microbatches", "training.micro_batch_size", "micro_batches"),
        NONE(A, "pipeline_parallel_num_microbatches deallocate_pipeline_outputs trace_file_path fuse_microbatches",
                "a pipeline runs the micro-batches of a step as parallel.schedule says"),
        MAP(A, "zero_1 use_zero_1 use_zero1_optimizer", "parallel.zero", "true=1 1=1 false=0 0=0"),
        MAP(A, "use_sequence_parallel sequence_parallel_enabled", "parallel.sequence",
                "true=true 1=true false=false 0=false"),
        MAP(A, "disable_sequence_parallel", "parallel.sequence", "true=false false=true"),
        NONE(A,
                "kv_replicator kv_size_multiplier qkv_linear fuse_qkv use_flash_attention attn_implementation recompute_causal_mask "
                "disable_embedding_parallelization parallelize_embeddings transpose_nki_inputs use_deferred_init "
                "use_meta_device_init num_local_ranks_per_step use_xser save_load_xser async_save async_checkpoint_saving "
                "neuron_cc_optlevel neuron_cc_flags_model_type neuron_parallel_compile torch_compile torch_compile_backend "
                "torch_compile_mode torch_empty_cache_steps padding_free use_cache low_cpu_mem_usage hooks* dump_only_* "
                "enable_activation_dumps enable_grad_dumps enable_tb_logging_* target_layers master_print_model_layers "
                "use_liger_kernel liger_kernel liger_kernel_config ddp_* ignore_bias_buffers local_rank cpu use_cpu no_cuda",
                "it says how or where the same is computed"),
        CHANGES(A, "deepspeed fsdp fsdp_config parallelism_config accelerator_config",
                "what it shards is parallel.zero here, and what its file says beside that is not read"),
        ONLY(A, "auto_find_batch_size", "false",
                "drover plan says which micro-batch fits the memory, before the run"),
        // model
        FACT(A, "model_name_or_path model_id base_model_name_or_path pretrained_model_name_or_path pretrained_weight",
                "model.from", "from"),
        FACT(A, "model_path config_name training_config", "model.hidden_size", "model_config"),
        FACT(A, "num_layers num_layer", "model.num_hidden_layers", "num_layers"),
        FACT(A, "hidden_size", "model.hidden_size", "hidden_size"),
        FACT(A, "torch_dtype dtype", "training.precision", "dtype"),
        ONLY(A, "trust_remote_code use_auth_token token model_revision revision cache_dir use_fast_tokenizer",
                "false true main null", "the model is a folder on this machine"),
        CHANGES(A, "load_in_4bit load_in_8bit",
                "model.base_dtype q4_k and q8_0 hold a frozen model in blocks of ggml, not NF4"),
        NONE(A, "bnb_4bit_quant_type bnb_4bit_quant_storage use_bnb_nested_quant",
                "load_in_4bit says whether it is used"),
        CHANGES(A, "model_init_kwargs", "it is not read: give the options in it by themselves"),
        NONE(A, "router_aux_loss_coef", "drover trains dense models"),
        ONLY(A, "eos_token pad_token", "null", "the special tokens are those of the tokenizer"),
        NONE(A, "model_name task hf_token golden_rouge_score_path",
                "the model is a folder on this machine, and data are a set that drover data build wrote"),
        CHANGES(A, "pretrained_ckpt finetuned",
                "make a Hugging Face folder of NxD's shards by drover ckpt import, and give it by --set model.from=DIR"),
        FACT(A, "tokenizer_name tokenizer_id tokenizer_name_or_path tokenizer_path", "tokenizer",
                "tokenizer"),
        // LoRA
        FACT(A, "use_peft use_lora enable_lora", "lora.rank", "use_lora"),
        FACT(A, "lora_r lora_rank", "lora.rank", "lora_rank"),
        FACT(A, "lora_alpha", "lora.alpha", "lora_alpha"),
        FACT(A, "lora_dropout", "lora.dropout", "lora_dropout"),
        FACT(A, "use_rslora", "lora.use_rslora", "use_rslora"),
        FACT(A, "lora_target_modules target_modules", "lora.target_modules", "targets"),
        ONLY(A, "lora_modules_to_save modules_to_save lora_target_parameters", "null",
                "nothing but the adapters is trained"),
        ONLY(A, "lora_bias bias", "none", "biases are not trained: a Llama has none"),
        ONLY(A, "lora_task_type", "CAUSAL_LM", "the model is a Llama that continues text"),
        ONLY(A, "use_dora", "false", "adapters are plain LoRA"),
        // data
        FACT(A, "dataset_name dataset_id train_file data_dir dataset_path data_path dataset training_dir",
                "data.train", "train"),
        FACT(A, "validation_file", "data.valid", "valid"),
        NONE(A,
                "dataset_config dataset_config_name dataset_train_split dataset_test_split dataset_text_field preprocessing_num_workers "
                "dataset_num_proc overwrite_cache keep_linebreaks streaming chat_template_path "
                "dataset_kwargs dataset_streaming remove_unused_columns dataloader_num_workers dataloader_pin_memory "
                "dataloader_prefetch_factor dataloader_prefetch_size dataloader_persistent_workers dataloader_in_order "
                "dataloader_multiprocessing_context pad_to_multiple_of group_by_length length_column_name label_names data_seed",
                "drover data build makes the set, and rows are read while the step before computes"),
        FACT(A, "dataloader_drop_last", "training.steps", "drop_last"),
        FACT(A, "packing", "data.pack", "packing"),
        FACT(A, "packing_strategy", "data.pack", "packing_strategy"),
        ONLY(A, "train_sampling_strategy", "random", "rows come in a seeded order"),
        CHANGES(A, "datasets",
                "it is not read: build a set of each, and give them by --set data.train"),
        CHANGES(A, "test_split_size", "give data.split by --set"),
        CHANGES(A, "max_train_samples max_eval_samples validation_split_percentage",
                "the whole set is trained on; build it of those records alone"),
        FACT(A, "completion_only_loss assistant_only_loss", "data.loss", "answers_only"),
        FACT(A, "beta", "dpo.beta", "dpo_beta"),
        SAME(A, "label_smoothing", "dpo.label_smoothing"),
        ONLY(A, "loss_type", "sigmoid nll chunked_nll", "tokens and DPO's sigmoid are learned"),
        ONLY(A, "f_divergence_type", "reverse_kl", "DPO has that of arXiv:2305.18290"),
        ONLY(A, "truncation_mode", "keep_start", "what is too long is cut off at its end"),
        NONE(A, "precompute_ref_log_probs precompute_ref_batch_size disable_dropout reference_free",
                "the reference's log-probabilities are always computed once"),
        NONE(A, "f_alpha_divergence_coef discopop_tau ref_model_mixup_alpha ref_model_sync_steps",
                "another option says whether it is used"),
        CHANGES(A, "rpo_alpha ld_alpha sync_ref_model use_weighting loss_weights max_prompt_length",
                "DPO has no such option"),
        CHANGES(A, "neftune_noise_alpha label_smoothing_factor shuffle_dataset",
                "drover has no such option"),
        // the loop and its files
        FACT(A, "output_dir model_checkpoint_path", "run_dir", "run_dir"),
        FACT(A, "save_strategy", "checkpoint.every", "save_strategy"),
        FACT(A, "save_steps checkpoint_freq checkpoint_frequency", "checkpoint.every",
                "save_every"),
        {"save_total_limit num_kept_checkpoint", "checkpoint.keep", NULL, A, FOREIGN_count, NULL},
        ONLY(A, "early_stopping_patience model_type", "null 0 llama",
                "a run trains all of its steps"),
        NONE(A,
                "checkpoint_dir save_checkpoint save_on_each_node save_only_model save_safetensors minimal_ckpt load_best_model_at_end model_final_path "
                "metric_for_best_model greater_is_better enable_jit_checkpoint use_master_weight_in_ckpt "
                "avoid_saving_lower_precision_weights",
                "a run always saves below run_dir: Hugging Face folders in safetensors"),
        FACT(A, "logging_steps logging_interval", "training.log_every", "log_every"),
        NONE(A,
                "logging_strategy logging_dir logging_first_step logging_nan_inf_filter report_to run_name tb_dir metrics_file "
                "log_level log_level_replica log_on_each_node log_rank0 disable_tqdm include_tokens_per_second "
                "include_num_input_tokens_seen enable_throughput_metrics enable_mfu_metrics enable_efficiency_metrics "
                "metrics_window_size print_grad_norm project trackio_* debug skip_memory_metrics",
                "a run directory always has log.txt, metrics.jsonl and tensorboard/"),
        FACT(A, "eval_strategy evaluation_strategy", "training.eval_every", "eval_strategy"),
        FACT(A, "eval_steps", "training.eval_every", "eval_every"),
        NONE(A,
                "per_device_eval_batch_size eval_accumulation_steps eval_on_start eval_delay eval_packing eval_do_concat_batches "
                "eval_use_gather_object batch_eval_metrics include_for_metrics prediction_loss_only",
                "evaluations take micro-batches as training does"),
        NONE(A,
                "do_train do_eval do_predict overwrite_output_dir resume_ckpt load_step load_epoch loading_step resume_from_checkpoint "
                "restore_callback_states_from_checkpoint push_to_hub hub_* ignore_data_skip skip_cache_push full_determinism",
                "drover train resumes what is in run_dir, and saves at its end; --fresh begins anew"),
};
const int n_foreign_args = sizeof foreign_args / sizeof *foreign_args;
