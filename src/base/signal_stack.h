// A stack for signal handlers. A library that writes machine code while it runs, as a PJRT plugin
// may bring one, can keep values below the stack pointer, further than the 128 bytes that the
// kernel spares (System V ABI, AMD64, 3.2.2): a handler that ran there during a product of
// oneDNN 2.6 left a harmed heap behind, about once in a thousand signals.
#pragma once

// Gives the calling thread a stack of its own for handlers that are installed with SA_ONSTACK.
// Other threads keep signals out, or have products of no library. Called once, by the main thread.
void signal_stack_give(void);
