// The tables of defaults: the values that each framework assumes for keys that a configuration
// leaves out, at a named version, with the file in which they stand. A word is "name=value" of a
// key of theirs; a key is "key=value" of ours, where they have none. If several tables apply, the
// first one that names a key counts.
#include <string.h>

#include "translate/translation.h"

// Hugging Face: src/transformers/training_args.py of transformers 5.24.0, TrainingArguments.
static const char *const transformers_words[] = {"learning_rate=5e-5", "weight_decay=0",
        "adam_beta1=0.9", "adam_beta2=0.999", "adam_epsilon=1e-8", "max_grad_norm=1.0",
        "optim=adamw_torch_fused", "lr_scheduler_type=linear", "warmup_steps=0",
        "num_train_epochs=3", "per_device_train_batch_size=8", "gradient_accumulation_steps=1",
        "bf16=false", "gradient_checkpointing=false", "seed=42", "logging_steps=500",
        "save_strategy=steps", "save_steps=500", "save_total_limit=null", "eval_strategy=no", NULL};
static const framework transformers = {"transformers 5.24.0", transformers_words, NULL};

// examples/pytorch/language-modeling/run_clm.py of transformers 5.24.0: group_texts joins all texts
// and cuts them every block_size tokens, and no mask keeps them apart.
static const char *const clm_words[] = {"block_size=1024", NULL};
static const char *const clm_keys[] = {"data.pack=stream", "data.loss=all", NULL};
static const framework clm = {"run_clm.py of transformers 5.24.0", clm_words, clm_keys};

// trl/trainer/base_config.py, sft_config.py, dpo_config.py and model_config.py of TRL 1.16.0. Where
// lora_target_modules is not said, PEFT 0.21.2 has q_proj and v_proj for a Llama
// (peft/utils/constants.py).
static const char *const trl_words[] = {"logging_steps=10", "gradient_checkpointing=true",
        "bf16=true", "dtype=float32", "max_length=1024", NULL};
static const framework trl = {"TRL 1.16.0", trl_words, NULL};
static const char *const sft_words[] = {"learning_rate=2e-5", "packing=false",
        "assistant_only_loss=false", NULL};
static const framework trl_sft = {"TRL 1.16.0, SFTConfig", sft_words, NULL};
static const char *const dpo_words[] = {"learning_rate=1e-6", "beta=0.1", "label_smoothing=0",
        "loss_type=sigmoid", NULL};
static const framework trl_dpo = {"TRL 1.16.0, DPOConfig", dpo_words, NULL};
static const char *const trl_lora_words[] = {"lora_r=16", "lora_alpha=32", "lora_dropout=0.05",
        "lora_target_modules=q_proj v_proj", NULL};
static const framework trl_lora = {"TRL 1.16.0, ModelConfig", trl_lora_words, NULL};

// optimum/neuron/trainers/training_args.py of Optimum Neuron 0.4.5, NeuronTrainingArguments; its
// other defaults are those of transformers.
static const char *const optimum_words[] = {"per_device_train_batch_size=1", "optim=adamw_torch",
        "zero_1=true", "optimizer_use_master_weights=true", "disable_sequence_parallel=false",
        "tensor_parallel_size=1", "pipeline_parallel_size=1", NULL};
static const framework optimum = {"Optimum Neuron 0.4.5", optimum_words, NULL};

// 3.test_cases/pytorch/optimum-neuron/llama3 of awsome-distributed-training (2025-06): train.py,
// which is peft_train.py of its Kubernetes part, and templates/launch_peft_train.yaml-template,
// which generate-jobspec.sh fills in.
static const char *const hyperpod_words[] = {"lora_r=16", "lora_alpha=16", "lora_dropout=0.05",
        "lora_target_modules=q_proj v_proj", "logging_steps=100", "packing=false",
        "assistant_only_loss=false", "max_seq_length=1024", NULL};
static const framework hyperpod = {"train.py of awsome-distributed-training", hyperpod_words, NULL};

// aws-neuron/neuronx-distributed 2.29, examples/training/llama/tp_pp_llama_hf_pretrain/
// run_llama_nxd.py: its rate follows lr.py, which is NeMo's cosine.
static const char *const pipelines_words[] = {"weight_decay=0.01", "beta1=0.9", "beta2=0.95",
        "seed=1234", "seq_len=4096", "tensor_parallel_size=8", "pipeline_parallel_size=1",
        "train_batch_size=16", "num_microbatches=8", "max_steps=100", "scheduler_type=cosine",
        "use_zero1_optimizer=0", "use_sequence_parallel=1", "use_selective_checkpoint=0",
        "logging_interval=1", "checkpoint_freq=100000", "num_kept_checkpoint=-1", NULL};
