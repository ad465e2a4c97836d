// Says how functions of this folder are declared that take types and arithmetic as constants.
#pragma once

#define INLINE static inline __attribute__((always_inline))
