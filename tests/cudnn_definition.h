// The two calls of cuDNN's attention by their definition, as handlers for a processor: from the
// operands and the configuration that the program has, in double. Results that cuDNN would not
// write are NaN.
#pragma once
#include "ffi_abi.h"

ffi_error *cudnn_forward(ffi_frame *frame), *cudnn_forward_masked(ffi_frame *frame),
        *cudnn_backward(ffi_frame *frame), *cudnn_backward_masked(ffi_frame *frame);
