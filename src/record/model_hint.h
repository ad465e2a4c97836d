// Suggests a command that tries a model.
#pragma once
#include "base/str.h"

// Appends "drover chat FOLDER" if the model has a chat template, otherwise "drover generate FOLDER
// --prompt ..."; nothing if it has no tokenizer.
void model_hint(const char *folder, str *out);
