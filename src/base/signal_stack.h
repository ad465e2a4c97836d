// A stack for signal handlers. The products of a library that writes its own code (oneDNN 2.6,
// which bench gemm measures) keep values below the stack pointer, further than the 128 bytes that
// the kernel spares (System V ABI, AMD64, 3.2.2): a handler that ran there while one was computed
// left a harmed heap behind, about once in a thousand signals.
#pragma once

// Gives the calling thread a stack of its own for handlers that are installed with SA_ONSTACK.
// Other threads keep signals out, or have products of no library. Called once, by the main thread.
void signal_stack_give(void);
