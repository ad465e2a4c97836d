// Keys of other trainers are answered with ours.
#include "config/foreign_key.h"
#include "config_text.h"

typedef struct answered {
    const char *yaml, *ours;
} answered;

static void refuse_answered(const answered *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const refusal one = {cases[i].yaml, {"unknown key", cases[i].ours}};
        refuse_all(&one, 1);
    }
}

// One key of each kind from Hugging Face's Trainer, peft, Megatron-LM, NeMo, NxD Training and
// torchtitan.
TEST(other_trainers_keys_are_answered) {
    static const answered cases[] = {{"learning_rate: 1", "\"optimizer.lr\""},
            {"learning_rat: 1", "another trainer's \"learning_rate\"? here it is \"optimizer.lr\""},
            {"LEARNING-RATE: 1", "here it is \"optimizer.lr\""},
            {"grad_accum: 1", "another trainer's \"grad_accum_steps\"? here it is"},
            {"lr_schedular_type: 1", "here it is \"schedule.type\""},
            {"training: {per_device_train_batchsize: 1}", "\"training.micro_batch_size\""},
            {"seqlen: 1", "here it is \"data.sequence_length\""},
            {"gbs: 1", "here it is \"training.global_batch_size\""},
            {"bf-16: 1", "here it is \"training.precision\""},
            {"model: {num_layer: 1}", "here it is \"model.num_hidden_layers\""},
            {"optimizer: {lr_: 1}", "did you mean \"optimizer.lr\"?"},
            {"shave: 1", "expected one of those that drover config prints"},
            {"abc: 1", "expected one of those that drover config prints"},
            {"optimizer: {learning_rate: 1}", "\"optimizer.lr\""},
            {"gradient_accumulation_steps: 4", "\"training.global_batch_size\""},
            {"per_device_train_batch_size: 4", "\"training.micro_batch_size\""},
            {"train_batch_size: 4", "\"training.global_batch_size\""},
            {"micro_batch_size: 4", "\"training.micro_batch_size\""},
            {"global_batch_size: 4", "\"training.global_batch_size\""},
            {"max_steps: 4", "\"training.steps\""}, {"train_iters: 4", "\"training.steps\""},
            {"train-iters: 4", "\"training.steps\""},
            {"num_train_epochs: 4", "\"training.epochs\""},
            {"bf16: true", "\"training.precision\""}, {"fp16: true", "fp16 is not supported"},
            {"lora_r: 8", "here it is \"lora.rank\""},
            {"lora_alpha: 8", "here it is \"lora.alpha\""},
            {"lora: {target: [q]}", "lora.target_modules"},
            {"lora: {bias: all}", "nothing else is trained"},
            {"warmup_ratio: 0.1", "\"schedule.warmup_ratio\""},
            {"weight_decay: 0.1", "\"optimizer.weight_decay\""},
            {"adam_beta1: 0.9", "\"optimizer.betas\""}, {"adam_epsilon: 1e-8", "\"optimizer.eps\""},
            {"max_grad_norm: 1", "\"optimizer.clip_grad_norm\""},
            {"lr_scheduler_type: cosine", "\"schedule.type\""},
            {"min_lr: 0", "\"schedule.min_lr\""},
            {"max_seq_length: 512", "\"data.sequence_length\""},
            {"seq_length: 512", "\"data.sequence_length\""},
            {"gradient_checkpointing: true", "\"training.recompute\""},
            {"enable_activation_offloading: true", "\"training.offload\""},
            {"tensor_model_parallel_size: 2", "\"parallel.tensor\""},
            {"pipeline_model_parallel_size: 2", "\"parallel.pipeline\""},
            {"distributed_strategy: {tensor_model_parallel_size: 2}", "\"parallel.tensor\""},
            {"trainer: {devices: 2}", "\"parallel.data\""},
            {"trainer: {name: x, max_steps: 2}", "\"training.steps\""},
            {"model: {num_layers: 2}", "\"model.num_hidden_layers\""},
            {"model: {optim: {lr: 2}}", "\"optimizer.lr\""},
            {"optimizer: {name: Muon}", "\"optimizer.type\""},
            {"optim: adamw", "\"optimizer.type\""},
            {"muon-num-ns-steps: 5", "\"optimizer.muon_ns_steps\""},
            {"muon_momentum: 0.9", "\"optimizer.muon_momentum\""},
            {"matrix_lr: 0.02", "\"optimizer.lr\""},
            {"muon_tp_mode: blockwise", "whole, on any layout"},
            {"adjust_lr_fn: original", "match_rms_adamw"},
            {"checkpoint: {interval: 5}", "\"checkpoint.every\""},
            {"save_steps: 5", "\"checkpoint.every\""},
            {"save_total_limit: 5", "\"checkpoint.keep\""},
            {"logging_steps: 5", "\"training.log_every\""},
            {"eval_steps: 5", "\"training.eval_every\""}, {"output_dir: x", "\"run_dir\""},
            {"model_name_or_path: x", "\"model.from\""}, {"report_to: x", "metrics.jsonl"}};
    refuse_answered(cases, sizeof cases / sizeof *cases);
}

