// Finds the chat template of a model's folder.
#include "chat/chat_model.h"

#include <string.h>

#include "base/file.h"
#include "model/family/model_files.h"

enum { MAX_SPECIALS = 64 };

// Returns the text of a token: a string, or the content of an object.
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
        if (i < out->n_specials) continue; // the first file that names it counts
        out->specials[out->n_specials++] =
                (special_text){arena_strdup(a, key), arena_strdup(a, text)};
    }
}

// --- where a template is
static void take(chat_model *out, const char *path, const char *source, size_t n) {
    out->path = path;
    out->source = source;
    out->n_source = n;
}

// Returns a template by name, from a list of {name, template} or an object of texts; NULL: none.
static const char *named_template(const json_t *v, const char *name) {
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        const char *its = json_string_value(json_object_get(one, "name"));
        if (its && strcmp(its, name) == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(json_object_get(v, name));
}

static drv_status template_of(arena *a, const char *path, const json_t *v, bool tools,
        chat_model *out) {
    const char *text = json_string_value(v);
    if (!v || json_is_null(v)) return DRV_OK;
    if (!text && tools) text = named_template(v, "tool_use");
    if (!text) text = named_template(v, "default");
    if (!text)
        return drv_fail(DRV_E_DATA,
                "%s: chat_template is neither a text nor a list with one named \"default\"", path);
    take(out, path, arena_strdup(a, text), strlen(text));
    return DRV_OK;
}

// Takes the templates in files, which override those of tokenizer_config.json.
static drv_status take_files(arena *a, const char *folder, bool tools, chat_model *out) {
    const char *usual = path_join(a, folder, "chat_template.jinja"),
               *tool_use = path_join(a, folder, TOOL_TEMPLATE_FILE);
    const bool has_tool_use = file_exists(tool_use);
    if (!file_exists(usual) && !has_tool_use) return DRV_OK;
    const char *path = tools && has_tool_use ? tool_use : usual;
    if (!file_exists(path))
        return drv_fail(DRV_E_DATA,
                "%s is there without a chat_template.jinja, which conversations without tools need",
                tool_use);
    char *text;
    size_t n;
    DRV_TRY(file_read(a, path, &text, &n));
    take(out, path, text, n);
    return DRV_OK;
}

drv_status chat_model_read(arena *a, const char *folder, bool tools, chat_model *out) {
    *out = (chat_model){.specials = ARENA_ARRAY(a, special_text, MAX_SPECIALS)};
    json_t *configs[2] = {0};
    const char *paths[] = {path_join(a, folder, "tokenizer_config.json"),
            path_join(a, folder, "special_tokens_map.json")};
    drv_status status = DRV_OK;
    for (int i = 0; i < 2 && status == DRV_OK; i++)
        if (file_exists(paths[i])) status = json_read_file(paths[i], &configs[i]);
    // If the config defines all added tokens, the older file is ignored.
    if (!json_object_get(configs[0], "added_tokens_decoder")) add_specials(a, configs[1], out);
    add_specials(a, configs[0], out);
    if (status == DRV_OK) status = take_files(a, folder, tools, out);
    if (status == DRV_OK && !out->path)
        status = template_of(a, paths[0], json_object_get(configs[0], "chat_template"), tools, out);
    json_decref(configs[0]);
    json_decref(configs[1]);
    return status;
}
