// The forms that schedulers demand of names.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

// Returns whether a text is a DNS label of RFC 1035 of at most `most` characters: a-z, 0-9 and -, a
// letter first, no - last.
bool name_is_dns_label(const char *text, size_t most);
// Returns whether it is a DNS subdomain of RFC 1123: such labels (digits may come first) with dots
// between.
bool name_is_dns_subdomain(const char *text);
// Returns whether it is the value of a label: at most 63 letters, digits, -, _ and ., a letter or
// digit first and last.
bool name_is_label(const char *text);
// Returns whether it is a key of a label, or an extended resource: "PREFIX/NAME" or "NAME".
bool name_is_label_key(const char *text);
// Returns whether it is a reference to a container image: no blanks, nothing that a shell or YAML
// minds.
bool name_is_image(const char *text);
// Returns whether it is an absolute path without a colon, a control character or a part "..".
bool name_is_mount(const char *text);
// Valid UTF-8.
bool name_is_text(const char *text);
// Returns a DNS label made of the name of a file: "a/Llama_3.1.yaml" is llama-3-1.
const char *name_of_file(arena *a, const char *path);
