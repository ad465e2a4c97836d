// Derives the shape, the precision and LoRA from several foreign keys together.
#include <string.h>

#include "backend/caps/backend_caps.h"
#include "base/file.h"
#include "config/key.h"
#include "config/model_config.h"
#include "translate/translation.h"

// --- the shape
// Takes the fields of config.json, unless the foreign config gives them itself.
static drv_status add_config_json(translation *self, const value *path) {
    model_config shape;
    const char *file =
            file_is_dir(path->text) ? path_join(self->a, path->text, "config.json") : path->text;
    const drv_status status = model_config_read(file, &shape);
    if (status != DRV_OK)
        return drv_context(DRV_E_USAGE,
                "%s: \"%s\" is the config.json of the model (give another by --set model.preset=NAME or "
                "--set model.from=DIR)",
                path->where, path->path);
    for (int i = 0; i < n_model_keys; i++) {
        const key *k = &model_keys[i];
        if (shape.rope_type == ROPE_DEFAULT && str_starts(k->path, "rope_scaling.")) continue;
        if (str_ends(k->path, "_token_id")) continue; // the tokenizer's
        const char *name = arena_printf(self->a, "model.%s", k->path);
        if (translation_get(self, name)) continue;
        translation_set(self, name, key_text(self->a, k, &shape), path, NULL);
    }
    return DRV_OK;
}

static drv_status derive_shape(translation *self) {
    const value *json = fact_take(self, "model_config"), *from = fact_take(self, "from");
    // NxD's scripts start from fresh weights of this shape, others from the weights of the folder.
    if (json && !from && (self->kinds & FOREIGN_ARGS) && *self->program && !program_is_nxd(self) &&
            json->kind == VALUE_TEXT && !str_ends(json->text, ".json")) {
        from = json;
        json = NULL;
    }
    const bool other =
            translation_given(self, "model.from") || translation_given(self, "model.preset");
    static const char *const counts[] = {"num_layers", "hidden_size"};
    static const char *const keys[] = {"model.num_hidden_layers", "model.hidden_size"};
    for (int i = 0; i < 2; i++) {
        const value *v = fact_take(self, counts[i]);
        if (v && !says(v, "-1"))
            translation_set(self, keys[i], value_yaml(self->a, v, false), v, NULL);
        else if (v)
            report_add(self, NO_EFFECT, v, "config.json gives it");
    }
    if (from) {
        if (other)
            report_add(self, NO_EFFECT, from, "--set gives the model");
        else
            translation_set(self, "model.from", value_yaml(self->a, from, true), from,
                    file_is_dir(from->text)
                            ? NULL
                            : arena_printf(self->a,
                                      "which is not a folder here yet: drover model get %s",
                                      path_for_shell(self->a,
                                              arena_printf(self->a, "hf:%s", from->text))));
    }
    if (!json || json->kind != VALUE_TEXT) return DRV_OK;
    if (other || from) {
        report_add(self, NO_EFFECT, json, "the model is given otherwise");
        return DRV_OK;
    }
    return add_config_json(self, json);
}

// Refuses initial weights in shards that only NxD reads.
static void derive_weights(translation *self) {
    const value *from = fact_take(self, "pretrained");
    if (from && translation_given(self, "model.from"))
        report_add(self, NO_EFFECT, from,
                "--set gives model.from, with which the run begins; started again it goes on from its own newest "
                "checkpoint, where NxD Training would load the first weights again");
    else if (from)
        report_printf(self, CHANGES, from,
                "is %s; make a Hugging Face folder of NxD's shards by drover ckpt import, and give it by --set model.from=DIR",
                value_shown(self->a, from));
    fact_drop(self, "weight_init_only",
            "model.from is weights alone; a run resumes all of its state");
}

// --- precision
typedef struct kept_types { // NULL: drover's default
    const char *precision, *moments, *masters, *grads;
} kept_types;

static void set_types(translation *self, const value *from, const kept_types *types,
        const char *remark) {
    translation_set(self, "training.precision", types->precision, from, remark);
    if (types->moments) translation_set(self, "optimizer.state_dtype", types->moments, from, NULL);
    if (types->masters) translation_set(self, "optimizer.master_dtype", types->masters, from, NULL);
    if (types->grads) translation_set(self, "training.grad_dtype", types->grads, from, NULL);
}

static kept_types fp32_kept(void) {
    return (kept_types){"bf16", "fp32", "fp32", "fp32"};
}

