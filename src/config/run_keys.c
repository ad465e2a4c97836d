// All keys of a run but the model's fields, and the order in which all are printed.
#include <stddef.h>
#include <string.h>

#include "config/config.h"
#include "config/key.h"

static const choice weights_choices[] = {{"random", WEIGHTS_RANDOM}, {"load", WEIGHTS_LOAD},
        {"resume", WEIGHTS_RESUME}, {NULL, 0}};
static const choice base_choices[] = {{"auto", BASE_AUTO}, {"bf16", BASE_BF16}, {"q8_0", BASE_Q8_0},
        {"q4_k", BASE_Q4_K}, {"gguf", BASE_GGUF}, {NULL, 0}};
static const choice pack_choices[] = {{"auto", PACK_AUTO}, {"examples", PACK_EXAMPLES},
        {"documents", PACK_DOCUMENTS}, {"stream", PACK_STREAM}, {NULL, 0}};
static const choice loss_choices[] = {{"auto", COUNT_AUTO}, {"responses", COUNT_RESPONSES},
        {"last", COUNT_LAST}, {"all", COUNT_ALL}, {NULL, 0}};
static const choice long_choices[] = {{"truncate", LONG_TRUNCATE}, {"drop", LONG_DROP}, {NULL, 0}};
static const choice objective_choices[] = {{"tokens", OBJECTIVE_TOKENS}, {"dpo", OBJECTIVE_DPO},
        {NULL, 0}};
static const choice precision_choices[] = {{"bf16", PRECISION_BF16}, {"fp32", PRECISION_F32},
        {"fp8", PRECISION_F8}, {NULL, 0}};
static const choice kept_choices[] = {{"bf16", PRECISION_BF16}, {"fp32", PRECISION_F32}, {NULL, 0}};
static const choice arithmetic_choices[] = {{"fastest", ARITHMETIC_FASTEST},
        {"portable", ARITHMETIC_PORTABLE}, {NULL, 0}};
static const choice save_choices[] = {{"auto", SAVE_AUTO}, {"f32", SAVE_F32}, {"bf16", SAVE_BF16},
        {"f16", SAVE_F16}, {NULL, 0}};
static const choice optimizer_choices[] = {{"adamw", OPTIMIZER_ADAMW}, {"muon", OPTIMIZER_MUON},
        {"normuon", OPTIMIZER_NORMUON}, {NULL, 0}};
static const choice master_choices[] = {{"auto", MASTER_AUTO}, {"fp32", MASTER_F32},
        {"bf16", MASTER_BF16}, {NULL, 0}};
static const choice recompute_choices[] = {{"none", RECOMPUTE_NONE}, {"gathers", RECOMPUTE_GATHERS},
        {"selective", RECOMPUTE_SELECTIVE}, {"full", RECOMPUTE_FULL}, {NULL, 0}};
static const choice offload_choices[] = {{"none", OFFLOAD_NONE},
        {"activations", OFFLOAD_ACTIVATIONS}, {NULL, 0}};
static const choice schedule_choices[] = {{"cosine", SCHEDULE_COSINE}, {"linear", SCHEDULE_LINEAR},
        {"wsd", SCHEDULE_WSD}, {"constant", SCHEDULE_CONSTANT}, {NULL, 0}};

static const choice warmup_choices[] = {{"torchtitan", WARMUP_TORCHTITAN},
        {"transformers", WARMUP_TRANSFORMERS}, {"nemo", WARMUP_NEMO}, {NULL, 0}};

static const choice schedules[] = {{"auto", SCHEDULE_AUTO}, {"1f1b", SCHEDULE_1F1B},
        {"gpipe", SCHEDULE_GPIPE}, {"interleaved", SCHEDULE_INTERLEAVED}, {"zb-h1", SCHEDULE_ZB_H1},
        {NULL, 0}};
static const choice auto_steps[] = {{"auto", -1}, {NULL, 0}}; // 0 steps are a value
static const choice auto_levels[] = {{"auto", -1}, {NULL, 0}};
static const choice auto_choices[] = {{"auto", 0}, {NULL, 0}};
static const choice backend_choices[] = {{"cpu", 0}, {"pjrt", 0}, {NULL, 0}};

const char *precision_name(precision p) {
    return choice_name(precision_choices, (int)p);
}