static const framework nxd_pipelines = {"run_llama_nxd.py of NxD 2.29", pipelines_words, NULL};

// The same, lightning/run_llama_nxd_ptl.py.
static const char *const nxd_words[] = {"lr=4e-4", "weight_decay=0.01", "beta1=0.9", "beta2=0.999",
        "warmup_steps=2000", "grad_accum_usteps=1", "train_batch_size=8", "seed=12349",
        "seq_len=4096", "tensor_parallel_size=2", "pipeline_parallel_size=1",
        "scheduler_type=linear", "use_zero1_optimizer=0", "use_sequence_parallel=1",
        "use_selective_checkpoint=0", "logging_interval=1", "checkpoint_freq=100000",
        "num_kept_checkpoint=10000", NULL};
static const framework nxd = {"run_llama_nxd_ptl.py of NxD 2.29", nxd_words, NULL};

// The same, tp_zero1_llama_hf_pretrain/tp_zero1_llama_hf_pretrain.py.
static const char *const zero1_words[] = {"lr=4e-4", "weight_decay=0.01", "beta1=0.9",
        "beta2=0.999", "warmup_steps=2000", "grad_accum_usteps=64", "batch_size=8", "seed=12349",
        "seq_len=2048", "tensor_parallel_size=2", "use_zero_1=false", "scheduler_type=linear",
        "sequence_parallel_enabled=false", "selective_checkpoint_enabled=false",
        "logging_interval=1", "checkpoint_freq=100000", "num_kept_checkpoint=-1", NULL};
static const framework nxd_zero1 = {"tp_zero1_llama_hf_pretrain.py of NxD 2.29", zero1_words, NULL};

// ai-on-eks (2024-08), ray_train_llama2.py.
static const char *const ray_words[] = {"lr=3e-4", "weight_decay=0.01", "beta1=0.9", "beta2=0.999",
        "warmup_steps=100", "max_steps=10000", "grad_accum_usteps=32", "batch_size=1",
        "tensor_parallel_size=8", "seq_len=4096", "seed=12349", "logging_interval=10",
        "scheduler_type=linear", NULL};
static const framework ray = {"ray_train_llama2.py of data-on-eks", ray_words, NULL};

// data-on-eks (2024-11), gen-ai/training/ray-ptl-llama3.1-pretrain-trn1: ray_train_llama3.py, whose
// nodes have 32 cores each, over run_llama_nxd_ptl.py.
static const char *const ray3_words[] = {"num_nodes=2", "nproc_per_node=32", NULL};
static const framework ray3 = {"ray_train_llama3.py of data-on-eks", ray3_words, NULL};
static const char *const ray3_bf16_keys[] = {"training.precision=bf16",
        "optimizer.master_dtype=bf16", "optimizer.state_dtype=bf16", "training.grad_dtype=bf16",
        "data.pack=stream", NULL};
static const char *const ray3_kept_keys[] = {"training.precision=bf16", "data.pack=stream", NULL};
static const framework ray3_bf16 = {"ray_train_llama3.py of data-on-eks", NULL, ray3_bf16_keys},
                       ray3_kept = {"ray_train_llama3.py of data-on-eks", NULL, ray3_kept_keys};

// The same, run_llama3.1_8b.sh if the file is not at hand: the options that it sets, and those that
// it adds to its command line.
static const char *const options_words[] = {"NEURON_NUM_DEVICES=32", "t=10000", "w=100", "l=1.5e-4",
        "s=2048", "n=2", "g=1024", "z=1", NULL};
static const char *const options_keys[] = {"parallel.tensor=32", "parallel.zero=1",
        "parallel.sequence=true", "training.recompute=selective", "schedule.type=linear",
        "schedule.warmup_like=transformers", "training.seed=12349", "optimizer.weight_decay=0.01",
        "optimizer.betas=[0.9, 0.999]", "training.precision=bf16", "optimizer.master_dtype=bf16",
        "optimizer.state_dtype=bf16", "training.grad_dtype=bf16", "data.pack=stream", NULL};
static const framework options = {"run_llama3.1_8b.sh of data-on-eks", options_words, options_keys};

// aws-neuron/neuronx-distributed-training 2.26: src/.../lightning_modules/model/base.py and
// optim/__init__.py; pytorch-lightning 2.5.0, Trainer; nemo_toolkit 2.1.0, CallbackParams.
static const char *const nxdt_words[] = {"seed=1234", "distributed_strategy.zero1=true",
        "distributed_strategy.sequence_parallel=false",
        "distributed_strategy.tensor_model_parallel_size=1",
        "distributed_strategy.pipeline_model_parallel_size=1", "trainer.gradient_clip_val=0",
        "trainer.log_every_n_steps=50", "model.optim.betas=[0.9, 0.999]", "model.optim.eps=1e-8",
        "model.optim.weight_decay=0.01", "model.optim.sched.name=null",
        "exp_manager.checkpoint_callback_params.save_top_k=3",
        "model.activations_checkpoint_granularity=null", NULL};