// The values of NxD Training's precision.type. Its optimizer adamw_fp32OptState has fp32 moments.
static void derive_type(translation *self, const value *type, bool fp32_moments) {
    const value *masters = fact_take(self, "master_weights"),
                *grads = fact_take(self, "fp32_grad_acc");
    const value *use = fact_take(self, "xla_use_bf16"),
                *downcast = fact_take(self, "xla_downcast_bf16");
    const value *const rest[] = {masters, grads, use, downcast};
    kept_types types = fp32_kept();
    const char *remark = NULL;
    const bool manual = says(type, "manual");
    if (says(type, "bf16SR")) {
        types = (kept_types){"bf16", fp32_moments ? "fp32" : "bf16", "bf16", "bf16"};
        remark = "rounded stochastically";
    } else if (says(type, "fp32")) {
        types = (kept_types){"fp32", NULL, NULL, NULL};
    } else if (manual) {
        const bool kept = masters && says_true(masters), summed = grads && says_true(grads);
        const bool bf16 = (use && says_true(use)) || (downcast && says_true(downcast)) || kept;
        types = (kept_types){bf16 ? "bf16" : "fp32", NULL, NULL, NULL};
        if (bf16)
            types = (kept_types){"bf16", kept || fp32_moments ? "fp32" : "bf16",
                    kept ? "fp32" : "bf16", summed ? "fp32" : "bf16"};
    } else if (says(type, "mixed_precisionSR")) {
        remark = "as mixed_precision: with fp32 masters nothing is left to round stochastically";
    } else if (!says(type, "mixed_precision") && !says(type, "autocast")) {
        report_printf(self, REFUSED, type,
                "is %s, expected bf16SR, mixed_precision, mixed_precisionSR, fp32, autocast or manual",
                value_shown(self->a, type));
        return;
    }
    const char *zero = translation_get(self, "parallel.zero");
    if (zero && strcmp(zero, "0") == 0 && !manual && types.masters &&
            strcmp(types.masters, "fp32") == 0) {
        types = (kept_types){"bf16", fp32_moments ? "fp32" : "bf16", "bf16", "bf16"};
        remark = "without zero1 there are no masters there; here what is kept in bf16 is rounded "
                 "stochastically";
    }
    set_types(self, type, &types, remark);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i])
            report_add(self, manual ? TRANSLATED : NO_EFFECT, rest[i],
                    manual ? "types of weights, moments and sums" : "precision.type decides it");
}

// Axolotl's optimizers: all implementations of AdamW, and Muon, whose steps it scales as drover
// does (axolotl-contribs-mit 0.0.6, muon.py: adjust_lr_for_muon).
static void derive_optimizer(translation *self) {
    static const char *const adamw[] = {"adamw_torch", "adamw_torch_fused", "adamw_hf",
            "adamw_apex_fused"};
    const value *name = fact_take(self, "optimizer");
    if (!name) return;
    const bool muon = says(name, "muon") || says(name, "normuon");
    if (muon && translation_get(self, "lora.rank")) {
        report_printf(self, CHANGES, name, "is %s, for LoRA's matrices, too; they are AdamW's here",
                value_shown(self->a, name));
        return;
    }
    if (muon) {
        translation_set(self, "optimizer.type", name->text, name,
                "all but the layers' matrices: AdamW");
        return;
    }
    for (size_t i = 0; i < sizeof adamw / sizeof *adamw; i++)
        if (says(name, adamw[i])) {
            report_add(self, NO_EFFECT, name, "it is AdamW");
            return;
        }
    report_printf(self, CHANGES, name, "is %s; optimizer.type is adamw, muon or normuon",
            value_shown(self->a, name));
}

