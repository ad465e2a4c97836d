// Configurations as people write them: wrong ones give one line with file, line, key, value,
// expectation and a way on; right ones give what they say.
#include <time.h>

#include "config_text.h"

TEST(values_out_of_range_are_refused) {
    static const refusal cases[] = {
            {TINY "training: {steps: many}\n",
                    {"run.yaml:2", "training.steps", "many", "a whole number of at least 0"}},
            {TINY "training:\n  eval_every: 5\n  steps: 1.5\n",
                    {"run.yaml:4", "1.5", "a whole number"}},
            {TINY "training: {steps: [3]}\n", {"training.steps", "a list of 1", "a whole number"}},
            {TINY "optimizer: {lr: -1}\n", {"optimizer.lr", "-1", "a number from 0 to 1000"}},
            {TINY "optimizer: {lr: nan}\n", {"optimizer.lr", "nan"}},
            {TINY "optimizer: {lr: {peak: 1}}\n", {"optimizer.lr", "a section", "a number"}},
            {TINY "optimizer: {betas: [0.9, 1.5]}\n", {"betas[1]", "1.5", "0.9999999"}},
            {TINY "optimizer: {betas: [0.9]}\n", {"optimizer.betas", "a list of 1", "2 numbers"}},
            {TINY "optimizer: {betas: 0.9}\n", {"optimizer.betas", "0.9", "a list of 2 numbers"}},
            {TINY "optimizer: {betas: [0.9, null]}\n", {"betas[1]", "empty"}},
            {TINY "training: {precision: fp16}\n", {"fp16", "bf16, fp32 or fp8"}},
            {TINY "training: {precision: [bf16]}\n", {"precision", "a list of 1"}},
            {TINY "backend: gpu\n", {"run.yaml:2", "backend", "gpu", "cpu"}},
            {TINY "parallel: {context: 2}\ndata: {sequence_length: 62}\n",
                    {"run.yaml:3", "data.sequence_length", "62", "a multiple of 4"}},
            {TINY "parallel: {virtual_stages: 2}\n",
                    {"run.yaml:2", "parallel.virtual_stages", "2", "parallel.pipeline above 1"}},
            {TINY "parallel: {pipeline: 2, schedule: 1f1b, virtual_stages: 2}\n",
                    {"run.yaml:2", "parallel.virtual_stages", "schedule: interleaved"}},
            {TINY "parallel: {schedule: banana}\n", {"parallel.schedule", "banana", "zb-h1"}},
            {TINY "parallel: {zero: banana}\n", {"parallel.zero", "banana"}},
            {TINY "parallel: {data: some}\n", {"parallel.data", "some", "auto or a whole number"}},
            {TINY "parallel: {sequence: 2}\n", {"parallel.sequence", "true or false"}},
            {TINY "data: TinyLlama\nabc: 1\n",
                    {"run.yaml:2: \"data\" is", "TinyLlama", "keys below it, as data.", "\"abc\""}},
            {TINY "tokenizer: [a]\n", {"tokenizer", "a list of 1", "expected text"}},
            {TINY "data: {train: [{weight: 1}]}\n", {"data.train[0]", "no prefix"}},
            {TINY "data: {train: [a, [b]]}\n", {"data.train[1]", "a list of 1"}},
            {TINY "data: {train: [{prefix: a, weight: -1}]}\n", {"train[0].weight", "-1"}},
            {TINY "data: {train: [{prefix: a, weight: 0}]}\n", {"data.train", "weight above 0"}},
            {TINY "data: {train: [{prefix: a, wait: 1}]}\n",
                    {"run.yaml:2", "data.train[0].wait", "prefix and weight"}},
            {TINY "training: {seed: 18446744073709551615}\n",
                    {"training.seed", "of at least 0 and at most 9000000000000000"}},
            {TINY "data: {split: [1, 2]}\n", {"data.split", "a list of 3 numbers"}},
            {TINY "data: {split: [0, 0, 0]}\n", {"run.yaml:2", "data.split", "above 0", "or []"}},
            {"model: {preset: tiny, bos_token_id: x}\n", {"bos_token_id", "a whole number"}},
            {"model: {preset: tiny, eos_token_id: [1, -2]}\n", {"eos_token_id[1]", "-2"}},
    };
    REFUSE_ALL(cases);
}

