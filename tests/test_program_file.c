// Files of the compile cache: written and read back, and the seeds of the fuzz target
// (tools/compile_cache_seeds.py), each of which reaches another branch of the reader.
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kept_programs.h"
#include "backend/pjrt/runtime/program_file.h"

// In the place of the C library's: a file that is being cut short has fewer bytes than it seems to.
static off_t bytes_that_are_gone;

int fstat(int descriptor, struct stat *out) {
    const int result = fstatat(descriptor, "", out, AT_EMPTY_PATH);
    out->st_size += bytes_that_are_gone;
    return result;
}

TEST(a_program_is_read_back) {
    const char *path = path_join(a, temporary_dir(a), "folder/program.pjrt");
    program_about about = {.key = {3, 4}, .n_devices = 2, .compile_s = 1.5, .has_facts = 1}, read;
    const unsigned char *payload;
    char *bytes;
    size_t n, n_payload;
    program_about_set(about.program,
            "a name that is longer than the place that a file has for it, which cuts it");
    about.facts.fused = 7;
    OK(program_file_write(path, &about, "compiled", 8));
    OK(file_read(a, path, &bytes, &n));
    OK(program_file_check((const unsigned char *)bytes, n, &read, &payload, &n_payload));
    assert_memory_equal(&read, &about, sizeof read);
    assert_int_equal(n_payload, 8);
    assert_memory_equal(payload, "compiled", 8);
}

// Machines that share the folder remove and replace its files at any time.
TEST(a_file_that_is_cut_short_is_damaged) {
    enum { PAGES = 2 * 4096 };
    const char *dir = temporary_dir(a), *path = path_join(a, dir, "program.pjrt");
    const program_about about = {.n_devices = 1};
    kept_program *list;
    int n;
    OK(program_file_write(path, &about, "compiled", 8));
    assert_int_equal(truncate(path, 100), 0);
    bytes_that_are_gone = PAGES;
    const drv_status status = kept_programs_list(a, dir, &list, &n);
    bytes_that_are_gone = 0;
    OK(status);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].damage, "100 bytes, expected 480 or more");
}

TEST(seeds_reach_every_branch) {
    static const char damaged[] = "its hash does not match";
    static const struct {
        const char *seed, *says; // NULL: it is read
    } seeds[] = {{"valid", NULL}, {"facts", NULL}, {"short", "479 bytes, expected 480 or more"},
            {"magic", "it does not begin with \"drvprog5\""},
            {"length", "the program has 7 bytes, expected 8"}, {"hash", damaged},
            {"program", damaged}, {"plugin", damaged}, {"kind", damaged}, {"interface", damaged},
            {"drover", damaged}};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        const char *path = path_join(a, TEST_DIR "/corpus/compile_cache", seeds[i].seed);
        program_about about;
        const unsigned char *payload;
        char *bytes;
        size_t n, n_payload;
        OK(file_read(a, path, &bytes, &n));
        const drv_status status =
                program_file_check((const unsigned char *)bytes, n, &about, &payload, &n_payload);
        if (seeds[i].says) {
            FAILS(status, DRV_E_DATA, seeds[i].says);
            continue;
        }
        OK(status);
        assert_string_equal(about.program, "step");
        assert_int_equal(n_payload, 7);
        assert_int_equal(about.facts.update_kernels, seeds[i].seed[0] == 'f' ? 11 : 0);
    }
}
