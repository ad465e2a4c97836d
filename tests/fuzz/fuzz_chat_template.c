// Any bytes as a chat template: a text or one line of refusal, within its time and memory.
#include <stdint.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "chat/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n > 1 << 16) return 0;
    static json_t *messages;
    if (!messages)
        messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hi", "role",
                "assistant", "content", "Ho\nho");
    arena *a = arena_new("fuzz");
    chat_template *t;
    chat_output out;
    const special_text bos = {"bos_token", "<s>"};
    const chat_input in = {.messages = messages,
            .specials = &bos,
            .n_specials = 1,
            .add_generation_prompt = n % 2};
    if (chat_template_open(a, "template", (const char *)data, n, &t) == DRV_OK &&
            chat_render(a, t, &in, &out) == DRV_OK)
        str_free(&out.text);
    arena_free(a);
    return 0;
}
