// manifest.json of a checkpoint, beside files that stay the same: whatever it says, verification
// ends with a verdict; what it accepts names these files as they are, so that a changed byte is
// seen.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char folder[] = "/tmp/drover-fuzz-XXXXXX";
static const char *const names[] = {"config.json", "trainer.json", "optimizer.safetensors",
        "model.safetensors"};
enum { N_NAMES = sizeof names / sizeof *names };

static void write_one(const char *name, const void *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    DRV_ASSERT(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

static void remove_folder(void) {
    if (dir_remove(folder) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

static void make_folder(void) {
    static bool made;
    if (made) return;
    made = mkdtemp(folder) != NULL;
    DRV_ASSERT(made, "%s", folder);
    for (int i = 0; i < N_NAMES; i++)
        write_one(names[i], names[i], strlen(names[i])); // each holds its own name
    atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    make_folder();
    write_one("manifest.json", bytes, n_bytes);
    if (ckpt_verify(folder) != DRV_OK) return 0;
    write_one(names[2], "optimizer.safetensorS", strlen(names[2]));
    if (ckpt_verify(folder) == DRV_OK) abort();
    write_one(names[2], names[2], strlen(names[2]));
    return 0;
}