TEST(keys_in_conflict_are_named) {
    static const refusal cases[] = {
            {TINY "training: {global_batch_size: 9, micro_batch_size: 2}\n",
                    {"run.yaml:2", "global_batch_size", "9", "multiple of micro_batch_size 2"}},
            {"model: {preset: tiny, num_key_value_heads: 3}\n",
                    {"model.num_key_value_heads is 3", "num_attention_heads 8"}},
            {"model: {hidden_size: 100, vocab_size: 10, intermediate_size: 8, num_hidden_layers: 1, "
             "num_attention_heads: 3}\n",
                    {"num_attention_heads is 3", "hidden_size 100", "model.head_dim"}},
            {"model: {preset: tiny, sliding_window: 513}\n",
                    {"model.sliding_window is 513", "max_position_embeddings 512", "or null"}},
            {"model: {preset: tiny, sliding_window: 8, max_window_layers: 1}\n",
                    {"model.max_window_layers is 1", "expected 0"}},
            {"model: {preset: qwen3-0.6b, qkv_bias: true}\n",
                    {"model.qkv_bias and model.qk_norm are true", "one of them"}},
            {"model: {preset: smollm3-3b, qk_norm: true}\n",
                    {"model.no_rope_layer_interval is 4", "expected null", "model.qk_norm"}},
            {"model: {hidden_size: 100}\n", {"no model.vocab_size", "a whole number from 1"}},
            {TINY "data: {sequence_length: 4096}\n", {"sequence_length", "4096", "512"}},
            {"training: {steps: 1}\n", {"run.yaml: no model", "model.preset", "model.from"}},
            {"model:\n  preset: tiny\n  from: /x\n",
                    {"run.yaml:3", "run.yaml:2", "exclude each other"}},
            {"model: {preset: tiny, weights: load}\n", {"model.weights", "needs model.from"}},
            {TINY "training: {steps: 5, epochs: 2}\n",
                    {"run.yaml:2: training.epochs 2", "training.steps 5", "exclude each other"}},
            {TINY "training: {epochs: 0}\n", {"training.epochs", "a number from 1e-06"}},
            {TINY "schedule: {warmup_steps: 0, warmup_ratio: 0.1}\n",
                    {"schedule.warmup_ratio 0.1", "schedule.warmup_steps 0", "exclude each other"}},
            {TINY "schedule: {warmup_ratio: 1.5}\n", {"warmup_ratio", "a number from 0 to 1"}},
            {TINY "schedule: {min_lr: 1}\n", {"run.yaml:2", "min_lr", "at most optimizer.lr"}},
            {TINY "schedule: {type: constant, decay_steps: 5}\n",
                    {"decay_steps", "5", "constant", "no decay"}},
            {TINY "data: {train: a, valid: b, split: [9, 1, 0]}\n",
                    {"data.valid", "data.split", "exclude each other"}},
            {TINY "data: {train: a, split: [0, 1, 0]}\n", {"data.split", "a share to train on"}},
            {"model: {preset: tiny, rope_scaling: {factor: 4}}\n",
                    {"model.rope_scaling.factor", "rope_type: llama3"}},
            {"model: {preset: tiny, rope_scaling: {rope_type: llama3, factor: 4}}\n",
                    {"rope_scaling", "low_freq_factor 0", "original_max_position_embeddings 0"}},
            {"model: {preset: tiny, rope_scaling: {rope_type: yarn}}\n",
                    {"rope_type", "yarn", "default or llama3"}},
            {"model: {preset: tiny, bos_token_id: 512}\n",
                    {"model.bos_token_id is 512", "0 to 511", "vocab_size is 512"}},
            {"model: {preset: tiny, eos_token_id: [1, 600]}\n", {"eos_token_id is 600"}},
            {"model: {preset: tiny, pad_token_id: 512}\n", {"pad_token_id is 512"}},
            {"model: {preset: tiny, max_position_embeddings: 4096}\n"
             "training: {micro_batch_size: 1048576, global_batch_size: 1048576}\n"
             "data: {sequence_length: 2048}\n",
                    {"run.yaml:2", "micro_batch_size 1048576", "sequence_length 2048", "2^30"}},
            {TINY "lora: {rank: 4, alpha: 0}\n",
                    {"run.yaml:2", "lora.alpha", "0", "the adapters would add nothing"}},
            {TINY "lora: {adapter: x, rank: 0}\n", {"lora.adapter", "there is no LoRA"}},
    };
    REFUSE_ALL(cases);
}

