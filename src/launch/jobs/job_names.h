// Checks that names have the forms that schedulers require.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

// Returns whether a text is a DNS label of RFC 1035 of at most `most` characters: a-z, 0-9 and -,
// beginning with a letter and not ending in -.
bool name_is_dns_label(const char *text, size_t most);
// Returns whether it is a DNS subdomain of RFC 1123: such labels, which may begin with digits,
// separated by dots.
bool name_is_dns_subdomain(const char *text);
// Returns whether it is a valid label value: at most 63 letters, digits, -, _ and ., beginning and
// ending with a letter or digit.
bool name_is_label(const char *text);
// Returns whether it is a label key or an extended resource: "PREFIX/NAME" or "NAME".
bool name_is_label_key(const char *text);
// Returns whether it is a reference to a container image, without blanks and characters that are
// special in a shell or YAML.
bool name_is_image(const char *text);
// Returns whether it is an absolute path without a colon, a control character or a part "..".
bool name_is_mount(const char *text);
// Returns whether it is valid UTF-8.
bool name_is_text(const char *text);
// Makes a DNS label of a file's name: "a/Llama_3.1.yaml" becomes llama-3-1.
const char *name_of_file(arena *a, const char *path);