static void derive_precision(translation *self) {
    const value *type = fact_take(self, "precision"), *optim = fact_take(self, "optim"),
                *amp = fact_take(self, "amp_O2"), *zero = fact_take(self, "zero_masters");
    const bool fp32_moments =
            optim && (says(optim, "adamw_fp32OptState") || says(optim, "adamw_fp32optstate"));
    if (optim && !fp32_moments && !says(optim, "adamw"))
        report_printf(self, CHANGES, optim,
                "is %s; the optimizer is AdamW, or --set optimizer.type's",
                value_shown(self->a, optim));
    else if (optim)
        report_add(self, TRANSLATED, optim,
                fp32_moments
                        ? "AdamW with fp32 moments; eps is added after the bias correction, and weight decay applies "
                          "to the old weights"
                        : "AdamW");
    if (type) {
        derive_type(self, type, fp32_moments);
        return;
    }
    const value *use = fact_take(self, "xla_use_bf16"),
                *downcast = fact_take(self, "xla_downcast_bf16");
    const value *bf16 = fact_take(self, "bf16"), *masters = fact_take(self, "masters");
    const value *summed = fact_take(self, "fp32_grad_acc");
    const bool kept = (amp && says_true(amp)) || (masters && says_true(masters)) ||
                      (zero && says_true(zero)) || (downcast && says_true(downcast)) ||
                      fp32_moments;
    const value *const say[] = {zero, amp, masters};
    for (size_t i = 0; i < sizeof say / sizeof *say; i++)
        if (say[i])
            report_add(self, TRANSLATED, say[i],
                    says_true(say[i]) ? "fp32 masters" : "no fp32 masters");
    if (summed)
        report_add(self, TRANSLATED, summed, "sums of gradients are fp32 beside fp32 masters");
    const kept_types rounded = {"bf16", "bf16", "bf16", "bf16"}, fp32 = {"fp32", NULL, NULL, NULL},
                     mixed = fp32_kept();
    const value *from = use && says_true(use) ? use : downcast;
    if (from && says_true(from))
        set_types(self, from, kept ? &mixed : &rounded, kept ? NULL : "rounded stochastically");
    const bool half = bf16 && (says(bf16, "fp16") || says(bf16, "fp8"));
    if (half)
        report_printf(self, CHANGES, bf16, "is %s; training.precision is bf16 or fp32",
                value_shown(self->a, bf16));
    else if (bf16 && (says_true(bf16) || says(bf16, "bf16") || says(bf16, "full")))
        set_types(self, bf16, &mixed, says(bf16, "auto") ? "which the device has" : NULL);
    else if (bf16 && (says(bf16, "false") || says(bf16, "no") || says(bf16, "0")))
        set_types(self, bf16, &fp32, NULL);
    else if (bf16)
        report_printf(self, REFUSED, bf16, "is %s, expected true or false",
                value_shown(self->a, bf16));
}

// --- LoRA
// Returns the projections that NxD's fused ones consist of.
static const char *const *parts_of(const value *module) {
    static const char *const qkv[] = {"q_proj", "k_proj", "v_proj", NULL},
                             *const gate_up[] = {"gate_proj", "up_proj", NULL};
    if (says(module, "qkv_proj")) return qkv;
    return says(module, "gate_up_proj") ? gate_up : NULL;
}

static void add_target(arena *a, str *list, const value *module) {
    const char *const *parts = parts_of(module);
    if (!parts) {
        str_printf(list, "%s%s", list->n ? ", " : "", value_yaml(a, module, false));
        return;
    }
    for (; *parts; parts++)
        str_printf(list, "%s%s", list->n ? ", " : "", *parts);
}

static void derive_targets(translation *self, const value *v) {
    str list = {0};
    bool fused = false;
    if (v->kind == VALUE_LIST)
        for (int i = 0; i < v->n; i++) {
            add_target(self->a, &list, &v->items[i]);
            fused |= says(&v->items[i], "qkv_proj") || says(&v->items[i], "gate_up_proj");
        }
    else if (v->kind == VALUE_TEXT) // "q_proj,v_proj" or "q_proj v_proj"
        for (char *rest = arena_strdup(self->a, v->text), *name; (name = strsep(&rest, ", "));) {
            const value module = {.kind = VALUE_TEXT, .text = name};
            if (*name) add_target(self->a, &list, &module);
        }
    if (list.n > 0)
        translation_set(self, "lora.target_modules", arena_printf(self->a, "[%s]", list.p), v,
                fused ? "each projection has an A of its own, where NxD's fused ones share it"
                      : NULL);
    str_free(&list);
}

// Returns whether LoRA is on. TRL needs --use_peft, Axolotl an adapter, NeMo a scheme, if one is
// given; for other programs the options of LoRA are enough.
static bool lora_is_used(translation *self, const value *adapter, const value *use) {
    if (self->kinds & FOREIGN_AXOLOTL) return adapter && !says(adapter, "");
    if (self->kinds & FOREIGN_NEMO)
        return use ? says(use, "lora") : !fact_is_said(self, "use_lora");
    if (use || !(self->kinds & FOREIGN_ARGS)) return !use || says_true(use);
    return !program_is_trl(self);
}

