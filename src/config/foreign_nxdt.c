// Keys of NxD Training's YAML (aws-neuron/neuronx-distributed-training, examples/conf) and of
// neuronx-nemo-megatron's Hydra overrides, which it descends from.
#include "config/foreign_key.h"
#include "config/foreign_tables.h"

#define NXDT FOREIGN_NXDT
#define NEMO FOREIGN_NEMO
#define BOTH (FOREIGN_NXDT | FOREIGN_NEMO)

#define SAME(kinds, names, ours)                                                                   \
    { names, ours, NULL, kinds, FOREIGN_same, NULL }
#define NONE(kinds, names, why)                                                                    \
    { names, NULL, why, kinds, FOREIGN_none, NULL }
#define ONLY(kinds, names, well, why)                                                              \
    { names, NULL, why, kinds, FOREIGN_only, well }
#define FACT(kinds, names, ours, fact)                                                             \
    { names, ours, NULL, kinds, FOREIGN_fact, fact }

const foreign_key foreign_nxdt[] = {
        // top level
        NONE(BOTH, "name exp_manager.name", "a run is called by its run_dir"),
        FACT(NXDT, "model_source", NULL, "model_source"),
        SAME(BOTH, "seed model.seed", "training.seed"),
        NONE(NXDT,
                "compiler_flags compiler_cache_url aync_exec_max_inflight_requests bucket_size_collectives "
                "neuron_rt_exec_timeout neuron_experimental_compress_rg",
                "it is for Neuron's compiler and runtime; pjrt.* is for drover's back end"),
        // trainer
        FACT(BOTH, "trainer.devices", "parallel.data", "devices"),
        FACT(BOTH, "trainer.num_nodes", "parallel.data", "nodes"),
        NONE(NXDT, "trainer.lnc trainer.sequential_move_factor", "it is for Neuron devices"),
        FACT(BOTH, "trainer.max_epochs", "training.steps", "epochs"),
        FACT(BOTH, "trainer.max_steps", "training.steps", "steps"),
        SAME(BOTH, "trainer.log_every_n_steps", "training.log_every"),
        FACT(BOTH, "trainer.val_check_interval", "training.eval_every", "eval_every"),
        FACT(BOTH, "trainer.limit_val_batches", "training.eval_batches", "eval_batches"),
        ONLY(BOTH, "trainer.check_val_every_n_epoch", "null 1",
                "evaluations are by steps: training.eval_every"),
        NONE(BOTH, "trainer.num_sanity_val_steps trainer.limit_test_batches",
                "training does not test"),
        {"trainer.gradient_clip_val", "optimizer.clip_grad_norm", NULL, BOTH, FOREIGN_same, NULL},
        ONLY(BOTH, "trainer.accumulate_grad_batches", "1",
                "the batch sizes say how much is accumulated"),
        NONE(NEMO,
                "trainer.precision trainer.accelerator trainer.logger trainer.enable_checkpointing "
                "trainer.replace_sampler_ddp trainer.use_distributed_sampler trainer.benchmark "
                "trainer.enable_model_summary trainer.enable_progress_bar trainer.callbacks",
                "it is for PyTorch Lightning"),
        FACT(BOTH, "trainer.max_time", "training.max_minutes", "max_time"),
        // exp_manager
        FACT(BOTH, "exp_manager.explicit_log_dir exp_manager.exp_dir exp_manager.exp_log_dir",
                "run_dir", "run_dir"),
        NONE(BOTH,
                "exp_manager.log_local_rank_0_only exp_manager.log_global_rank_0_only exp_manager.log_step_timing "
                "exp_manager.create_tensorboard_logger exp_manager.log_parameter_norm exp_manager.log_gradient_norm "
                "exp_manager.create_wandb_logger exp_manager.create_mlflow_logger exp_manager.wandb_logger_kwargs.* "
                "exp_manager.enable_recovery_time_instrumentation exp_manager.files_to_copy exp_manager.summary_writer_kwargs.*",
                "a run directory always has log.txt, metrics.jsonl and tensorboard/"),
        NONE(BOTH, "exp_manager.resume_if_exists exp_manager.resume_ignore_no_checkpoint",
                "a run resumes by itself from the newest checkpoint in run_dir; there it is looked for only in the folder of "
                "the same Slurm job"),
        FACT(BOTH, "exp_manager.resume_from_checkpoint model.resume_from_checkpoint", "model.from",
                "pretrained"),
        FACT(BOTH, "exp_manager.create_checkpoint_callback", "checkpoint.every", "checkpoints"),
        NONE(BOTH, "exp_manager.disable_validation_on_resume",
                "evaluations follow training.eval_every"),
        {"exp_manager.ema.enable", NULL, "there is no moving average of weights", BOTH,
                FOREIGN_changes, NULL},
        NONE(BOTH, "exp_manager.ema.*", "exp_manager.ema.enable says whether there is one"),
        NONE(BOTH,
                "exp_manager.checkpoint_callback_params.monitor exp_manager.checkpoint_callback_params.mode "
                "exp_manager.checkpoint_callback_params.filename exp_manager.checkpoint_callback_params.save_last "
                "exp_manager.checkpoint_callback_params.model_parallel_size "
                "exp_manager.checkpoint_callback_params.save_on_train_epoch_end "
                "exp_manager.checkpoint_callback_params.save_nemo_on_train_end "
                "exp_manager.checkpoint_callback_params.enable_version_counter "
                "exp_manager.checkpoint_callback_params.always_save_nemo exp_manager.checkpoint_callback_params.verbose",
                "checkpoints are RUN_DIR/checkpoints/step-N, the newest are kept, the last step is always saved"),
        FACT(BOTH, "exp_manager.checkpoint_callback_params.save_top_k", "checkpoint.keep",
                "save_top_k"),
        FACT(BOTH, "exp_manager.checkpoint_callback_params.every_n_train_steps", "checkpoint.every",
                "save_every"),
        FACT(BOTH, "exp_manager.checkpoint_callback_params.every_n_epochs", "checkpoint.every",
                "save_epochs"),
        FACT(BOTH, "exp_manager.checkpoint_callback_params.train_time_interval",
                "checkpoint.every_minutes", "save_seconds"),
        NONE(BOTH,
                "exp_manager.checkpoint_callback_params.use_master_weights_in_ckpt exp_manager.save_xser exp_manager.load_xser "
                "exp_manager.async_checkpointing exp_manager.ckpt_ptl_version model.save_xser model.load_xser",
                "a checkpoint is a Hugging Face folder, written during the training, with fp32 weights where the run has them"),
        {"exp_manager.save_bf16", "training.save_dtype", NULL, BOTH, FOREIGN_map,
                "true=bf16 false=auto"},
        // distributed_strategy
        SAME(NXDT, "distributed_strategy.tensor_model_parallel_size", "parallel.tensor"),
        SAME(NXDT, "distributed_strategy.pipeline_model_parallel_size", "parallel.pipeline"),
        SAME(NXDT, "distributed_strategy.virtual_pipeline_model_parallel_size",
                "parallel.virtual_stages"),
        SAME(NXDT, "distributed_strategy.context_parallel_size", "parallel.context"),
        {"distributed_strategy.zero1 model.wrap_with_zero", "parallel.zero", NULL, BOTH,
                FOREIGN_map, "true=1 false=0"},
        SAME(NXDT, "distributed_strategy.sequence_parallel", "parallel.sequence"),
        NONE(NXDT, "distributed_strategy.kv_replicator",
                "tensor ranks beyond the key-value heads share them by themselves"),
        ONLY(BOTH,
                "distributed_strategy.expert_model_parallel_size model.expert_model_parallel_size",
                "1", "drover trains dense Llamas"),
        SAME(NEMO, "model.tensor_model_parallel_size", "parallel.tensor"),
        SAME(NEMO, "model.pipeline_model_parallel_size", "parallel.pipeline"),
        FACT(NEMO, "model.virtual_pipeline_model_parallel_size", "parallel.virtual_stages",
                "virtual_stages"),
        SAME(NEMO, "model.sequence_parallel", "parallel.sequence"),
        // data
        SAME(NXDT, "data.micro_batch_size", "training.micro_batch_size"),
        SAME(NXDT, "data.global_batch_size", "training.global_batch_size"),
        SAME(NEMO, "model.micro_batch_size", "training.micro_batch_size"),
        SAME(NEMO, "model.global_batch_size", "training.global_batch_size"),
        FACT(NXDT, "data.train_dir", "data.train", "train"),
        FACT(NXDT, "data.val_dir", "data.valid", "valid"),
        NONE(NXDT, "data.test_dir", "training does not test"),
        FACT(BOTH, "data.data_prefix model.data.data_prefix", "data.train", "blend"),
        FACT(BOTH, "data.splits_string model.data.splits_string", "data.split", "split"),
        FACT(BOTH, "data.seq_length model.data.seq_length", "data.sequence_length", "row_length"),
        {"data.dev_choose_samples", NULL,
                "the whole set is trained on; build it of the first records alone", NXDT,
                FOREIGN_changes, NULL},
        FACT(BOTH, "data.tokenizer.type model.tokenizer.type", "tokenizer", "tokenizer"),
        ONLY(BOTH, "data.tokenizer.library model.tokenizer.library", "huggingface",
                "a tokenizer is a folder with tokenizer.json"),
        ONLY(BOTH,
                "data.tokenizer.model data.tokenizer.vocab_file data.tokenizer.merge_file data.tokenizer.delimiter "
                "model.tokenizer.model model.tokenizer.vocab_file model.tokenizer.merge_file model.tokenizer.delimiter",
                "null", "a tokenizer is a folder with tokenizer.json"),
        NONE(BOTH,
                "data.tokenizer.sentencepiece_legacy data.tokenizer.use_fast model.tokenizer.sentencepiece_legacy model.tokenizer.use_fast",
                "a tokenizer is a folder with tokenizer.json"),
        {"data.dataset_name data.subset_name data.prompt_name", NULL,
                "prompts are made when the set is built: drover data build --sft --template", NXDT,
                FOREIGN_changes, NULL},
        FACT(NXDT, "data.packing", "data.pack", "packing"),
        NONE(NXDT, "data.use_sft_style_data_module", "data.train says what the set is"),
        NONE(BOTH,
                "data.index_mapping_dir data.data_impl data.skip_warmup data.num_workers model.data.index_mapping_dir "
                "model.data.data_impl model.data.skip_warmup model.data.num_workers",
                "the order of rows is computed, and rows are read while the step before computes"),
        ONLY(BOTH, "data.dataloader_type model.data.dataloader_type", "single cyclic",
                "rows come in a seeded order"),
        ONLY(BOTH,
                "data.reset_position_ids data.reset_attention_mask model.data.reset_position_ids model.data.reset_attention_mask",
                "false", "attention crosses documents, as data.pack: stream says"),
        ONLY(BOTH, "data.eod_mask_loss model.data.eod_mask_loss", "false",
                "each token of a document counts"),
        NONE(BOTH,
                "data.validation_drop_last data.no_seqlen_plus_one_input_tokens data.pad_samples_to_global_batch_size "
                "model.data.validation_drop_last model.data.no_seqlen_plus_one_input_tokens model.data.pad_samples_to_global_batch_size",
                "rows have sequence_length + 1 tokens, and batches are whole"),
        // model
        FACT(NXDT, "model.model_config", "model.hidden_size", "model_config"),
        FACT(BOTH, "model.encoder_seq_length", "data.sequence_length", "sequence_length"),
        SAME(BOTH, "model.max_position_embeddings", "model.max_position_embeddings"),
        SAME(BOTH, "model.num_layers", "model.num_hidden_layers"),
        SAME(BOTH, "model.hidden_size", "model.hidden_size"),
        SAME(BOTH, "model.ffn_hidden_size model.intermediate_size", "model.intermediate_size"),
        SAME(BOTH, "model.num_attention_heads", "model.num_attention_heads"),
        SAME(BOTH, "model.num_kv_heads model.num_key_value_heads model.num_query_groups",
                "model.num_key_value_heads"),
        SAME(BOTH, "model.kv_channels", "model.head_dim"),
        SAME(BOTH, "model.rope_theta model.rotary_base", "model.rope_theta"),
        SAME(BOTH, "model.init_method_std", "model.initializer_range"),
        SAME(BOTH, "model.layernorm_epsilon", "model.rms_norm_eps"),
        SAME(BOTH, "model.share_embeddings_and_output_weights", "model.tie_word_embeddings"),
        NONE(BOTH,
                "model.qkv_linear model.fuse_qkv model.transpose_nki_inputs model.use_emha model.use_cpu_initialization "
                "model.persist_layer_norm model.fusions.* model.apply_query_key_layer_scaling model.gradient_as_bucket_view "
                "model.native_amp_init_scale model.native_amp_growth_interval model.fp16_lm_cross_entropy model.tensor_model_init* "
                "model.onnx_safe model.gradient_accumulation_fusion model.bias_activation_fusion model.bias_dropout_add_fusion "
                "model.masked_softmax_fusion model.pre_process model.post_process model.transfer_with_static_ring "
                "model.use_flash_attention model.flash_attention model.headscale model.hysteresis "
                "model.grad_allreduce_chunk_size_mb model.grad_div_ar_fusion model.sync_batch_comm "
                "model.apex_transformer_log_level model.nsys_profile.*",
                "it says how the same is computed"),
        NONE(BOTH, "model.pipeline_cuts",
                "the layers are dealt out evenly; the last stage has one fewer, since it has the head"),
        NONE(NXDT, "model.save_logits", "it is for looking into a run"),
        FACT(NXDT, "model.weight_init_only", "model.from", "weight_init_only"),
        {"model.activations_checkpoint_granularity", "training.recompute", NULL, BOTH, FOREIGN_map,
                "selective=selective full=full null=none"},
        NONE(BOTH,
                "model.activations_checkpoint_recompute model.activations_checkpoint_recompute_mlp model.activations_checkpoint_method "
                "model.activations_checkpoint_num_layers model.num_micro_batches_with_partial_activation_checkpoints "
                "model.activations_checkpoint_layers_per_pipeline model.disable_layer_norm_checkpointing",
                "training.recompute chooses by op; it changes no value"),
        FACT(BOTH, "model.do_layer_norm_weight_decay", "optimizer.decay_norms", "decay_norms"),
        {"model.use_scaled_init_method", NULL,
                "all matrices begin with the same deviation here, those before a residual sum too",
                BOTH, FOREIGN_changes, NULL},
        ONLY(BOTH, "model.hidden_dropout model.attention_dropout model.ffn_dropout", "0 0.0",
                "there is no dropout but that of lora.dropout"),
        ONLY(BOTH, "model.normalization", "rmsnorm", "the model is a Llama"),
        ONLY(BOTH, "model.position_embedding_type", "rope", "the model is a Llama"),
        ONLY(BOTH, "model.rotary_percentage", "1 1.0", "the model is a Llama"),
        ONLY(BOTH, "model.activation", "swiglu", "the model is a Llama"),
        ONLY(BOTH, "model.transformer_block_type", "pre_ln", "the model is a Llama"),
        ONLY(BOTH, "model.has_bias model.bias", "false", "the model is a Llama"),
        SAME(BOTH, "model.sliding_window", "model.sliding_window"),
        NONE(BOTH, "model.make_vocab_size_divisible_by", "what is padded is no part of the model"),
        ONLY(NXDT, "model.moe.* model.num_moe_experts", "null", "drover trains dense Llamas"),
        FACT(NEMO, "model.megatron_amp_O2", "optimizer.master_dtype", "amp_O2"),
        FACT(NEMO, "model.zero_use_master_weight", "optimizer.master_dtype", "zero_masters"),
        FACT(NEMO, "model.zero_use_fp32_grad_accum", "training.grad_dtype", "fp32_grad_acc"),
        ONLY(NEMO, "model.fp32_residual_connection model.transformer_engine model.fp8", "false",
                "activations are in training.precision, bf16 or fp32"),
        NONE(NEMO, "model.fp8_*", "model.fp8 says whether it is used"),
        NONE(NEMO, "model.flexible_pipeline_parallel_stages",
                "the layers are dealt out evenly; the last stage has one fewer, since it has the head"),
        NONE(NEMO,
                "model.convert_to_hf model.output_dir model.config_path async_checkpointing "
                "enable_recovery_time_instrumentation enable_checkpoint_removal_protection",
                "a checkpoint is a Hugging Face folder, written during the training"),
        ONLY(NEMO, "restore_from_path model.restore_from_path", "null",
                "NeMo's own files are not read: give the Hugging Face folder by --set model.from=DIR"),
        ONLY(NEMO, "model.data.fine_tuning model.data.chat", "false",
                "examples become a set by drover data build --sft; give it by --data"),
        NONE(NEMO, "model.data.train_ds.* model.data.validation_ds.* model.data.test_ds.*",
                "it is for fine-tuning, which model.data.fine_tuning says"),
        FACT(NEMO, "model.peft.peft_scheme", "lora.rank", "use_lora"),
        FACT(NEMO, "model.peft.lora_tuning.adapter_dim", "lora.rank", "lora_rank"),
        FACT(NEMO, "model.peft.lora_tuning.adapter_dropout", "lora.dropout", "lora_dropout"),
        FACT(NEMO, "model.peft.lora_tuning.alpha", "lora.alpha", "lora_alpha"),
        ONLY(NEMO, "model.peft.restore_from_path model.peft.lora_tuning.layer_selection", "null",
                "adapters are at all layers, and begin anew: lora.adapter is a PEFT folder"),
        ONLY(NEMO, "model.peft.lora_tuning.weight_tying", "false",
                "each layer has adapters of its own"),
        NONE(NEMO, "model.peft.lora_tuning.*", "adapters begin as PEFT's do"),
        NONE(NEMO,
                "model.log_parameter_norm model.log_gradient_norm model.gradient_norm model.mcore_gpt",
                "a run always tells norms"),
        // optim
        FACT(BOTH, "model.optim.name", "optimizer.state_dtype", "optim"),
        SAME(BOTH, "model.optim.lr", "optimizer.lr"),
        FACT(BOTH, "model.optim.weight_decay", "optimizer.weight_decay", "weight_decay"),
        SAME(BOTH, "model.optim.betas", "optimizer.betas"),
        SAME(BOTH, "model.optim.eps", "optimizer.eps"),
        NONE(BOTH, "model.optim.capturable", "it is for CUDA graphs"),
        FACT(BOTH, "model.optim.sched.name", "schedule.type", "schedule"),
        FACT(BOTH, "model.optim.sched.warmup_steps", "schedule.warmup_steps", "warmup_steps"),
        FACT(BOTH, "model.optim.sched.max_steps", "training.steps", "schedule_steps"),
        SAME(BOTH, "model.optim.sched.min_lr", "schedule.min_lr"),
        FACT(BOTH, "model.optim.sched.constant_steps", "schedule.decay_steps", "constant_steps"),
        // precision
        FACT(NXDT, "precision.type", "training.precision", "precision"),
        FACT(NXDT, "precision.master_weights", "optimizer.master_dtype", "master_weights"),
        FACT(NXDT, "precision.fp32_grad_acc", "training.grad_dtype", "fp32_grad_acc"),
        FACT(NXDT, "precision.xla_use_bf16", "training.precision", "xla_use_bf16"),
        FACT(NXDT, "precision.xla_downcast_bf16", "training.precision", "xla_downcast_bf16"),
        NONE(NXDT, "precision.neuron_rt_stochastic_rounding_en",
                "what is kept in bf16 is always rounded stochastically"),
        NONE(NXDT, "precision.parallel_layers_reduce_dtype",
                "sums over ranks are in fp32, or in bf16 with training.grad_dtype"),
        // model_alignment_strategy
        FACT(NXDT, "model_alignment_strategy.sft.packing", "data.pack", "sft_packing"),
        FACT(NXDT, "model_alignment_strategy.peft.lora_rank", "lora.rank", "lora_rank"),
        FACT(NXDT, "model_alignment_strategy.peft.lora_alpha", "lora.alpha", "lora_alpha"),
        FACT(NXDT, "model_alignment_strategy.peft.lora_dropout", "lora.dropout", "lora_dropout"),
        ONLY(NXDT, "model_alignment_strategy.peft.lora_bias", "none",
                "biases are not trained: a Llama has none"),
        FACT(NXDT, "model_alignment_strategy.peft.target_modules", "lora.target_modules",
                "targets"),
        ONLY(NXDT, "model_alignment_strategy.peft.load_lora_from_ckpt", "false",
                "give the PEFT folder: --set lora.adapter=DIR"),
        NONE(NXDT,
                "model_alignment_strategy.peft.lora_verbose model_alignment_strategy.peft.save_lora_base "
                "model_alignment_strategy.peft.merge_lora model_alignment_strategy.peft.save_lora_config_adapter "
                "model_alignment_strategy.peft.merge_sharded_lora",
                "a checkpoint is a PEFT adapter that names its base; drover ckpt merge joins them"),
        FACT(NXDT, "model_alignment_strategy.dpo.kl_beta model_alignment_strategy.dpo.beta",
                "dpo.beta", "dpo_beta"),
        ONLY(NXDT, "model_alignment_strategy.dpo.loss_type", "sigmoid",
                "training.objective dpo has the sigmoid of arXiv:2305.18290"),
        NONE(NXDT, "model_alignment_strategy.dpo.precompute_ref_log_probs",
                "the reference's log-probabilities are always computed once"),
        {"model_alignment_strategy.dpo.max_prompt_length model_alignment_strategy.dpo.truncation_mode",
                "data.too_long",
                "cuts prompts by themselves; here a pair that does not fit a row is cut off at its end, or left out",
                NXDT, FOREIGN_changes, NULL},
        {"model_alignment_strategy.orpo model_alignment_strategy.orpo.*", NULL,
                "ORPO is not supported", NXDT, FOREIGN_never, NULL},
        NONE(BOTH, "hydra.* defaults", "it is for Hydra"),
};
const int n_foreign_nxdt = sizeof foreign_nxdt / sizeof *foreign_nxdt;