const char *recompute_name(recompute_mode r) {
    return choice_name(recompute_choices, (int)r);
}

const char *optimizer_name(optimizer_type t) {
    return choice_name(optimizer_choices, (int)t);
}
const char *base_dtype_name(base_dtype t) {
    return choice_name(base_choices, (int)t);
}

#define KEY(name, kind, member)                                                                    \
    .path = name, .type = &type_##kind, .offset = offsetof(run_config, member)
#define COUNT(member) .count_offset = offsetof(run_config, member)

static const key model_source_keys[] = {
        {KEY("model.preset", text, preset), .initial = "",
                .help = "a built-in shape: llama-135m, llama-3.1-8b, ..."},
        {KEY("model.from", text, from), .initial = "",
                .help = "shape, weights and tokenizer instead of a preset: a Hugging Face folder, a file of torch.save beside its "
                        "config.json, a folder of Meta's files, or another checkpoint of docs/move-in.md"},
        {KEY("model.weights", choice, weights), .choices = weights_choices,
                .initial_note = "load with model.from, else random",
                .help = "load: begin with the weights of model.from; resume: continue that checkpoint of another run or trainer, with "
                        "its moments, step and rows; random: begin with fresh weights"},
        {KEY("model.base_dtype", choice, base_dtype), .choices = base_choices, .initial = "auto",
                .help = "type in which a LoRA run keeps the frozen matrices in memory: q8_0, q4_k: quantised when they are "
                        "loaded; gguf: the blocks of the GGUF file of model.from; auto: training.precision"},
};
static const int n_model_source_keys = sizeof model_source_keys / sizeof *model_source_keys;

