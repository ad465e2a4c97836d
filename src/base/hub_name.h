// Names of the Hugging Face hub where a folder was expected.
#pragma once
#include "base/arena.h"

// Returns the end of a message about a folder that does not exist. If `name` is a model of the hub
// as people write it (ORG/NAME, hf:ORG/NAME, the address of its page), it gives the command: "; to
// fetch it from the hub: drover model get hf:ORG/NAME". If it begins with "~", it says that only a
// shell expands that. Otherwise it is "".
const char *hub_hint(arena *a, const char *name);
