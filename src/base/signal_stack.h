// A stack for signal handlers. A library with generated code, as a PJRT plugin may bring one, can
// keep values below the stack pointer, beyond the red zone of 128 bytes that the kernel preserves
// (System V ABI, AMD64, 3.2.2): with oneDNN 2.6 handlers on the same stack corrupted memory about
// once in a thousand signals.
#pragma once

// Gives the calling thread a separate stack for handlers that are installed with SA_ONSTACK. Other
// threads block signals or do not call such libraries. Called once, by the main thread.
void signal_stack_give(void);