static const key run_keys[] = {
        {KEY("tokenizer", text, tokenizer), .initial_note = "model.from, if it has a tokenizer",
                .help = "folder with tokenizer.json, tokenizer.model (SentencePiece, tiktoken) or *.tiktoken, or one of these files; it "
                        "is copied into checkpoints, and its bos and eos are those of the run"},
        {KEY("data.train", sources, train), COUNT(n_train), .initial = "[]",
                .help = "data sets that `drover data build` wrote: PREFIX, or a list of {prefix, weight}"},
        {KEY("data.valid", sources, valid), COUNT(n_valid), .initial = "[]",
                .help = "data sets for evaluation, given as in data.train; or use data.split"},
        {KEY("data.split", reals, split), .max = 1e9, .max_items = 3, .optional = true,
                .initial = "[]",
                .help = "shares of the documents of data.train for train, valid, test, as [969, 30, "
                        "1]"},
        {KEY("data.sequence_length", int, sequence_length), .min = 1, .max = 1 << 24,
                .initial_note = "1024, or the model's context if that is shorter",
                .help = "tokens per row"},
        {KEY("data.pack", choice, pack), .choices = pack_choices, .initial = "auto",
                .help = "documents: rows are cut every sequence_length tokens, attention stays inside a document; stream: attention "
                        "crosses documents, as in GPT; examples: whole examples, as many as fit into a row; auto: examples for sets that "
                        "--sft built, else documents"},
        {KEY("data.loss", choice, loss), .choices = loss_choices, .initial = "auto",
                .help = "which tokens are learned: responses, the last response of each conversation, or all; auto: responses for sets "
                        "that --sft built, else all"},
        {KEY("data.too_long", choice, too_long), .choices = long_choices, .initial = "truncate",
                .help = "examples of more than sequence_length + 1 tokens: truncate: their ends are cut off; drop: they are left out; a "
                        "run prints how many there are when it begins"},
        {KEY("training.steps", int, given_steps), .choices = auto_steps, .initial = "auto",
                .max = NO_MAX,
                .help = "optimizer steps; auto: as many as training.epochs takes, or 1000 without it"},
        {KEY("training.epochs", real, epochs), .min = 1e-6, .max = 1e6, .optional = true,
                .none = -1, .initial = "null",
                .help = "passes over data.train instead of steps: rows x epochs / global_batch_size steps, rounded up; the rows "
                        "are those of all its sets together"},
        {KEY("training.objective", choice, objective), .choices = objective_choices,
                .initial = "tokens",
                .help = "tokens: predict each token from those before it; dpo: make the preferred one of two responses likelier, "
                        "compared with a reference: docs/preferences.md"},
        {KEY("training.global_batch_size", int, global_batch_size), .initial = "8", .min = 1,
                .max = 1 << 24, .help = "rows per step, over all ranks and micro-batches"},
        {KEY("training.micro_batch_size", int, micro_batch_size), .initial = "1", .min = 1,
                .max = 1 << 20,
                .help = "rows per forward/backward pass: divides a step without changing its result; more rows take more memory"},
        {KEY("training.seed", int, seed), .initial = "1234", .max = NO_MAX,
                .help = "determines fresh weights and the order of the data"},
        {KEY("training.precision", choice, precision), .choices = precision_choices,
                .initial = "bf16",
                .help = "type of products and stored activations; weights, moments and gradients stay fp32 unless "
                        "optimizer.state_dtype and training.grad_dtype say otherwise; fp8: products of layers with their "
                        "weights in fp8 (e4m3, gradients e5m2, a scale per tensor), the rest as with bf16"},
        {KEY("training.arithmetic", choice, arithmetic), .choices = arithmetic_choices,
                .initial = "fastest",
                .help = "portable: the same bits on any processor (bf16 products in fp32 arithmetic), also with ranks on "
                        "different ones; fastest: the bits depend on the kind of processor"},
        {KEY("training.deterministic", bool, deterministic), .initial = "true",
                .help = "true: a program gives the same bits each time on the same device; false: a GPU may add in another "
                        "order each time where that is faster, and the run cannot be audited"},
        {KEY("training.save_dtype", choice, save_dtype), .choices = save_choices, .initial = "auto",
                .help = "type of a checkpoint's model file: f32, bf16 or f16; auto: bf16 in bf16 runs, else f32. "
                        "A run that has fp32 weights saves them too, and resumes from them"},
        {KEY("training.grad_dtype", choice, grad_dtype), .choices = kept_choices, .initial = "fp32",
                .help = "type of the sums of gradients; bf16 saves 2 bytes a parameter: each micro-batch is added with stochastic "
                        "rounding"},
        {KEY("training.recompute", choice, recompute), .choices = recompute_choices,
                .initial = "none",
                .help = "what the backward pass computes again to save memory: gathers: what tensor ranks gather from each other, with "
                        "parallel.sequence; selective: also norms, activations, attention; full: all but the residual stream"},
        {KEY("training.offload", choice, offload), .choices = offload_choices, .initial = "none",
                .help = "activations: activations that are not recomputed wait for the backward pass in the host's memory, in all layers "
                        "but the last; needs backend pjrt without a pipeline, and a plugin that has memory of the kind pinned_host"},
        {KEY("training.eval_every", int, eval_every), .initial = "100", .max = NO_MAX,
                .help = "steps between evaluations; 0: none"},
        {KEY("training.eval_batches", int, eval_batches), .initial = "0", .max = NO_MAX,
                .help = "batches of global_batch_size rows per evaluation; 0: at least 100,000 "
                        "tokens, or all there are"},
        {KEY("training.log_every", int, log_every), .initial = "1", .min = 1, .max = NO_MAX,
                .help = "steps between log lines"},
        {KEY("training.status_dir", text, status_dir), .initial = "",
                .help = "folder on a local disk of rank 0 for the table of ranks, which it writes once a second; empty: the table is "
                        "RUN_DIR/ranks/status"},
        {KEY("training.http", text, http), .initial = "none",
                .help = "where rank 0 serves a page and metrics of the run: none, a port (only on 127.0.0.1; 0: any free port), or "
                        "HOST:PORT"},
        {KEY("training.http_ranks", bool, http_ranks), .initial = "false",
                .help = "metrics for Prometheus also have figures of each rank"},
        {KEY("training.http_metrics_token_file", text, http_metrics_token_file), .initial = "",
                .help = "a file with a token of at least 16 characters that opens /metrics and nothing else, read anew at each "
                        "request; empty: only the token in RUN_DIR/http.json does"},
        {KEY("training.straggler_ratio", real, straggler_ratio), .initial = "1.2", .min = 1.01,
                .max = 1e3,
                .help = "a rank is named as a straggler, in the log and in events.jsonl, when in 15 of 20 steps its own time is this "
                        "many times that of the others of its pipeline stage"},
        {KEY("training.threads", int, threads), .initial = "0", .max = 4096,
                .help = "0: all cores; results do not depend on it"},
        {KEY("training.max_bad_steps", int, max_bad_steps), .initial = "5", .min = 1, .max = NO_MAX,
                .help = "stop after this many steps in a row with a NaN or infinite gradient"},
        {KEY("training.hash_every", int, hash_every), .initial = "0", .max = NO_MAX,
                .help = "steps between hashes of gradients (before clipping) and weights, which are the same on any layout: "
                        "in metrics.jsonl, by tensor in hashes.jsonl; needs 4 bytes a parameter; 0: never"},
        {KEY("training.max_minutes", real, max_minutes), .initial = "0", .max = 1e9,
                .help = "stop and save, with exit status 3, when this attempt has run for this long by rank 0's clock, including loading; "
                        "the current step is finished first; 0: never"},
        {KEY("training.stop_at_step", int, stop_at_step), .initial = "0", .max = NO_MAX,
                .help = "stop and save after this step, with exit status 3 unless it is the last; the schedule stays that of "
                        "training.steps; 0: none"},
        {KEY("optimizer.type", choice, optimizer), .choices = optimizer_choices, .initial = "adamw",
                .help = "muon: the matrices of the layers are updated by orthogonalised momentum, scaled so that AdamW's lr and "
                        "weight_decay carry over, and everything else by AdamW; normuon: muon that also makes the rows of an update "
                        "equally large over the steps. docs/optimizers.md"},
        {KEY("optimizer.lr", real, lr), .initial = "3.0e-4", .max = 1e3,
                .help = "peak learning rate"},
        {KEY("optimizer.betas", reals, betas), .initial = "[0.9, 0.95]", .max = 0.9999999,
                .max_items = 2, .help = "AdamW: decay of the first and second moment"},
        {KEY("optimizer.eps", real, eps), .initial = "1.0e-8", .max = 1,
                .help = "AdamW: added to the root of the second moment"},
        {KEY("optimizer.weight_decay", real, weight_decay), .initial = "0.1", .max = 1e3,
                .help = "decoupled decay of matrices; norms have none"},
        {KEY("optimizer.decay_norms", bool, decay_norms), .initial = "false",
                .help = "true: the weights of norms and biases decay, too"},
        {KEY("optimizer.clip_grad_norm", real, clip_grad_norm), .initial = "1.0", .max = 1e9,
                .help = "gradients with a larger global norm are scaled down to it; 0: never"},
        {KEY("optimizer.state_dtype", choice, state_dtype), .choices = kept_choices,
                .initial = "fp32",
                .help = "type of both moments of AdamW; bf16, rounded stochastically, saves 4 bytes a parameter, and 4 more "
                        "without masters"},
        {KEY("optimizer.master_dtype", choice, master_dtype), .choices = master_choices,
                .initial = "auto",
                .help = "fp32: a bf16 run updates fp32 master weights; bf16: it updates the weights themselves, rounded "
                        "stochastically; auto: as state_dtype"},
        {KEY("optimizer.muon_momentum", real, muon_momentum), .initial = "0.95", .max = 0.9999999,
                .help = "Muon: decay of the momentum, which takes Nesterov's step"},
        {KEY("optimizer.normuon_beta2", real, normuon_beta2), .initial = "0.95", .max = 0.9999999,
                .help = "NorMuon: decay of the mean square of each row of the orthogonalised matrix"},
        {KEY("optimizer.muon_ns_steps", int, muon_ns_steps), .initial = "5", .min = 1, .max = 20,
                .help = "Muon: steps of Newton-Schulz"},
        {KEY("dpo.beta", real, dpo.beta), .min = 1e-6, .max = 1e3, .initial = "0.1",
                .help = "factor by which the log-probability of a response, less that of the reference, becomes its reward: the larger, "
                        "the closer the model stays to the reference"},
        {KEY("dpo.label_smoothing", real, dpo.label_smoothing), .max = 0.49, .initial = "0",
                .help = "assumed share of pairs that are the wrong way round"},
        {KEY("lora.rank", int, lora.rank), .max = 1 << 14,
                .initial_note = "0, or 8 where another key of lora is given",
                .help = "train LoRA adapters of this rank and freeze the model; 0: train all of it"},
        {KEY("lora.alpha", real, lora.alpha), .max = 1e6, .initial_note = "lora.rank",
                .help = "adapters are scaled by alpha / rank"},
        {KEY("lora.dropout", real, lora.dropout), .max = 0.999, .initial = "0",
                .help = "dropout probability of an adapter's inputs in training"},
        {KEY("lora.use_rslora", bool, lora.use_rslora), .initial = "false",
                .help = "adapters are scaled by alpha / sqrt(rank) instead, for large ranks"},
        {KEY("lora.target_modules", texts, lora.target_modules), COUNT(lora.n_target_modules),
                .initial_note = "[q_proj, v_proj]",
                .help = "which of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj; all-linear; or regular expressions for "
                        "names such as model.layers.0.self_attn.q_proj"},
        {KEY("lora.adapter", text, lora.adapter), .initial = "",
                .help = "PEFT folder to begin with; rank, alpha and target_modules come from it"},
        {KEY("schedule.type", choice, schedule), .choices = schedule_choices, .initial = "cosine",
                .help = "course of the learning rate after the warm-up; wsd: constant, then a linear decay at the end"},
        {KEY("schedule.warmup_steps", int, warmup_steps), .choices = auto_steps, .initial = "auto",
                .max = NO_MAX,
                .help = "the learning rate rises linearly to its peak, from lr / warmup_steps in step 1; auto: a tenth of the "
                        "steps, rounded down, at most 100; 0: none"},
        {KEY("schedule.warmup_ratio", real, warmup_ratio), .max = 1, .optional = true, .none = -1,
                .initial = "null",
                .help = "share of the steps instead of warmup_steps, rounded up to whole steps"},
        {KEY("schedule.warmup_like", choice, warmup_like), .choices = warmup_choices,
                .initial = "torchtitan",
                .help = "rate of step s of the w warm-up steps: torchtitan: lr s / w; transformers: lr (s - 1) / w, so that "
                        "the first step has rate 0; nemo: lr s / (w + 1)"},
        {KEY("schedule.decay_steps", int, decay_steps), .initial = "0", .max = NO_MAX,
                .help = "wsd: steps of the final decay; 0: a tenth of training.steps; cosine, linear: steps of the decay after the "
                        "warm-up, before which the run may end, or after which it continues with min_lr; 0: to the end of the run"},
        {KEY("schedule.min_lr", real, min_lr), .initial = "0", .max = 1e3,
                .help = "rate that the decay reaches one step after the last, so that with 0 no step is wasted"},
        {KEY("parallel.tensor", int, tensor_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that share each product: heads, ffn and vocabulary are divided among them"},
        {KEY("parallel.pipeline", int, pipeline_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that share the layers: each has consecutive ones, the last rank fewer, "
                        "since it has the head too"},
        {KEY("parallel.schedule", choice, pipeline_schedule), .choices = schedules,
                .initial = "auto",
                .help = "order of the micro-batches in a pipeline. 1f1b: one forward, one backward; "
                        "gpipe: all forwards first; interleaved: 1f1b with virtual_stages; zb-h1: "
                        "weight gradients fill the gaps; auto: 1f1b, or interleaved where there are "
                        "virtual stages"},
        {KEY("parallel.virtual_stages", int, virtual_stages), .initial = "1", .min = 1, .max = 32,
                .help = "model chunks of each pipeline rank: n of them reduce the bubble to 1/n, for n "
                        "times the messages"},
        {KEY("parallel.context", int, context_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that share each row, for long rows: 2 n must divide data.sequence_length; ranks pass keys and values "
                        "around a ring"},
        {KEY("parallel.data", int, data_parallel), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 20,
                .help = "ranks that share the global batch; auto: as many as mpirun or srun starts"},
        {KEY("parallel.accumulation_groups", int, accum_groups), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 20,
                .help = "groups of neighbouring micro-batches: gradients are added in order within a group, then a tree "
                        "adds the groups. The same bits on any number of data ranks that have 1, 2, 4, ... groups each; "
                        "auto: one for each data rank, with zero 2 or 3 a single one, or one for each zero_group; a rank with n groups needs 4 log2 n "
                        "more bytes a parameter, which zero 2 and 3 share"},
        {KEY("parallel.tensor_blocks", int, tensor_blocks), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 256,
                .help = "reduction blocks of sums over dimensions that tensor ranks split; a tree adds them. The same "
                        "bits on any number of tensor ranks that have 1, 2, 4, ... blocks each; auto: 8, or as many as "
                        "heads and widths can be cut into"},
        {KEY("parallel.context_blocks", int, context_blocks), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 256,
                .help = "reduction blocks of sums over the tokens of a row; a tree adds them. The same bits on any "
                        "number of context ranks that have 1, 2, 4, ... blocks each; auto: one for each context rank; "
                        "a rank with n blocks needs 4 (n - 1) more bytes a parameter"},
        {KEY("parallel.partial_sum_rows", int, partial_sum_rows), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 20,
                .help = "rows whose gradients are summed before the sum is added to that of earlier rows, a divisor "
                        "of training.micro_batch_size: the same bits with any micro-batch size; auto: 1; with zero 2, 3 or auto, "
                        "grad_dtype bf16 or backend pjrt the whole micro-batch"},
        {KEY("parallel.sequence", bool, sequence_parallel), .initial = "true",
                .help = "tensor ranks share the tokens between products"},
        {KEY("parallel.zero", int, given_zero), .choices = auto_levels, .initial = "1", .max = 3,
                .help = "level of ZeRO: data ranks share 0: nothing; 1: the optimizer, so that each has a part of the master weights and "
                        "moments; 2: also the sums of gradients, which they exchange after each micro-batch instead of once a step; 3: "
                        "also the weights, which each layer gathers for its forward and again for its backward pass. With the same "
                        "accumulation_groups and partial_sum_rows all levels give the same bits; auto: the lowest of 1 to 3 that fits "
                        "the memory, with as many accumulation groups as data ranks at any level"},
        {KEY("parallel.zero_group", int, zero_group), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 20,
                .help = "with zero 3: this many neighbouring data ranks share the weights, for instance those of a host, and each such "
                        "group has all of them; a divisor of the data ranks. Layers gather inside a group, and groups add their "
                        "gradients once a step; auto: all data ranks"},
        {KEY("parallel.overlap", bool, overlap), .initial = "true",
                .help = "gradients are exchanged during the backward pass of the last micro-batch, and new "
                        "weights during the next forward pass, with zero 3 a layer before they are used, with the same "
                        "bits. With zero 2 and 3 the gradients of a layer are exchanged while those of the layer before it are computed, in each micro-batch; with zero 0 and 1 the key has no effect on gradients if a rank has several accumulation groups or context blocks; backend pjrt: its compiler decides, and with zero 3 no gather begins more than a layer early"},
        {KEY("parallel.check_every", int, check_every), .initial = "100", .max = NO_MAX,
                .help = "steps between comparisons of the weights that should be equal on several ranks, by their hashes; a comparison "
                        "also happens at the start; 0: never"},
        {KEY("parallel.give_up_s", real, give_up_s), .initial = "600", .min = 6, .max = 1e6,
                .help = "seconds without a status from a rank after which the job ends on all ranks with exit status 75; it also ends "
                        "when a rank holds up an operation for this long plus 300 s"},
        {KEY("checkpoint.every", int, checkpoint_every), .initial = "100", .max = NO_MAX,
                .help = "steps between checkpoints; 0: only at the end"},
        {KEY("checkpoint.every_minutes", real, checkpoint_minutes), .initial = "0", .max = 1e9,
                .help = "also save a checkpoint when the last one began this many minutes ago, by rank 0's clock; 0: only by "
                        "checkpoint.every"},
        {KEY("checkpoint.keep", int, checkpoint_keep), .initial = "3", .max = NO_MAX,
                .help = "how many of the newest checkpoints to keep; 0: all"},
        {KEY("checkpoint.give_up_minutes", real, checkpoint_give_up_minutes), .initial = "10",
                .max = 1e9,
                .help = "minutes of failing saves, at least three of them, after which the run ends; until then a full disk may have "
                        "room again"},
        {KEY("backend", text, backend), .choices = backend_choices, .initial = "cpu",
                .help = "back end that computes; pjrt: an accelerator, or any other device with a PJRT plugin"},
        {KEY("device", text, device), .initial = "",
                .help = "profile of a rank's device, as for drover plan --device, for the plan that reports show beside the measured "
                        "steps; empty: a profile with the measured peak"},
        {KEY("pjrt.plugin", text, pjrt.plugin), .initial = "",
                .help = "cuda, rocm, tpu, neuron, cpu, or a plugin's file; empty: DROVER_PJRT_PLUGIN, "
                        "or the first that drover devices lists"},
        {KEY("pjrt.devices", int, pjrt.devices), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 12,
                .help = "devices of this process that share a run, each a rank of the layout of parallel.*; auto: as many as parallel.* "
                        "asks for"},
        {KEY("pjrt.flags", texts, pjrt.flags), COUNT(pjrt.n_flags), .initial = "[]",
                .help = "options of the plugin's compiler, NAME=VALUE: xla_gpu_enable_triton_gemm=False"},
        {KEY("pjrt.memory_fraction", real, pjrt.memory_fraction), .initial = "0", .max = 1,
                .help = "share of a GPU's memory that is taken at the start; 0: the plugin's default"},
        {KEY("pjrt.cache", text, pjrt.cache), .initial = "",
                .help = "folder of compiled programs; none: compile again each time; empty: DROVER_COMPILE_CACHE, or drover/compiled "
                        "in the user's cache"},
        {KEY("pjrt.cache_gib", real, pjrt.cache_gib), .initial = "10", .max = NO_MAX,
                .help = "GiB that compiled programs may take: when one is saved, the least recently used ones are removed; 0: no limit"},
        {KEY("pjrt.compile_jobs", int, pjrt.compile_jobs), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 10,
                .help = "programs that are compiled at a time; auto: as many as there are cores"},
        {KEY("pjrt.compile_gib", real, pjrt.compile_gib), .initial = "0", .max = NO_MAX,
                .help = "GiB of host memory for compiling: limits how many programs compile at a time, estimated by the length of their text; 0: three quarters of the free memory"},
        {KEY("pjrt.logit_mib", real, pjrt.logit_mib), .initial = "0", .max = 1 << 20,
                .help = "MiB of logits in memory at a time: more means fewer and larger matrix products of the head, and fewer passes over its gradient; 0: 1024 with CUDA, otherwise 256"},
        {KEY("pjrt.give_up_s", real, pjrt.give_up_s), .initial = "1800", .min = 1, .max = 1e9,
                .help = "seconds after which a device that has not finished its work ends the run with exit status 75: more than a step takes"},
        {KEY("run_dir", text, run_dir), .initial_note = "runs/ and the name of the config",
                .help = "folder of logs, metrics and checkpoints; a run resumes from its newest checkpoint"},
};
static const int n_run_keys = sizeof run_keys / sizeof *run_keys;

// `prefix` comes before the paths of a table's keys; their offsets count from `offset` in
// run_config.
static const struct {
    const char *prefix;
    const key *keys;
    const int *n;
    size_t offset;
} key_tables[] = {
        {"", model_source_keys, &n_model_source_keys, 0},
        {"model.", model_keys, &n_model_keys, offsetof(run_config, model)},
        {"", run_keys, &n_run_keys, 0},
};
enum { N_KEY_TABLES = sizeof key_tables / sizeof *key_tables };

int key_count(void) {
    int n = 0;
    for (int t = 0; t < N_KEY_TABLES; t++)
        n += *key_tables[t].n;
    return n;
}

key key_of_index(arena *a, int i) {
    int t = 0;
    for (; t < N_KEY_TABLES - 1 && i >= *key_tables[t].n; t++)
        i -= *key_tables[t].n;
    key k = key_tables[t].keys[i];
    k.path = arena_printf(a, "%s%s", key_tables[t].prefix, k.path);
    k.offset += key_tables[t].offset;
    k.count_offset += key_tables[t].offset;
    return k;
}

int key_find(const char *path) {
    int index = 0;
    for (int t = 0; t < N_KEY_TABLES; t++) {
        const size_t n = strlen(key_tables[t].prefix);
        for (int i = 0; i < *key_tables[t].n; i++, index++)
            if (strncmp(path, key_tables[t].prefix, n) == 0 &&
                    strcmp(path + n, key_tables[t].keys[i].path) == 0)
                return index;
    }
    return -1;
}
