// Facts of a folder and its run as a page of Markdown. The fields of the header: "Model Cards" in
// the hub's documentation.
#include "push/model_card.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "data/get/hub.h"
#include "watch/files/run_events.h"

typedef struct card {
    arena *a;
    const card_facts *facts;
    const json_t *trainer, *manifest, *verify; // NULL: not there
    str *out;
} card;

static json_t *read_json(arena *a, const char *folder, const char *name) {
    json_t *value = NULL;
    const char *path = path_join(a, folder, name);
    if (!file_exists(path)) return NULL;
    if (json_read_file(path, &value) != DRV_OK)
        log_warn("%s is left out of the card: %s", path, drv_message());
    return value;
}

// Returns whether the base is a name on the hub, and not a folder of this machine.
static bool is_on_hub(const char *base) {
    return hub_is_name(base) && !file_is_dir(base);
}

// Escapes the characters that have a meaning in Markdown.
static const char *plain(arena *a, const char *text) {
    str out = {0};
    for (const char *p = text; *p; p++) {
        if (strchr("\\`*_{}[]<>#|&~", *p)) str_puts(&out, "\\");
        str_add(&out, (unsigned char)*p < ' ' ? " " : p, 1);
    }
    return str_keep(a, &out);
}

// --- the header
static void yaml_text(str *out, const char *before, const char *text) {
    str_puts(out, before);
    str_add_json(out, text, strlen(text)); // JSON's strings are YAML's
    str_puts(out, "\n");
}

static const char *setting(const card *self, const char *key) {
    const char *text =
            json_string_value(json_object_get(json_object_get(self->trainer, "config"), key));
    return text ? text : "";
}

static void add_header(card *self) {
    const card_facts *facts = self->facts;
    const char *objective = setting(self, "training.objective");
    str_puts(self->out, "---\n");
    if (is_on_hub(facts->base)) yaml_text(self->out, "base_model: ", facts->base);
    if (facts->n_datasets) str_puts(self->out, "datasets:\n");
    for (int i = 0; i < facts->n_datasets; i++)
        yaml_text(self->out, "- ", facts->datasets[i]);
    if (facts->license) yaml_text(self->out, "license: ", facts->license);
    if (facts->language) yaml_text(self->out, "language: ", facts->language);
    str_printf(self->out, "library_name: %s\npipeline_tag: text-generation\ntags:\n- drover\n",
            facts->is_adapter ? "peft" : "transformers");
    if (facts->is_adapter) str_puts(self->out, "- lora\n");
    if (strcmp(objective, "dpo") == 0) str_puts(self->out, "- dpo\n");
    str_puts(self->out, "---\n\n");
}

// --- the table
static void row(card *self, const char *name, const char *text) {
    str_printf(self->out, "| %s | %s |\n", name, text);
}

static void row_count(card *self, const char *name, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) > 0)
        row(self, name, arena_printf(self->a, "%lld", (long long)json_integer_value(value)));
}

static void row_number(card *self, const char *name, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value))
        row(self, name, arena_printf(self->a, "%.4f", json_number_value(value)));
}

static void row_setting(card *self, const char *name, const char *key) {
    if (*setting(self, key)) row(self, name, plain(self->a, setting(self, key)));
}

static void add_base(card *self) {
    const char *base = self->facts->base;
    if (is_on_hub(base))
        row(self, "base", arena_printf(self->a, "[%s](https://huggingface.co/%s)", base, base));
    else if (*base)
        row(self, "base", plain(self->a, path_folder_name(self->a, base)));
}

static void add_data(card *self) {
    const json_t *sources = json_object_get(json_object_get(self->trainer, "data"), "sources");
    for (int i = 0; i < self->facts->n_datasets; i++)
        row(self, "data",
                arena_printf(self->a, "[%s](https://huggingface.co/datasets/%s)",
                        plain(self->a, self->facts->datasets[i]), self->facts->datasets[i]));
    for (size_t i = 0; i < json_array_size(sources); i++) {
        const json_t *source = json_array_get(sources, i),
                     *tokens = json_object_get(source, "tokens"),
                     *documents = json_object_get(source, "documents");
        const char *prefix = json_string_value(json_object_get(source, "prefix"));
        if (prefix && json_is_integer(tokens) && json_is_integer(documents))
            row(self, "data set",
                    arena_printf(self->a, "%s: %lld documents, %lld tokens",
                            plain(self->a, path_folder_name(self->a, prefix)),
                            (long long)json_integer_value(documents),
                            (long long)json_integer_value(tokens)));
    }
}