static const framework nxdt = {"NxD Training 2.26", nxdt_words, NULL};
// lightning_modules/nlp_overrides.py: LoraConfig.
static const char *const nxdt_lora_words[] = {"model_alignment_strategy.peft.lora_rank=16",
        "model_alignment_strategy.peft.lora_alpha=32",
        "model_alignment_strategy.peft.lora_dropout=0.05",
        "model_alignment_strategy.peft.target_modules=[qkv_proj]", NULL};
static const framework nxdt_lora = {"NxD Training 2.26", nxdt_lora_words, NULL};

// aws-neuron/neuronx-nemo-megatron 2.21: nemo/examples/nlp/language_modeling/conf/
// megatron_llama_config.yaml, which stands beside its scripts.
static const char *const nemo_words[] = {"trainer.max_steps=100000", "trainer.log_every_n_steps=10",
        "trainer.val_check_interval=100", "trainer.limit_val_batches=50",
        "trainer.gradient_clip_val=1.0", "model.micro_batch_size=4", "model.global_batch_size=8",
        "model.tensor_model_parallel_size=1", "model.pipeline_model_parallel_size=1",
        "model.init_method_std=0.02", "model.use_scaled_init_method=true",
        "model.layernorm_epsilon=1e-5", "model.do_layer_norm_weight_decay=false",
        "model.share_embeddings_and_output_weights=false", "model.seed=1234",
        "model.activations_checkpoint_granularity=selective", "model.sequence_parallel=true",
        "model.wrap_with_zero=false", "model.data.splits_string=980,10,10",
        "model.optim.name=adamw", "model.optim.lr=2e-4", "model.optim.weight_decay=0.01",
        "model.optim.betas=[0.9, 0.98]", "model.optim.sched.name=CosineAnnealing",
        "model.optim.sched.warmup_steps=500", "model.optim.sched.constant_steps=50000",
        "model.optim.sched.min_lr=2e-5", "exp_manager.checkpoint_callback_params.save_top_k=1",
        NULL};
static const framework nemo = {"megatron_llama_config.yaml of neuronx-nemo-megatron 2.21",
        nemo_words, NULL};

// Axolotl 0.19.0: utils/schemas (config.py, training.py, peft.py, validation.py) and
// core/builders/base.py. The warm-up and the log follow the steps (derive_schedule.c).
static const char *const axolotl_words[] = {"lr_scheduler=cosine", "optimizer=adamw_torch_fused",
        "weight_decay=0", "adam_beta1=0.9", "adam_beta2=0.999", "adam_epsilon=1e-8",
        "max_grad_norm=1.0", "micro_batch_size=1", "gradient_accumulation_steps=1",
        "num_epochs=1.0", "sequence_len=512", "sample_packing=false", "train_on_inputs=false",
        "excess_length_strategy=drop", "val_set_size=0", "bf16=auto",
        "gradient_checkpointing=false", "seed=42", "save_strategy=epoch", "save_total_limit=null",
        NULL};
static const framework axolotl = {"Axolotl 0.19.0", axolotl_words, NULL};

// --- which tables apply
// Finds a part of a name: "mlm" is one of run_mlm.py; parts are separated by "_", "-", "." and
// blanks.
static bool has_part(const char *name, const char *part) {
    const size_t n = strlen(part);
    for (const char *p = name; (p = strstr(p, part)); p++)
        if ((p == name || strchr("_-. ", p[-1])) && (!p[n] || strchr("_-. ", p[n]))) return true;
    return false;
}

static bool has_any(const char *name, const char *const *parts) {
    for (; *parts; parts++)
        if (has_part(name, *parts)) return true;
    return false;
}

// Returns whether the name is that of a task that drover does not train.
static bool is_other_task(const char *program) {
    static const char *const tasks[] = {"mlm", "plm", "fim", "glue", "xnli", "qa", "squad", "ner",
            "swag", "summarization", "translation", "seq2seq", "classification", "t5", "bert",
            "reward", "prm", "kto", "orpo", "cpo", "simpo", "bco", "xpo", "nash", "ppo", "rloo",
            "grpo", "gspo", "online", "gkd", "gold", "minillm", "distill", "distillation", "papo",
            "vllm", "speech", "asr", "ctc", "audio", "image", "vision", "vlm", "clip", "mae", "mim",
            "depth", "detection", "segmentation", "dreambooth", "diffusion", "embedding",
            "no_trainer", NULL};
    return has_any(program, tasks);
}

