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
                .help = "shape, weights and tokenizer of the run, instead of a preset: a Hugging Face folder, a file of "
                        "torch.save next to its config.json, a folder of Meta's files, or another checkpoint of "
                        "docs/move-in.md"},
        {KEY("model.weights", choice, weights), .choices = weights_choices,
                .initial_note = "load with model.from, else random",
                .help = "load: begin with the weights of model.from; resume: continue that checkpoint of another run or "
                        "trainer, with its moments, step and position in the data; random: begin with fresh weights"},
        {KEY("model.base_dtype", choice, base_dtype), .choices = base_choices, .initial = "auto",
                .help = "type of the frozen matrices of a LoRA run in memory: auto: training.precision; q8_0, q4_k: quantised "
                        "when they are loaded; gguf: the blocks of the GGUF file of model.from"},
};
static const int n_model_source_keys = sizeof model_source_keys / sizeof *model_source_keys;

static const key run_keys[] = {
        {KEY("tokenizer", text, tokenizer), .initial_note = "model.from, if it has a tokenizer",
                .help = "folder with tokenizer.json, tokenizer.model (SentencePiece, tiktoken) or *.tiktoken, or one of these "
                        "files. It is copied into checkpoints, and its bos and eos are those of the run"},
        {KEY("data.train", sources, train), COUNT(n_train), .initial = "[]",
                .help = "data sets that `drover data build` wrote: PREFIX, or a list of {prefix, weight}"},
        {KEY("data.valid", sources, valid), COUNT(n_valid), .initial = "[]",
                .help = "data sets for evaluation, given as in data.train; or use data.split"},
        {KEY("data.split", reals, split), .max = 1e9, .max_items = 3, .optional = true,
                .initial = "[]",
                .help = "shares of the documents of data.train for training, validation and test, such as [969, 30, 1]"},
        {KEY("data.sequence_length", int, sequence_length), .min = 1, .max = 1 << 24,
                .initial_note = "1024, or the model's context if that is shorter",
                .help = "tokens per row"},
        {KEY("data.pack", choice, pack), .choices = pack_choices, .initial = "auto",
                .help = "documents: rows are cut every sequence_length tokens, and attention stays inside a document; stream: "
                        "attention also crosses documents, as in GPT; examples: as many whole examples as fit in a row; "
                        "auto: examples for sets that --sft built, else documents"},
        {KEY("data.loss", choice, loss), .choices = loss_choices, .initial = "auto",
                .help = "tokens that are learned: responses; last: only the last response of each conversation; all; auto: "
                        "responses for sets that --sft built, else all"},
        {KEY("data.too_long", choice, too_long), .choices = long_choices, .initial = "truncate",
                .help = "examples of more than sequence_length + 1 tokens: truncate: cut off their ends; drop: leave them out. "
                        "A run prints their number when it begins"},
        {KEY("training.steps", int, given_steps), .choices = auto_steps, .initial = "auto",
                .max = NO_MAX,
                .help = "optimizer steps; auto: as many as training.epochs takes, or 1000 without it"},
        {KEY("training.epochs", real, epochs), .min = 1e-6, .max = 1e6, .optional = true,
                .none = -1, .initial = "null",
                .help = "passes over data.train, instead of training.steps: epochs x rows of all its sets / global_batch_size "
                        "steps, rounded up"},
        {KEY("training.objective", choice, objective), .choices = objective_choices,
                .initial = "tokens",
                .help = "tokens: predict each token from those before it; dpo: make the preferred one of two responses more "
                        "likely, relative to a reference model (docs/preferences.md)"},
        {KEY("training.global_batch_size", int, global_batch_size), .initial = "8", .min = 1,
                .max = 1 << 24, .help = "rows per step, over all ranks and micro-batches"},
        {KEY("training.micro_batch_size", int, micro_batch_size), .initial = "1", .min = 1,
                .max = 1 << 20,
                .help = "rows per forward and backward pass. The result of a step does not depend on it; more rows take more "
                        "memory"},
        {KEY("training.seed", int, seed), .initial = "1234", .max = NO_MAX,
                .help = "determines fresh weights and the order of the data"},
        {KEY("training.precision", choice, precision), .choices = precision_choices,
                .initial = "bf16",
                .help = "type of products and stored activations; fp8: products of layers with their weights in fp8, all else "
                        "as with bf16. Weights, moments and gradients are fp32 unless optimizer.master_dtype, "
                        "optimizer.state_dtype and training.grad_dtype choose another type"},
        {KEY("training.arithmetic", choice, arithmetic), .choices = arithmetic_choices,
                .initial = "fastest",
                .help = "fastest: the bits of results depend on the kind of processor; portable: they are the same on any "
                        "processor, also in a run on several kinds"},
        {KEY("training.deterministic", bool, deterministic), .initial = "true",
                .help = "true: a program gives the same bits each time on the same device; false: a GPU may sum in a different "
                        "order each time if that is faster, and the run cannot be audited"},
        {KEY("training.save_dtype", choice, save_dtype), .choices = save_choices, .initial = "auto",
                .help = "type of a checkpoint's model file; auto: bf16 in bf16 runs, else f32. A run with fp32 weights also "
                        "saves those, and resumes from them"},
        {KEY("training.grad_dtype", choice, grad_dtype), .choices = kept_choices, .initial = "fp32",
                .help = "type of the sums of gradients; bf16 saves 2 bytes per parameter, and each micro-batch is added with "
                        "stochastic rounding"},
        {KEY("training.recompute", choice, recompute), .choices = recompute_choices,
                .initial = "none",
                .help = "values that the backward pass computes again to save memory: gathers: values gathered from tensor "
                        "ranks, with parallel.sequence; selective: also norms, activations and attention; full: everything "
                        "but the residual stream"},
        {KEY("training.offload", choice, offload), .choices = offload_choices, .initial = "none",
                .help = "activations: activations that are not recomputed are kept in host memory until the backward pass, in "
                        "all layers but the last. Needs backend pjrt without a pipeline, and a plugin with pinned_host memory"},
        {KEY("training.eval_every", int, eval_every), .initial = "100", .max = NO_MAX,
                .help = "steps between evaluations; 0: none"},
        {KEY("training.eval_batches", int, eval_batches), .initial = "0", .max = NO_MAX,
                .help = "batches of global_batch_size rows per evaluation; 0: enough for 100,000 tokens, or all rows if there "
                        "are fewer"},
        {KEY("training.log_every", int, log_every), .initial = "1", .min = 1, .max = NO_MAX,
                .help = "steps between log lines"},
        {KEY("training.status_dir", text, status_dir), .initial = "",
                .help = "folder on a local disk of rank 0 for the table of ranks, which is written once a second; empty: the "
                        "table is RUN_DIR/ranks/status"},
        {KEY("training.http", text, http), .initial = "none",
                .help = "address at which rank 0 serves a page and metrics of the run: none, a port (on 127.0.0.1 only; 0: any "
                        "free port), or HOST:PORT"},
        {KEY("training.http_ranks", bool, http_ranks), .initial = "false",
                .help = "the metrics for Prometheus include figures of each rank"},
        {KEY("training.http_metrics_token_file", text, http_metrics_token_file), .initial = "",
                .help = "file with a token of at least 16 characters that opens only /metrics, read again at each request; "
                        "empty: only the token in RUN_DIR/http.json opens it"},
        {KEY("training.straggler_ratio", real, straggler_ratio), .initial = "1.2", .min = 1.01,
                .max = 1e3,
                .help = "a rank is reported as a straggler, in the log and in events.jsonl, if its own time exceeds that of "
                        "the other ranks of its pipeline stage by this factor in 15 of 20 steps"},
        {KEY("training.threads", int, threads), .initial = "0", .max = 4096,
                .help = "threads of a rank; 0: all cores that it may use. Results do not depend on it"},
        {KEY("training.max_bad_steps", int, max_bad_steps), .initial = "5", .min = 1, .max = NO_MAX,
                .help = "stop after this many consecutive steps with a NaN or infinite gradient"},
        {KEY("training.hash_every", int, hash_every), .initial = "0", .max = NO_MAX,
                .help = "steps between hashes of gradients (before clipping) and weights, in metrics.jsonl and by tensor in "
                        "hashes.jsonl, which are the same on any layout; 0: never. Needs 4 bytes per parameter"},
        {KEY("training.max_minutes", real, max_minutes), .initial = "0", .max = 1e9,
                .help = "stop after the current step and save, with exit status 3, when this attempt has run for this long by "
                        "rank 0's clock, loading included; 0: no limit"},
        {KEY("training.stop_at_step", int, stop_at_step), .initial = "0", .max = NO_MAX,
                .help = "stop after this step and save, with exit status 3 unless it is the last one; 0: none. The schedule "
                        "stays that of training.steps"},
        {KEY("optimizer.type", choice, optimizer), .choices = optimizer_choices, .initial = "adamw",
                .help = "muon: orthogonalised momentum updates the matrices of layers, scaled so that lr and weight_decay of "
                        "AdamW carry over, and AdamW updates all else; normuon: muon with updates that are normalised by "
                        "row. See docs/optimizers.md"},
        {KEY("optimizer.lr", real, lr), .initial = "3.0e-4", .max = 1e3,
                .help = "peak learning rate"},
        {KEY("optimizer.betas", reals, betas), .initial = "[0.9, 0.95]", .max = 0.9999999,
                .max_items = 2, .help = "AdamW: decay of the first and second moment"},
        {KEY("optimizer.eps", real, eps), .initial = "1.0e-8", .max = 1,
                .help = "AdamW: added to the square root of the second moment"},
        {KEY("optimizer.weight_decay", real, weight_decay), .initial = "0.1", .max = 1e3,
                .help = "decoupled decay of matrices; norms and biases have none unless optimizer.decay_norms is true"},
        {KEY("optimizer.decay_norms", bool, decay_norms), .initial = "false",
                .help = "true: norms and biases decay, too"},
        {KEY("optimizer.clip_grad_norm", real, clip_grad_norm), .initial = "1.0", .max = 1e9,
                .help = "gradients with a larger global norm are scaled down to this norm; 0: never"},
        {KEY("optimizer.state_dtype", choice, state_dtype), .choices = kept_choices,
                .initial = "fp32",
                .help = "type of both moments of AdamW; bf16, rounded stochastically, saves 4 bytes per parameter, and 4 more "
                        "without masters"},
        {KEY("optimizer.master_dtype", choice, master_dtype), .choices = master_choices,
                .initial = "auto",
                .help = "fp32: a bf16 run updates fp32 master weights; bf16: it updates the weights themselves, rounded "
                        "stochastically; auto: as state_dtype"},
        {KEY("optimizer.muon_momentum", real, muon_momentum), .initial = "0.95", .max = 0.9999999,
                .help = "Muon: decay of the momentum, which is Nesterov's"},
        {KEY("optimizer.normuon_beta2", real, normuon_beta2), .initial = "0.95", .max = 0.9999999,
                .help = "NorMuon: decay of the mean square of each row of the orthogonalised matrix"},
        {KEY("optimizer.muon_ns_steps", int, muon_ns_steps), .initial = "5", .min = 1, .max = 20,
                .help = "Muon: steps of Newton-Schulz"},
        {KEY("dpo.beta", real, dpo.beta), .min = 1e-6, .max = 1e3, .initial = "0.1",
                .help = "the reward of a response is beta times its log-probability minus that of the reference: the larger "
                        "beta, the closer the model stays to the reference"},
        {KEY("dpo.label_smoothing", real, dpo.label_smoothing), .max = 0.49, .initial = "0",
                .help = "assumed share of pairs whose responses are swapped"},
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
                .help = "projections with adapters: any of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj; "
                        "all-linear; or regular expressions for names such as model.layers.0.self_attn.q_proj"},
        {KEY("lora.adapter", text, lora.adapter), .initial = "",
                .help = "PEFT folder to begin with; rank, alpha and target_modules come from it"},
        {KEY("schedule.type", choice, schedule), .choices = schedule_choices, .initial = "cosine",
                .help = "the learning rate after the warm-up; wsd: constant, then a linear decay at the end"},
        {KEY("schedule.warmup_steps", int, warmup_steps), .choices = auto_steps, .initial = "auto",
                .max = NO_MAX,
                .help = "the learning rate rises linearly to its peak, from lr / warmup_steps in step 1; auto: a tenth of the "
                        "steps, rounded down, at most 100; 0: none"},
        {KEY("schedule.warmup_ratio", real, warmup_ratio), .max = 1, .optional = true, .none = -1,
                .initial = "null",
                .help = "share of the steps instead of warmup_steps, rounded up to whole steps"},
        {KEY("schedule.warmup_like", choice, warmup_like), .choices = warmup_choices,
                .initial = "torchtitan",
                .help = "formula for step s of w warm-up steps: torchtitan: lr s / w; transformers: lr (s - 1) / w, so that "
                        "the first rate is 0; nemo: lr s / (w + 1)"},
        {KEY("schedule.decay_steps", int, decay_steps), .initial = "0", .max = NO_MAX,
                .help = "cosine, linear: steps of the decay after the warm-up, and min_lr afterwards; 0: to the end of the "
                        "run; wsd: steps of the final decay; 0: a tenth of training.steps"},
        {KEY("schedule.min_lr", real, min_lr), .initial = "0", .max = 1e3,
                .help = "rate that the decay would reach one step after its last step, so that with 0 no step is wasted"},
        {KEY("parallel.tensor", int, tensor_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that divide each product: heads, feed-forward width and vocabulary are split among them"},
        {KEY("parallel.pipeline", int, pipeline_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that divide the layers: each has consecutive ones, the last rank fewer, since it also has the "
                        "head"},
        {KEY("parallel.schedule", choice, pipeline_schedule), .choices = schedules,
                .initial = "auto",
                .help = "order of the micro-batches in a pipeline: 1f1b: one forward, one backward; gpipe: all forwards first; "
                        "interleaved: 1f1b with virtual_stages; zb-h1: weight gradients fill the gaps; auto: 1f1b, or "
                        "interleaved with virtual stages"},
        {KEY("parallel.virtual_stages", int, virtual_stages), .initial = "1", .min = 1, .max = 32,
                .help = "model chunks of each pipeline rank: n chunks reduce the bubble to 1/n, for n times the messages"},
        {KEY("parallel.context", int, context_parallel), .initial = "1", .min = 1, .max = 1 << 10,
                .help = "ranks that divide each row, for long rows. 2 n must divide data.sequence_length for n ranks, which "
                        "pass keys and values around a ring"},
        {KEY("parallel.data", int, data_parallel), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 20,
                .help = "ranks that divide the global batch; auto: all ranks that mpirun or srun starts, divided by those of "
                        "the other axes"},
        {KEY("parallel.accumulation_groups", int, accum_groups), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 20,
                .help = "groups of consecutive micro-batches whose gradients are added in order; a tree adds the groups, so "
                        "that the bits are the same on any number of data ranks that have 1, 2, 4, ... groups each; auto: "
                        "one per data rank; with zero 2 or 3 one in all, or one per zero_group"},
        {KEY("parallel.tensor_blocks", int, tensor_blocks), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 256,
                .help = "reduction blocks of sums over dimensions that tensor ranks split; a tree adds them, so that the bits "
                        "are the same on any number of tensor ranks that have 1, 2, 4, ... blocks each; auto: 8, or as many "
                        "as heads and widths allow"},
        {KEY("parallel.context_blocks", int, context_blocks), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 256,
                .help = "reduction blocks of sums over the tokens of a row; a tree adds them, so that the bits are the same on "
                        "any number of context ranks that have 1, 2, 4, ... blocks each; auto: one per context rank; n "
                        "blocks on a rank take 4 (n - 1) more bytes per parameter"},
        {KEY("parallel.partial_sum_rows", int, partial_sum_rows), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 20,
                .help = "rows whose gradients are summed before the sum is added to that of earlier rows, a divisor of "
                        "training.micro_batch_size: equal values give the same bits with any micro-batch size; auto: 1; with "
                        "zero 2, 3 or auto, grad_dtype bf16 or backend pjrt the whole micro-batch"},
        {KEY("parallel.sequence", bool, sequence_parallel), .initial = "true",
                .help = "tensor ranks divide the tokens between products (sequence parallelism)"},
        {KEY("parallel.zero", int, given_zero), .choices = auto_levels, .initial = "1", .max = 3,
                .help = "level of ZeRO: data ranks share 0: nothing; 1: master weights and moments; 2: also the sums of "
                        "gradients; 3: also the weights; auto: the lowest of 1 to 3 that fits in memory; see docs/layouts.md"},
        {KEY("parallel.zero_group", int, zero_group), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 20,
                .help = "with zero 3: number of neighbouring data ranks, such as those of a host, that share the weights; each "
                        "such group has all of them; auto: all data ranks; see docs/layouts.md"},
        {KEY("parallel.overlap", bool, overlap), .initial = "true",
                .help = "data ranks exchange gradients during the backward pass and weights during the forward pass, with the "
                        "same bits. docs/layouts.md lists the cases without overlap; with backend pjrt its compiler decides"},
        {KEY("parallel.check_every", int, check_every), .initial = "100", .max = NO_MAX,
                .help = "steps between comparisons, by hashes, of the weights that should be equal on several ranks, which are "
                        "also compared at the start; 0: never"},
        {KEY("parallel.give_up_s", real, give_up_s), .initial = "600", .min = 6, .max = 1e6,
                .help = "seconds without a status from a rank after which the job ends on all ranks with exit status 75. It "
                        "also ends if a rank holds up an operation for this long plus 300 s"},
        {KEY("checkpoint.every", int, checkpoint_every), .initial = "100", .max = NO_MAX,
                .help = "steps between checkpoints; 0: only at the end"},
        {KEY("checkpoint.every_minutes", real, checkpoint_minutes), .initial = "0", .max = 1e9,
                .help = "also save when the last save began this many minutes ago, by rank 0's clock; 0: only by "
                        "checkpoint.every"},
        {KEY("checkpoint.keep", int, checkpoint_keep), .initial = "3", .max = NO_MAX,
                .help = "number of the newest checkpoints to keep; 0: all"},
        {KEY("checkpoint.give_up_minutes", real, checkpoint_give_up_minutes), .initial = "10",
                .max = 1e9,
                .help = "minutes of failing saves, at least three in a row, after which the run ends"},
        {KEY("backend", text, backend), .choices = backend_choices, .initial = "cpu",
                .help = "back end that computes; pjrt: an accelerator, or any other device with a PJRT plugin"},
        {KEY("device", text, device), .initial = "",
                .help = "profile of a rank's device, as for drover plan --device, for the planned times that reports compare "
                        "with measured ones; empty: a profile with the measured peak"},
        {KEY("pjrt.plugin", text, pjrt.plugin), .initial = "",
                .help = "cuda, rocm, tpu, neuron, cpu, or the file of a plugin; empty: DROVER_PJRT_PLUGIN, or the first plugin "
                        "that drover devices lists"},
        {KEY("pjrt.devices", int, pjrt.devices), .choices = auto_choices, .initial = "auto",
                .min = 1, .max = 1 << 12,
                .help = "devices of this process, each a rank of the layout of parallel.*; auto: as many as that layout has"},
        {KEY("pjrt.flags", texts, pjrt.flags), COUNT(pjrt.n_flags), .initial = "[]",
                .help = "options NAME=VALUE of the plugin's compiler, such as xla_gpu_enable_triton_gemm=False"},
        {KEY("pjrt.memory_fraction", real, pjrt.memory_fraction), .initial = "0", .max = 1,
                .help = "share of a GPU's memory that is reserved at the start; 0: the plugin's default"},
        {KEY("pjrt.cache", text, pjrt.cache), .initial = "",
                .help = "folder of compiled programs; none: compile each time; empty: DROVER_COMPILE_CACHE, or drover/compiled "
                        "in the user's cache"},
        {KEY("pjrt.cache_gib", real, pjrt.cache_gib), .initial = "10", .max = NO_MAX,
                .help = "GiB that compiled programs may take: when one is saved, the least recently used ones are removed; 0: "
                        "no limit"},
        {KEY("pjrt.compile_jobs", int, pjrt.compile_jobs), .choices = auto_choices,
                .initial = "auto", .min = 1, .max = 1 << 10,
                .help = "number of programs that are compiled at the same time; auto: one per core"},
        {KEY("pjrt.compile_gib", real, pjrt.compile_gib), .initial = "0", .max = NO_MAX,
                .help = "GiB of host memory for compiling, which limits the number of programs that are compiled at the same "
                        "time; 0: three quarters of the free memory"},
        {KEY("pjrt.logit_mib", real, pjrt.logit_mib), .initial = "0", .max = 1 << 20,
                .help = "MiB of logits in memory at a time: more means fewer and larger products of the head, and fewer passes "
                        "over its gradient; 0: 1024 with CUDA, otherwise 256"},
        {KEY("pjrt.give_up_s", real, pjrt.give_up_s), .initial = "1800", .min = 1, .max = 1e9,
                .help = "seconds without a result from a device after which the run ends with exit status 75; must exceed the "
                        "time of a step"},
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
