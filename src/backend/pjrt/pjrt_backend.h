// Settings of an open PJRT back end that tests change, before its first program.
#pragma once
#include "backend/backend_kinds.h"
#include "backend/pjrt/stablehlo/lower.h"

// b must come from backend_open_pjrt.
lower_options *pjrt_lowering(backend *b);