// LoRA without a rank: an error in the other trainer, or a default that only the program knows.
static void derive_rank(translation *self, const value *asked) {
    if (!asked || translation_get(self, "lora.rank") || translation_get(self, "lora.adapter"))
        return;
    report_add(self, REFUSED, asked, "asks for LoRA without a rank; give --set lora.rank=N");
}

static void derive_lora(translation *self) {
    static const char *const names[] = {"lora_rank", "lora_alpha", "lora_dropout", "use_rslora"};
    static const char *const keys[] = {"lora.rank", "lora.alpha", "lora.dropout",
            "lora.use_rslora"};
    const value *adapter = fact_take(self, "adapter"), *use = fact_take(self, "use_lora"),
                *linear = fact_take(self, "target_linear");
    const value *targets = fact_take(self, "targets");
    const bool on = lora_is_used(self, adapter, use);
    const bool nemo = self->kinds & FOREIGN_NEMO, scheme = use && nemo && !on && !says(use, "none");
    if (adapter && says(adapter, "qlora"))
        report_add(self, CHANGES, adapter,
                "is \"qlora\"; model.base_dtype q4_k holds a frozen model in 4 bits, in blocks of ggml, "
                "not NF4");
    else if (adapter)
        report_add(self, says(adapter, "lora") ? TRANSLATED : REFUSED, adapter,
                says(adapter, "lora") ? "lora.rank above 0" : "expected lora");
    if (scheme)
        report_printf(self, REFUSED, use, "is %s, expected lora or null",
                value_shown(self->a, use));
    else if (use)
        report_add(self, TRANSLATED, use, on ? "lora.rank above 0" : "lora.rank 0");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const value *v = fact_take(self, names[i]);
        if (v && on)
            translation_set(self, keys[i], value_yaml(self->a, v, false), v,
                    nemo && !use ? "taken for LoRA, since peft_scheme is left out" : NULL);
        else if (v)
            report_add(self, NO_EFFECT, v, "LoRA is off");
    }
    fact_set(self, "lora_model_dir", "lora.adapter", true);
    if (linear && on && says_true(linear))
        translation_set(self, "lora.target_modules", "all-linear", linear, NULL);
    else if (linear)
        report_add(self, NO_EFFECT, linear, "it is off");
    if (targets && on)
        derive_targets(self, targets);
    else if (targets)
        report_add(self, NO_EFFECT, targets, "LoRA is off");
    if (on) derive_rank(self, adapter ? adapter : use);
}

// Derives the type in which a program keeps the weights: with bfloat16 there are no fp32 master
// weights, except for the adapters of PEFT.
static void derive_dtype(translation *self) {
    const value *dtype = fact_take(self, "dtype"), *bf16 = fact_take(self, "bf16");
    if ((self->kinds & FOREIGN_AXOLOTL) && bf16 && says_true(bf16) &&
            !translation_get(self, "lora.rank") &&
            !translation_given(self, "optimizer.master_dtype"))
        report_add(self, DIFFERS, bf16,
                "holds the weights of the layers in bf16 alone there; here fp32 masters are updated, or, with --set "
                "optimizer.master_dtype=bf16, bf16 is rounded stochastically");
    if (!dtype) return;
    const char *text = dtype->kind == VALUE_TEXT ? dtype->text : "";
    const char *name = str_starts(text, "torch.") ? text + strlen("torch.") : text;
    const kept_types rounded = {"bf16", "bf16", "bf16", "bf16"}, mixed = fp32_kept();
    if (strcmp(name, "float32") == 0)
        report_add(self, NO_EFFECT, dtype, "weights are kept in fp32");
    else if (strcmp(name, "bfloat16") == 0 && translation_get(self, "lora.rank"))
        set_types(self, dtype, &mixed, "the base; adapters are kept in fp32");
    else if (strcmp(name, "bfloat16") == 0)
        set_types(self, dtype, &rounded, "without fp32 masters; here it is rounded stochastically");
    else if (strcmp(name, "auto") == 0)
        report_add(self, DIFFERS, dtype,
                "is that of the model's files; here weights are kept in fp32 beside those of training.precision");
    else
        report_printf(self, CHANGES, dtype, "is %s; weights are kept in fp32 or bf16",
                value_shown(self->a, dtype));
}

