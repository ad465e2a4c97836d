// What is said of a folder that does not exist, by its name.
#include "harness.h"

#include "base/file.h"
#include "base/hub_name.h"

TEST(names_of_the_hub) {
    const struct {
        const char *name, *fetched; // "": it is no name of the hub
    } cases[] = {
            {"HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M"},
            {"meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B"},
            {"org/name/", "org/name"},
            {"hf:org/name", "org/name"},
            {"hf://org/name", "org/name"},
            {"https://huggingface.co/org/name", "org/name"},
            {"https://huggingface.co/org/name/", "org/name"},
            {"https://huggingface.co/org/name/tree/main", "org/name --revision main"},
            {"huggingface.co/org/name", "org/name"},
            {"org/name@v1.0", "org/name --revision v1.0"},
            {"org/name@a $b", "org/name --revision 'a $b'"},
            {"hf:gpt2", "gpt2"},
            {"gpt2", ""},
            {"./org/name", ""},
            {"../org/name", ""},
            {"/org/name", ""},
            {"org/name/more", ""},
            {"org/", ""},
            {"org/na me", ""},
            {"org/name@", ""},
            {"hf:", ""},
            {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *want =
                *cases[i].fetched
                        ? arena_printf(a, "; to fetch it from the hub: drover model get hf:%s",
                                  cases[i].fetched)
                        : "";
        assert_string_equal(hub_hint(a, cases[i].name), want);
    }
    assert_non_null(strstr(hub_hint(a, "~/models/x"), "expanded by a shell"));
}

// models/missing beside an existing models/ is a slip, not a name of the hub.
TEST(folders_that_are_here) {
    assert_int_equal(dir_make("hub-name-test"), DRV_OK);
    assert_string_equal(hub_hint(a, "hub-name-test/missing"), "");
    assert_string_not_equal(hub_hint(a, "hf:hub-name-test/missing"), "");
    assert_int_equal(dir_remove("hub-name-test"), DRV_OK);
}
