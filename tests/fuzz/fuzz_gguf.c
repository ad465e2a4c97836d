// Any bytes as a GGUF file: its values by every type, tensors, model and vocabulary, or a message.
#include "fuzz.h"

#include "gguf/gguf.h"

#include "gguf/llama_meta.h"
#include "gguf/vocabulary.h"

// Every value by every type.
static void read_values(arena *a, const gguf_file *f) {
    for (int i = 0; i < f->n_values; i++) {
        const char *key = f->values[i].key, *text;
        int64_t x, count;
        double real;
        bool yes;
        gguf_text *texts;
        int32_t *ints;
        float *floats;
        const drv_status all[] = {gguf_get_i64(f, key, &x), gguf_get_f64(f, key, &real),
                gguf_get_bool(f, key, &yes), gguf_get_text(a, f, key, &text),
                gguf_get_texts(a, f, key, &texts, &count), gguf_get_i32s(a, f, key, &ints, &count),
                gguf_get_f32s(a, f, key, &floats, &count)};
        (void)all;
    }
}

// Of each tensor the last row.
static void read_tensors(const gguf_file *f) {
    enum { MOST = 1 << 16 }; // elements
    float *row = mem_alloc(sizeof *row * MOST);
    for (int i = 0; i < f->n_tensors; i++) {
        const gguf_tensor *t = &f->tensors[i];
        if (gguf_cols(t) > MOST) continue;
        const drv_status status = gguf_read_f32(f, t, gguf_rows(t) - 1, 1, row);
        (void)status;
    }
    free(row);
}

// What an import makes of the metadata: it must be JSON.
static void convert(arena *a, const gguf_file *f) {
    llama_meta meta;
    bpe_lists v;
    json_t *json = NULL;
    bool found = false;
    str text = {0};
    if (llama_meta_read(a, f, &meta) == DRV_OK) json_decref(llama_config_json(&meta, "float32"));
    if (vocabulary_read(a, f, &v, &found) == DRV_OK && found) {
        bpe_tokenizer_json(&v, &text);
        if (json_read_bytes("tokenizer.json", text.p, text.n, &json) != DRV_OK) abort();
        json_decref(json);
        str_clear(&text);
        bpe_config_json(&v, &text);
        if (json_read_bytes("tokenizer_config.json", text.p, text.n, &json) != DRV_OK) abort();
        json_decref(json);
    }
    str_free(&text);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    gguf_file f;
    if (gguf_parse(a, "fuzz", bytes, n_bytes, &f) == DRV_OK) {
        read_values(a, &f);
        read_tensors(&f);
        convert(a, &f);
    }
    gguf_close(&f);
}