TEST(offload_needs_a_device) {
    static const refusal cases[] = {
            {TINY "training: {offload: activations}\n",
                    {"run.yaml:2", "training.offload",
                            "backend cpu has no memory beside the host's",
                            "training.recompute full"}},
            {TINY "training: {offload: all}\n",
                    {"run.yaml:2", "\"training.offload\" is \"all\"", "none", "activations"}},
    };
    REFUSE_ALL(cases);
}

TEST(groups_that_do_not_divide_are_named) {
    static const refusal cases[] = {
            {TINY "training: {global_batch_size: 4}\nparallel: {accumulation_groups: 3}\n",
                    {"run.yaml:3", "accumulation_groups", "is 3", "divisor of the 4"}},
            {TINY "parallel: {data: 2, accumulation_groups: 1}\n",
                    {"accumulation_groups", "is 1", "a multiple of the 2 data-parallel ranks"}},
            {TINY "parallel: {data: 2, zero_group: 1}\n",
                    {"run.yaml:2", "zero_group\" is 1", "parallel.zero is 1", "expected zero 3"}},
            {TINY "parallel: {data: 4, zero: 3, zero_group: 3}\n",
                    {"zero_group\" is 3", "a divisor of the 4 data-parallel ranks"}},
            {TINY "parallel: {data: 4, zero: 3, zero_group: 1, accumulation_groups: 2}\n"
                  "training: {global_batch_size: 8}\n",
                    {"accumulation_groups\" is 2", "a multiple of the 4 groups"}},
    };
    REFUSE_ALL(cases);
}

