// Defines the chat forms, and writes their files.
#include "chat/chat_form.h"

#include <string.h>

#include "base/file.h"

// ChatML: OpenAI's chatml.md (github.com/openai/openai-python, release 0.28), in the form that Qwen
// and SmolLM2 use.
static const char chatml[] =
        "{%- for message in messages %}\n"
        "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "{{- '<|im_start|>assistant\\n' }}\n"
        "{%- endif %}";

// Llama 3: "Llama 3 prompt formats" (llama.com/docs/model-cards-and-prompt-formats/meta-llama-3).
static const char llama3[] =
        "{{- bos_token }}\n"
        "{%- for message in messages %}\n"
        "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim"
        " + '<|eot_id|>' }}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
        "{%- endif %}";

static const chat_form forms[] = {
        {.name = "chatml",
                .template = chatml,
                .markers = {"<|im_start|>", "<|im_end|>"},
                .turn_end = "<|im_end|>",
                .eos = "<|endoftext|>"},
        {.name = "llama3",
                .template = llama3,
                .markers = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
                .turn_end = "<|eot_id|>",
                .bos = "<|begin_of_text|>",
                .eos = "<|end_of_text|>"},
};

const chat_form *chat_form_of(const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

static json_t *generation_config(const chat_form_ids *ids) {
    json_t *file = json_object(), *ends = json_array();
    if (ids->bos >= 0) json_object_set_new(file, "bos_token_id", json_integer(ids->bos));
    if (ids->eos >= 0) json_array_append_new(ends, json_integer(ids->eos));
    if (ids->turn_end != ids->eos) json_array_append_new(ends, json_integer(ids->turn_end));
    json_object_set_new(file, "eos_token_id", ends);
    if (ids->pad >= 0) json_object_set_new(file, "pad_token_id", json_integer(ids->pad));
    return file;
}

drv_status chat_form_write(const chat_form *form, const chat_form_ids *ids, const char *folder) {
    arena *a = arena_new("chat files");
    drv_status status = file_write_atomic(path_join(a, folder, "chat_template.jinja"),
            form->template, strlen(form->template));
    if (status == DRV_OK)
        status = json_write_file(path_join(a, folder, "generation_config.json"),
                generation_config(ids));
    arena_free(a);
    return status;
}