// Says where the last attempt ran, as its journal knows.
static void add_machine(card *self) {
    run_event_list events;
    if (!self->facts->run_dir || run_events_read(self->facts->run_dir, &events) != DRV_OK) return;
    for (int64_t i = events.n - 1; i >= 0; i--) {
        const run_event *event = &events.events[i];
        if (event->kind != EVENT_START) continue;
        const int64_t ranks = run_event_i64(event, "ranks", 0),
                      nodes = run_event_i64(event, "nodes", 0);
        const char *backend = run_event_text(event, "backend"),
                   *version = run_event_text(event, "version");
        if (ranks > 0 && nodes > 0)
            row(self, "ranks",
                    arena_printf(self->a, "%lld on %lld node%s", (long long)ranks, (long long)nodes,
                            str_plural(nodes)));
        if (*backend) row(self, "back end", plain(self->a, backend));
        if (*version) row(self, "trained by", plain(self->a, version));
        break;
    }
    run_events_free(&events);
}

static void add_table(card *self) {
    const json_t *arithmetic = json_object_get(self->trainer, "arithmetic");
    str_puts(self->out, "| | |\n|---|---|\n");
    add_base(self);
    add_data(self);
    if (self->facts->license) row(self, "licence", plain(self->a, self->facts->license));
    row_count(self, "steps", self->trainer, "step");
    row_count(self, "tokens trained on", self->trainer, "tokens");
    row_number(self, "training loss at the last step", self->trainer, "loss");
    row_number(self, "validation loss", self->trainer, "val_loss");
    row_count(self, "rows per step", self->trainer, "global_batch_size");
    row_count(self, "tokens per row", self->trainer, "sequence_length");
    row_setting(self, "objective", "training.objective");
    row_setting(self, "precision", "training.precision");
    row_setting(self, "optimizer", "optimizer.type");
    row_setting(self, "learning rate", "optimizer.lr");
    if (self->facts->is_adapter) row_setting(self, "adapter rank", "lora.rank");
    add_machine(self);
    if (json_is_string(arithmetic))
        row(self, "arithmetic", plain(self->a, json_string_value(arithmetic)));
}

// --- the proof
static bool is_hash(const char *text) {
    return text && strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static bool add_verify(card *self) {
    const json_t *v = self->verify;
    const char *hash_a = json_string_value(json_object_get(v, "hash_a")),
               *hash_b = json_string_value(json_object_get(v, "hash_b"));
    const json_t *difference = json_object_get(v, "relative_rms_difference"),
                 *bound = json_object_get(v, "bound_relative_rms");
    if (!json_is_true(json_object_get(v, "good")) || !is_hash(hash_a) || !is_hash(hash_b))
        return false;
    str_printf(self->out,
            "drover compared these weights with those they were converted from (`verify.json`): the XXH3-128 of all "
            "values as fp32 is `%s` there and `%s` here",
            hash_a, hash_b);
    if (json_is_true(json_object_get(v, "same_weights")))
        str_puts(self->out, ", so they are equal.\n");
    else if (json_is_number(difference) && json_is_number(bound))
        str_printf(self->out, "; the logits differ by %.3g of their spread (limit %.3g).\n",
                json_number_value(difference), json_number_value(bound));
    else
        str_puts(self->out, ".\n");
    return true;
}

static bool add_manifest(card *self) {
    json_t *files = json_object_get(self->manifest, "files"), *entry;
    const char *name;
    bool any = false;
    json_object_foreach(files, name, entry) {
        const char *hash = json_string_value(json_object_get(entry, "xxh3_128_blocks"));
        const bool weights =
                strncmp(name, "model", 5) == 0 || strncmp(name, "adapter_model", 13) == 0;
        if (!is_hash(hash) || !weights || !str_ends(name, ".safetensors")) continue;
        if (!any)
            str_puts(self->out,
                    "XXH3-128 (by blocks) of the weight files as the run wrote them:\n\n");
        str_printf(self->out, "- %s `%s`\n", plain(self->a, name), hash);
        any = true;
    }
    return any;
}

static void add_body(card *self) {
    const card_facts *facts = self->facts;
    const char *name = plain(self->a, path_folder_name(self->a, facts->repo));
    str_printf(self->out, "# %s\n\n%s, published with drover, a trainer for Llama models.\n\n",
            name, facts->is_adapter ? "A LoRA adapter" : "A model");
    add_table(self);
    if (self->verify || self->manifest) {
        str proof = {0}, *out = self->out;
        self->out = &proof;
        const bool compared = add_verify(self), listed = add_manifest(self);
        self->out = out;
        if (compared || listed) str_printf(out, "\n## Proof\n\n%s", proof.p);
        str_free(&proof);
    }
    if (!facts->is_adapter)
        str_printf(self->out, "\n## Use\n\n```sh\ndrover model get hf:%s\n```\n", facts->repo);
}

const char *model_card_text(arena *a, const card_facts *facts) {
    str out = {0};
    json_t *trainer = read_json(a, facts->folder, "trainer.json"),
           *manifest = read_json(a, facts->folder, "manifest.json"),
           *verify = read_json(a, facts->folder, "verify.json");
    card self = {.a = a,
            .facts = facts,
            .trainer = trainer,
            .manifest = manifest,
            .verify = verify,
            .out = &out};
    add_header(&self);
    add_body(&self);
    json_decref(trainer);
    json_decref(manifest);
    json_decref(verify);
    return str_keep(a, &out);
}
