// Suggests a command that tries a model.
#pragma once
#include "base/str.h"

// Appends "drover chat FOLDER" for a model that has a chat template, else "drover generate FOLDER
// --prompt ..."; nothing for one without a tokenizer.
void model_hint(const char *folder, str *out);