static bool has_flag(const shell_command *c, int index, const char *const *names) {
    for (int i = index + 1; i < c->n; i++)
        for (const char *const *name = names; *name; name++) {
            const char *word = c->words[i].text, *p = *name;
            if (!str_starts(word, "--")) continue;
            for (word += 2; *p && (*word == *p || (*word == '-' && *p == '_')); p++)
                word++;
            if (!*p && (!*word || *word == '=')) return true;
        }
    return false;
}

static void add(translation *self, const framework *table) {
    DRV_ASSERT(self->n_frameworks < MAX_FRAMEWORKS, "too many tables of defaults");
    self->frameworks[self->n_frameworks++] = table;
}

// Adds the tables of NxD's own scripts; false: the program is not one of them.
static bool add_nxd(translation *self) {
    const char *name = self->program;
    if (strcmp(name, "run_llama_nxd.py") == 0) {
        add(self, &nxd_pipelines);
    } else if (strcmp(name, "ray_train_llama3.py") == 0) {
        add(self, &ray3);
        add(self, fact_is_true(self, "masters") ? &ray3_kept : &ray3_bf16);
        add(self, &nxd);
    } else if (str_starts(name, "ray_train")) {
        add(self, &ray);
    } else if (str_starts(name, "tp_zero1")) {
        add(self, &nxd_zero1);
    } else if (program_is_nxd(self)) {
        add(self, &nxd);
    } else {
        return false;
    }
    return true;
}

bool program_is_trl(const translation *self) {
    const char *name = self->program;
    return str_starts(name, "trl") || has_part(name, "dpo") || has_part(name, "sft");
}

bool program_is_nxd(const translation *self) {
    return str_starts(self->program, "run_llama") || str_starts(self->program, "ray_train") ||
           str_starts(self->program, "tp_");
}

void defaults_of_kind(translation *self) {
    if (self->n_frameworks > 0) return;
    if (self->kinds & FOREIGN_OPTIONS) add(self, &options);
    if (self->kinds & FOREIGN_AXOLOTL) add(self, &axolotl);
    if (self->kinds & FOREIGN_NXDT) {
        if (fact_is_said(self, "lora_rank") || fact_is_said(self, "lora_alpha") ||
                fact_is_said(self, "lora_dropout") || fact_is_said(self, "targets"))
            add(self, &nxdt_lora);
        add(self, &nxdt);
    }
}

void defaults_of_nemo(translation *self) {
    add(self, &nemo);
}

drv_status defaults_of_program(translation *self, const shell_command *command, int index) {
    static const char *const optimum_names[] = {"tensor_parallel_size", "pipeline_parallel_size",
            "zero_1", "disable_sequence_parallel", "async_save", "kv_size_multiplier", "fuse_qkv",
            "num_local_ranks_per_step", "use_xser", "recompute_causal_mask",
            "optimizer_use_master_weights", "optimizer_use_fp32_grad_acc",
            "stochastic_rounding_enabled", "skip_cache_push", "tp_size", "pp_size", NULL};
    static const char *const hyperpod_names[] = {"tp_size", "pp_size", "model_checkpoint_path",
            "model_final_path", "checkpoint_frequency", NULL};
    const char *name = self->program;
    if (add_nxd(self)) return DRV_OK;
    const bool dpo = has_part(name, "dpo"), sft = has_part(name, "sft"),
               is_trl = program_is_trl(self);
    if (is_other_task(name) || (is_trl && !dpo && !sft))
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" trains something else than the next token or DPO's pairs, which is not "
                "supported; expected run_clm.py, trl sft, trl dpo or another program that does",
                command_place(self->a, command), name);
    if (is_trl) {
        add(self, dpo ? &trl_dpo : &trl_sft);
        if (fact_is_true(self, "use_lora")) add(self, &trl_lora);
        add(self, &trl);
    } else if (has_part(name, "clm")) {
        add(self, &clm);
    } else if (has_flag(command, index, hyperpod_names)) {
        add(self, &hyperpod);
    }
    if (has_flag(command, index, optimum_names)) add(self, &optimum);
    add(self, &transformers);
    if (self->n_frameworks > 1 || has_part(name, "train")) return DRV_OK;
    const value v = {.kind = VALUE_TEXT, .path = name, .where = command_place(self->a, command)};
    report_add(self, DIFFERS, &v,
            "is not known here: its options are taken as those of transformers' Trainer");
    return DRV_OK;
}