TEST(files_that_are_no_configuration) {
    static const refusal cases[] = {
            {"model:\n  preset: tiny\ntraining:\n\tsteps: 3\n",
                    {"run.yaml:4: a tab, expected spaces for indentation"}},
            {"model:\n\tpreset: tiny\n", {"run.yaml:2: a tab"}},
            {"model: {preset: tiny\n", {"run.yaml:", "not YAML", "a brace { is not closed"}},
            {TINY "run_dir: a: b\n", {"run.yaml:2", "quotes"}},
            {TINY "tokenizer: @x\n", {"run.yaml:2", "quotes"}},
            {"- a\n- b\n", {"run.yaml:1", "expected keys and values, found a list of 2"}},
            {"tiny\n", {"run.yaml:1", "expected keys and values, found \"tiny\""}},
            {TINY TINY, {"run.yaml:2", "\"model\"", "given twice", "run.yaml:1"}},
            {TINY "training: {steps: 3}\ntraining.steps: 4\n",
                    {"run.yaml:3", "\"training.steps\"", "given twice", "run.yaml:2"}},
            {TINY "---\ntraining: {steps: 3}\n", {"run.yaml:3", "a second document"}},
            {"tokenizer: \"a\\0b\"\n", {"run.yaml:1", "NUL"}},
            {"? [a]\n: b\n", {"run.yaml:1", "a '?' before a key"}},
            {TINY "data: {?foo: bar}\n", {"run.yaml:2", "a '?' before a key"}},
            {TINY "run_dir: |\n  x\n ", {"run.yaml:2", "a block of text"}},          // L24T/01
            {TINY "run_dir: &an:chor x\n", {"run.yaml:2", "the name of an anchor"}}, // Y2GN
            {TINY "data: {train: [a,\nb]}\n", {"run.yaml:3", "indented more than the key"}}, // 9C9N
            {TINY "run_dir: \"bar\n\tbaz\"\n", {"run.yaml:2", "in quotes goes on"}},  // DK95/01
            {TINY "run_dir: 'a\nb'\n", {"run.yaml:2", "in quotes goes on"}},          // QB6E
            {"%YAML 1.1#x\n---\n" TINY, {"run.yaml:1", "a directive"}},               // MUS6/00
            {TINY "run_dir: >\n    \n  x\n", {"run.yaml:2", "a block of text"}},      // S98Z
            {TINY "run_dir: \"\u00e9\"# no\n", {"run.yaml:2", "a '#' right behind"}}, // SU5Z
            {TINY "run_dir: ># x\n  x\n", {"run.yaml:2"}},                            // X4QW
            {TINY "training: {steps: !!str 5}\n", {"run.yaml:2", "a tag (!)"}},
            {TINY "run_dir: !local x\n", {"run.yaml:2", "a tag (!)"}},
            {"!!map\nmodel: {preset: tiny}\n", {"run.yaml:1", "a tag (!)"}},
            {TINY "run_dir: ! x\n", {"run.yaml:2", "a tag (!)"}},
            {"x: &x {preset: tiny}\nmodel:\n  <<: *x\n", {"run.yaml:3", "a merge key (<<)"}},
            {TINY "training: {steps: 017}\n", {"run.yaml:2", "\"017\"", "without a 0 in front"}},
            {TINY "training: {seed: -00}\n", {"run.yaml:2", "\"-00\"", "without a 0 in front"}},
            {TINY "optimizer: {lr: 010}\n", {"run.yaml:2", "\"010\"", "without a 0 in front"}},
            {TINY "optimizer: {lr: 0x1p-9}\n", {"run.yaml:2", "\"0x1p-9\"", "a number"}},
            {TINY "optimizer: {lr: 0x0}\n", {"run.yaml:2", "\"0x0\"", "a number"}},
            {"\xFF\xFEm\0", {"run.yaml:1", "UTF-16"}},
            {TINY "optimizer: {lr: 1e-400}\n", {"run.yaml:2", "optimizer.lr", "1e-400"}},
            {TINY "optimizer: {lr: 1e400}\n", {"run.yaml:2", "optimizer.lr", "1e400"}},
            {"&model:\n  preset: llama-15m\n", {"run.yaml:1", "the name of an anchor"}},
            {"\"\\0a\": 1\n", {"run.yaml:1", "the name of a key", "NUL byte"}},
            {"a: {b: {c: {d: {e: {f: {g: {h: {i: {j: 1}}}}}}}}}\n", {"nested deeper than 8"}},
            {"model: &m {preset: *m}\n", {"run.yaml:1"}},
            {"model: tiny\n", {"run.yaml:1", "\"model\" is \"tiny\"", "model.preset"}},
            {TINY "training: 5\n", {"run.yaml:2", "\"training\"", "training.steps"}},
            {TINY "tokenizer: \xFF\n", {"run.yaml", "UTF-8"}},
    };
    run_config cfg;
    REFUSE_ALL(cases);
    FAILS(config_load(a, temporary_dir(a), NULL, 0, &cfg), DRV_E_USAGE,
            "is a folder, expected a config, a file in YAML");
}

