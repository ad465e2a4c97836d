// Any bytes as a chat template: a text or one line of refusal, within its time and memory.
#include "fuzz.h"

#include "base/parallel.h"
#include "chat/chat_template.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes > 1 << 16) return;
    static json_t *messages;
    if (!messages)
        messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hi", "role",
                "assistant", "content", "Ho\nho");
    chat_template *t;
    chat_output out;
    const special_text bos = {"bos_token", "<s>"};
    const chat_input in = {.messages = messages,
            .specials = &bos,
            .n_specials = 1,
            .add_generation_prompt = n_bytes % 2};
    if (chat_template_open(a, "template", (const char *)bytes, n_bytes, &t) == DRV_OK &&
            chat_render(a, t, &in, &out) == DRV_OK)
        str_free(&out.text);
}
