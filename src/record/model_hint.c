// Suggests a command that tries a new model.
#include "record/model_hint.h"

#include "base/arena.h"
#include "base/file.h"
#include "chat/chat_model.h"

// A template that cannot be read counts as none; `drover chat` reports why.
static bool has_template(arena *a, const char *folder) {
    chat_model m;
    return chat_model_read(a, folder, false, &m) == DRV_OK && m.path;
}

void model_hint(const char *folder, str *out) {
    arena *a = arena_new("model hint");
    const bool chat = has_template(a, folder);
    if (file_exists(path_join(a, folder, "tokenizer.json"))) {
        str_puts(out, chat ? "drover chat " : "drover generate ");
        str_add_shell(out, folder);
        if (!chat) str_puts(out, " --prompt \"Once upon a time\"");
    }
    arena_free(a);
}