// Refused while it is read: ten seconds and more went into each before. The limit of processor time
// is a thousand times what it takes.
TEST(deep_files_are_refused_at_once) {
    enum { DEPTH = 50000 };
    static const char *const openings[] = {"[", "{a: ", "- ", "[{a: "};
    run_config cfg;
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        str text = {0};
        for (int k = 0; k < DEPTH; k++)
            str_puts(&text, openings[i]);
        const clock_t begin = clock();
        FAILS(load(a, text.p, &cfg), DRV_E_USAGE, "run.yaml:1: nested deeper than 64 levels");
        assert_true((clock() - begin) / CLOCKS_PER_SEC < 1);
        str_free(&text);
    }
}

TEST(slips_of_the_keyboard) {
    static const refusal cases[] = {
            {TINY "training:\n  stepz: 5\n", {"run.yaml:3", "\"training.stepz\"", "\"5\"",
                                                     "did you mean \"training.steps\""}},
            {"model: {preset: tinny}\n",
                    {"run.yaml:1", "tinny", "llama-3.1-405b", "did you mean \"tiny\""}},
            {TINY "training: {lr: 1}\n", {"did you mean \"optimizer.lr\""}},
            {TINY "lr: 1\n", {"did you mean \"optimizer.lr\""}},
            {TINY "training: {warmup_steps: 1}\n", {"did you mean \"schedule.warmup_steps\""}},
            {TINY "optimizer: {clip_gradnorm: 1}\n", {"did you mean \"optimizer.clip_grad_norm\""}},
            {TINY "training: {log: 1}\n", {"did you mean \"training.log_every\""}},
            {TINY "trainning: {steps: 3}\n", {"\"trainning.steps\"", "\"training.steps\""}},
            {TINY "tokeniser: x\n", {"did you mean \"tokenizer\""}},
            {TINY "banana: 3\n", {"\"banana\"", "drover config prints"}},
            {"model: {preset: tiny, rope_scaling: {factr: 4}}\n",
                    {"did you mean \"model.rope_scaling.factor\""}},
    };
    REFUSE_ALL(cases);
}

// A folder with these files, each of the given text.
static const char *folder_with(arena *a, const char *const *names, const char *text) {
    const char *dir = temporary_dir(a);
    for (; *names; names++)
        OK(file_write_atomic(path_join(a, dir, *names), text, strlen(text)));
    return dir;
}

static const char shape[] = "{\"vocab_size\": 32, \"hidden_size\": 8, \"intermediate_size\": 8, "
                            "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
                            "\"bos_token_id\": 1, \"eos_token_id\": [2, 3], \"pad_token_id\": 0}";

TEST(model_from_a_folder_that_is_none) {
    const char *run = temporary_dir(a);
    OK(dir_make(path_join(a, run, "checkpoints")));
    const char *pickled =
            folder_with(a, (const char *const[]){"config.json", "last.ckpt", NULL}, shape);
    const struct {
        const char *from, *says;
    } cases[] = {{"/nowhere", "\"/nowhere\", which is neither a folder nor a file"},
            {"meta-llama/Llama-3.1-8B", "drover model get hf:meta-llama/Llama-3.1-8B"},
            {"https://huggingface.co/org/name", "drover model get hf:org/name"},
            {folder_with(a, (const char *const[]){NULL}, ""), "no config.json"},
            {run, "a run directory, expected one of its checkpoints: drover ckpt list /"},
            {path_join(a, pickled, "config.json"),
                    "is not a model, expected a Hugging Face folder"},
            {path_join(a, folder_with(a, (const char *const[]){"m $x.gguf", NULL}, ""),
                     "m $x.gguf"),
                    "m $x.gguf' --out DIR"},
            {folder_with(a, (const char *const[]){"params.json", "consolidated.00.pth", NULL},
                     "{}"),
                    "params.json: \"dim\" is missing"},
            {pickled, "give its own path, with config.json in the same folder: "},
            {path_join(a, pickled, "last.ckpt"), "is not a file of torch.save"},
            {folder_with(a, (const char *const[]){"config.json", NULL}, "{\"vocab_size\": \"x\"}"),
                    "config.json: key \"vocab_size\" is \"x\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const refusal one = {arena_printf(a, "model:\n  from: %s\n", cases[i].from),
                {"run.yaml:2", "model.from", cases[i].says}};
        refuse_all(&one, 1);
    }
    run_config cfg;
    OK(load(a, arena_printf(a, "model: {from: %s, weights: random}\n", pickled), &cfg));
    const char *both = folder_with(a,
            (const char *const[]){"config.json", "model.safetensors", "training_args.bin", NULL},
            shape);
    OK(load(a, arena_printf(a, "model: {from: %s}\n", both), &cfg));
    const char *torch =
            folder_with(a, (const char *const[]){"config.json", "pytorch_model.bin", NULL}, shape);
    OK(load(a, arena_printf(a, "model: {from: %s}\n", torch), &cfg));
}