TEST(keys_of_litgpt_and_llama_factory_are_answered) {
    static const answered cases[] = {{"plot_loss: true", "drover plot RUN_DIR"},
            {"stage: sft", "here it is \"training.objective\" (dpo, or tokens for pt and sft"},
            {"template: llama3", "--template"},
            {"max_samples: 9", "build a set of only those records"},
            {"quantization_bit: 4", "\"model.base_dtype\""},
            {"use_muon: true", "\"optimizer.type\""},
            {"pure_bf16: true", "\"optimizer.master_dtype\""},
            {"neat_packing: true", "\"data.pack\""},
            {"eval: {max_iters: 9}", "\"training.eval_batches\""},
            {"eval: {interval: 9}", "\"training.eval_every\""},
            {"initial_checkpoint_dir: x", "\"model.from\""}};
    refuse_answered(cases, sizeof cases / sizeof *cases);
}

// Where the last part of a key says nothing, its section does.
TEST(units_of_samples_and_tokens_are_answered) {
    static const answered cases[] = {
            {"lr_warmup_samples: 9", "in steps: samples / training.global_batch_size"},
            {"lr-decay-samples: 9", "in steps: samples / training.global_batch_size"},
            {"warmup_tokens: 9", "in steps: tokens / (training.global_batch_size x data."},
            {"eval_samples: 9", "in batches: samples / training.global_batch_size"},
            {"eval_interval_samples: 9", "\"training.eval_every\" (in steps: samples /"},
    };
    refuse_answered(cases, sizeof cases / sizeof *cases);
}

TEST(other_trainers_sections_are_answered) {
    static const answered cases[] = {{"activation_checkpoint: {mode: full}",
                                             "\"training.recompute\""},
            {"zero_optimization: {stage: 1}", "\"parallel.zero\""},
            {"parallelism: {data_parallel_replicate_degree: 2}", "\"parallel.zero_group\""},
            {"parallelism: {data_parallel_shard_degree: 8}", "\"parallel.zero_group\""},
            {"num_distributed_optimizer_instances: 2", "\"parallel.zero_group\""},
            {"bf16: {enabled: true}", "\"training.precision\""},
            {"model: {name: llama3}", "\"model.preset\""},
            {"checkpoint: {folder: x}", "\"run_dir\""},
            {"training: {max_norm: 1}", "\"optimizer.clip_grad_norm\""},
            {"lr_scheduler: {decay_ratio: 0.2}", "\"schedule.decay_steps\""},
            {"validation: {freq: 5}", "\"training.eval_every\""},
            {"validation: {steps: 5}", "\"training.eval_batches\""},
            {"profiling: {enable_profiling: true}", "bench step --profile"},
            {"init_from: resume", "\"model.from\""}, {"decay_lr: true", "\"schedule.type\""},
            {"val_set_size: 100", "\"data.split\""},
            {"push_to_hub: true", "drover model push uploads"}};
    refuse_answered(cases, sizeof cases / sizeof *cases);
}

// One run names every key that is none, so that a file of another trainer needs one look.
TEST(all_unknown_keys_are_answered_at_once) {
    static const refusal cases[] = {
            {"trainer: {max_steps: 2, devices: 4}\nmodel: {optim: {lr: 1}, preset: tiny}\n",
                    {"run.yaml:1: unknown key \"trainer.max_steps\"",
                            "\"trainer.devices\" (here it is \"parallel.data\"",
                            "run.yaml:2: \"model.optim.lr\" (here it is \"optimizer.lr\")",
                            "drover config --from"}},
            {"adapter: lora\n", {"here it is \"lora.rank\""}},
            {"a1: 1\na2: 1\na3: 1\na4: 1\na5: 1\na6: 1\na7: 1\na8: 1\na9: 1\nb1: 1\nb2: 1\nb3: 1\nb4: "
             "1\n",
                    {"\"a1\"", "\"b3\"", "\"b4\""}},
    };
    REFUSE_ALL(cases);
}

// Every option of transformers, TRL, Optimum Neuron and Axolotl has a row that says what becomes of
// it. tools/translate_cases.py --names read the options from the frameworks' sources.
TEST(every_option_of_a_trainer_is_in_the_list) {
    FILE *file = fopen(golden_path(a, "trainer_keys.txt"), "r");
    char kind[16], name[64];
    int n = 0;
    assert_non_null(file);
    for (; fscanf(file, "%15s %63s", kind, name) == 2; n++)
        if (!foreign_find(strcmp(kind, "args") == 0 ? FOREIGN_ARGS : FOREIGN_AXOLOTL, name))
            fail_msg("%s: %s is in no table", kind, name);
    fclose(file);
    assert_true(n > 400);
}
