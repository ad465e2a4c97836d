// Names of the Hugging Face hub where a folder was expected.
#pragma once
#include "base/arena.h"

// Ends the message about a folder that does not exist: "; to fetch it from the hub: drover model
// get hf:ORG/NAME" where `name` names a model as people write it (ORG/NAME, hf:ORG/NAME, the
// address of its page), what stands for it where it begins with "~", else "". Lives in `a`.
const char *hub_hint(arena *a, const char *name);
