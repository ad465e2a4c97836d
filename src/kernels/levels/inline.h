// The declaration of functions in this folder that take types and arithmetic as constants.
#pragma once

#define INLINE static inline __attribute__((always_inline))