TEST(weights_and_ids_come_with_model_from) {
    const char *from = folder_with(a,
            (const char *const[]){"config.json", "tokenizer.json", "model.safetensors", NULL},
            shape);
    const char *other = temporary_dir(a);
    run_config cfg;
    OK(load(a, arena_printf(a, "model: {from: %s}\n", from), &cfg));
    assert_true(config_loads_weights(&cfg));
    assert_string_equal(cfg.tokenizer, from);
    assert_int_equal(cfg.model.n_eos, 2);
    assert_int_equal(cfg.model.pad_token_id, 0);

    OK(load(a, arena_printf(a, "model: {from: %s, weights: random}\n", from), &cfg));
    assert_false(config_loads_weights(&cfg));

    // The same tokenizer under another name, then another one: its ids are not those of config.json.
    OK(load(a, arena_printf(a, "model: {from: %s}\ntokenizer: %s/.\n", from, from), &cfg));
    assert_int_equal(cfg.model.bos_token_id, 1);
    OK(load(a, arena_printf(a, "model: {from: %s, pad_token_id: 5}\ntokenizer: %s\n", from, other),
            &cfg));
    assert_string_equal(cfg.tokenizer, other);
    assert_int_equal(cfg.model.bos_token_id, -1);
    assert_int_equal(cfg.model.n_eos, 0);
    assert_int_equal(cfg.model.pad_token_id, 5);

    OK(load(a, arena_printf(a, "model: {from: %s}\ntokenizer: %s\n", from, other), &cfg));
    assert_int_equal(cfg.model.pad_token_id, -1);

    OK(load(a, TINY, &cfg)); // a preset has a shape, no tokenizer
    assert_false(config_loads_weights(&cfg));
    assert_int_equal(cfg.model.bos_token_id, -1);
    assert_int_equal(cfg.model.n_eos, 0);
}

TEST(right_configs) {
    static const char *const cases[] = {TINY,
            "model: {preset: llama-3.1-8b}\n"
            "data: {train: [{prefix: a, weight: 2}, {prefix: b}, c], split: [969, 30, 1]}\n"
            "optimizer: {betas: [0.8, 0.9]}\n",
            TINY
            "parallel: {tensor: 1, sequence: true, pipeline: 1, context: 1, data: auto, zero: 1}\n",
            TINY "training: null\ndata: {train: {prefix: a, weight: 2}, valid: null}\n",
            "model: {preset: llama-3.1-8b, rope_scaling: null, bos_token_id: null, eos_token_id: 5}\n",
            "# nothing but a model\n\nmodel.preset: tiny\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        OK(load(a, cases[i], &cfg));
    }
}