// Says where activations wait for the backward pass. Axolotl's checkpointing may say it, too
// (src/axolotl/utils/schemas/validation.py).
static void derive_offload(translation *self, const value *offload) {
    const char *backend = translation_get(self, "backend");
    const bool on_device = backend && !backend_caps_of(backend)->uses_host_memory;
    if (offload->kind == VALUE_NULL || says(offload, "false"))
        report_add(self, NO_EFFECT, offload, "it is off");
    else if (!on_device)
        report_add(self, NO_EFFECT, offload,
                "activations are in the host's memory already; on a device (--set backend=pjrt) it is training.offload: activations");
    else if (translation_number(self, "parallel.pipeline", 1) > 1)
        report_add(self, NO_EFFECT, offload, "a pipeline keeps its activations on the device");
    else
        translation_set(self, "training.offload", "activations", offload,
                "those that training.recompute leaves");
}

static void derive_checkpointing(translation *self) {
    const value *recompute = fact_take(self, "checkpointing"),
                *offload = fact_take(self, "offload");
    const bool both = recompute && (says(recompute, "offload") || says(recompute, "offload_disk") ||
                                           says(recompute, "unsloth"));
    if (recompute && (both || says_true(recompute) || says(recompute, "false")))
        translation_set(self, "training.recompute", says(recompute, "false") ? "none" : "full",
                recompute, NULL);
    else if (recompute)
        report_printf(self, REFUSED, recompute,
                "is %s, expected true, false, offload, offload_disk or unsloth",
                value_shown(self->a, recompute));
    if (offload || both) derive_offload(self, offload ? offload : recompute);
}

static void derive_decay(translation *self) {
    const value *decay = fact_take(self, "weight_decay"), *norms = fact_take(self, "decay_norms"),
                *source = fact_take(self, "model_source");
    const bool hf = source && says(source, "hf");
    double x;
    if (source) report_add(self, NO_EFFECT, source, "the model is the same Llama");
    if (decay) {
        const bool ignored =
                hf && decay->kind == VALUE_TEXT && str_to_f64(decay->text, &x) && x != 0.01;
        translation_set(self, "optimizer.weight_decay", value_yaml(self->a, decay, false), decay,
                ignored ? "as the file says; NxD Training takes 0.01 whatever it says" : NULL);
    }
    if (norms)
        translation_set(self, "optimizer.decay_norms", says_true(norms) ? "true" : "false", norms,
                hf ? "as the file says; NxD Training does the opposite" : NULL);
}

// --- sharding
// Returns the level of parallel.zero that a sharding has; NULL: none is known. DeepSpeed's level is
// in the name of its file, as in those that Axolotl brings (deepspeed_configs/zero2.json).
static const char *zero_of(arena *a, const value *v) {
    static const char *const levels[][2] = {{"zero1", "1"}, {"zero2", "2"}, {"zero3", "3"},
            {"full_shard", "3"}, {"shard_grad_op", "2"}, {"hybrid_shard", "3"}, {"no_shard", "0"},
            {"true", "3"}, {"false", "2"}};
    const char *text = value_yaml(a, v, false);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcasestr(text, levels[i][0])) return levels[i][1];
    return NULL;
}

// Translates what data ranks share, which changes no result. FSDP 2 says it by a switch.
static void derive_sharding(translation *self) {
    const value *v = fact_take(self, "resharding");
    if (!v) v = fact_take(self, "sharding");
    if (!v) return;
    const bool by_file = strcmp(v->path, "deepspeed") == 0;
    const char *level = zero_of(self->a, v);
    if (strcmp(v->path, "fsdp") == 0 &&
            (says(v, "false") || says(v, "") || (v->kind != VALUE_TEXT && v->n == 0)))
        report_add(self, NO_EFFECT, v, "it is off");
    else if (level || translation_given(self, "parallel.zero"))
        translation_set(self, "parallel.zero", level, v,
                by_file ? "by the file's name; its other settings are not read" : NULL);
    else
        report_printf(self, CHANGES, v,
                "is %s; sharding is parallel.zero here, and the rest of its settings is not read",
                value_shown(self->a, v));
}

drv_status derive_model(translation *self) {
    DRV_TRY(derive_shape(self));
    derive_sharding(self);
    derive_weights(self);
    derive_precision(self);
    derive_lora(self);
    derive_dtype(self);
    derive_optimizer(self);
    derive_decay(self);
    derive_checkpointing(self);
    return DRV_OK;
}
