// Finds the chat template of a model's folder.
#include "chat/chat_model.h"

#include <string.h>

#include "base/file.h"

enum { MAX_SPECIALS = 64 };

// A token is a text, or an object with its text as content.
static const char *token_text(const json_t *v) {
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

static void add_specials(arena *a, const json_t *config, chat_model *out) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)config, key, v) {
        const char *text = str_ends(key, "_token") ? token_text(v) : NULL;
        if (!text || out->n_specials == MAX_SPECIALS) continue;
        int i = 0;
        while (i < out->n_specials && strcmp(out->specials[i].role, key) != 0)
            i++;
        if (i < out->n_specials) continue; // tokenizer_config.json comes first
        out->specials[out->n_specials++] =
                (special_text){arena_strdup(a, key), arena_strdup(a, text)};
    }
}

static drv_status template_of(arena *a, const char *path, const json_t *v, bool tools,
        chat_model *out) {
    const char *text = json_string_value(v);
    if (!v || json_is_null(v)) return DRV_OK;
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const bool wanted = name && strcmp(name, tools ? "tool_use" : "default") == 0;
        if (wanted || (!text && name && strcmp(name, "default") == 0))
            text = json_string_value(json_object_get(one, "template"));
    }
    if (!text)
        return drv_fail(DRV_E_DATA,
                "%s: chat_template is neither a text nor a list with one named \"default\"", path);
    out->path = path;
    out->source = arena_strdup(a, text);
    out->n_source = strlen(text);
    return DRV_OK;
}

drv_status chat_model_read(arena *a, const char *folder, bool tools, chat_model *out) {
    *out = (chat_model){.specials = ARENA_ARRAY(a, special_text, MAX_SPECIALS)};
    const char *template_path = path_join(a, folder, "chat_template.jinja");
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = path_join(a, folder, files[i]);
        json_t *config;
        if (!file_exists(path)) continue;
        DRV_TRY(json_read_file(path, &config));
        add_specials(a, config, out);
        drv_status status =
                i == 0 ? template_of(a, path, json_object_get(config, "chat_template"), tools, out)
                       : DRV_OK;
        json_decref(config);
        DRV_TRY(status);
    }
    if (!file_exists(template_path)) return DRV_OK;
    char *text;
    DRV_TRY(file_read(a, template_path, &text, &out->n_source));
    out->path = template_path;
    out->source = text;
    return DRV_OK;
}