// What follows from other keys, and from the processes that were started.
TEST(defaults_that_depend_on_others) {
    run_config cfg;
    OK(load(a, TINY "lora: {dropout: 0.1}\n", &cfg));
    assert_int_equal(cfg.lora.rank, 8);
    assert_true(cfg.lora.alpha == 8);
    assert_int_equal(cfg.lora.n_target_modules, 2);
    OK(load(a, TINY "lora: {rank: 4}\n", &cfg));
    assert_true(cfg.lora.alpha == 4);
    OK(load(a, TINY, &cfg));
    assert_int_equal(cfg.lora.rank, 0);
    OK(load(a, TINY "parallel: {data: 2}\n", &cfg));
    OK(config_set_ranks(&cfg, 2));
    assert_int_equal(cfg.n_accum_groups, 2);
    FAILS(config_set_ranks(&cfg, 4), DRV_E_USAGE,
            "key \"parallel.data\" is 2, but 4 ranks were started, expected mpirun -n 2");
    FAILS(config_set_ranks(&cfg, 1), DRV_E_USAGE, "but 1 rank was started");
}

TEST(overrides_replace_what_the_file_says) {
    const char *path = path_join(a, temporary_dir(a), "run.yaml");
    const char yaml[] = TINY "data:\n  train: [a, b, c]\ntraining: {steps: 3}\n";
    OK(file_write_atomic(path, yaml, sizeof yaml - 1));
    run_config cfg;
    OK(config_load(a, path, NULL, 0, &cfg));
    assert_int_equal(cfg.n_train, 3);
    assert_non_null(strstr(cfg.train[1].where, "run.yaml:3"));
    assert_non_null(strstr(config_where(&cfg, "data.train"), "run.yaml:3"));
    assert_string_equal(config_where(&cfg, "tokenizer"), path);
    const char *sets[] = {"training.steps=7", "data.train=[d, {prefix: e, weight: 2}]",
            "training.steps=9", "model={preset: llama-15m}"};
    OK(config_load(a, path, sets, 4, &cfg));
    assert_int_equal(cfg.steps, 9);
    assert_int_equal(cfg.n_train, 2);
    assert_string_equal(cfg.train[0].prefix, "d");
    assert_true(cfg.train[1].weight == 2);
    assert_string_equal(config_where(&cfg, "data"), "--set");
    assert_int_equal(cfg.model.hidden_size, 288);
    FAILS(config_load(a, path, (const char *[]){"training.stepz=7"}, 1, &cfg), DRV_E_USAGE,
            "--set: unknown key \"training.stepz\"");
    FAILS(config_load(a, path, (const char *[]){"model.num_key_value_heads=3"}, 1, &cfg),
            DRV_E_USAGE, "--set: model.num_key_value_heads is 3");
    FAILS(config_load(a, NULL, (const char *[]){"training.steps=7"}, 1, &cfg), DRV_E_USAGE,
            "no model");
    FAILS(config_load(a, NULL, (const char *[]){"steps"}, 1, &cfg), DRV_E_USAGE,
            "expected KEY=VALUE");
    FAILS(config_load(a, NULL, (const char *[]){"data.train=[a"}, 1, &cfg), DRV_E_USAGE,
            "--set data.train=[a: not YAML");
    static const char *const comments[] = {"run_dir=#a", "run_dir=a #b", "run_dir='a' #b",
            "data.train=[a] # b"};
    for (size_t i = 0; i < sizeof comments / sizeof *comments; i++)
        FAILS(config_load(a, path, &comments[i], 1, &cfg), DRV_E_USAGE, "a comment (#)");
    OK(config_load(a, path, (const char *[]){"run_dir=a#b"}, 1, &cfg));
    assert_string_equal(cfg.run_dir, "a#b");
    OK(config_load(a, path, (const char *[]){"run_dir=\"a #b\""}, 1, &cfg));
    assert_string_equal(cfg.run_dir, "a #b");
    FAILS(config_load(a, path, (const char *[]){"run_dir=!a"}, 1, &cfg), DRV_E_USAGE,
            "--set run_dir: a tag (!)");
    FAILS(config_load_text(a, "llama3_8b.toml", "[job]\n", 6, &cfg), DRV_E_USAGE,
            "llama3_8b.toml: a file in TOML, expected YAML");
}
