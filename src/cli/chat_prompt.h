// The prompt of drover chat: lines from standard input, commands among them, answers to the rest.
#pragma once
#include "infer/conversation.h"

// The lines of the verb's help about commands.
#define CHAT_COMMANDS_HELP                                                                         \
    "/system TEXT  the system message from now on; without TEXT: none\n"                           \
    "/reset        forget the turns; the system message stays\n"                                   \
    "/help         show these commands\n"                                                          \
    "/exit         leave, as at the end of the input and by Ctrl-C at the prompt\n"                \
    "//TEXT        a message that begins with /"

// Lets Ctrl-C (SIGINT) end an answer or, at the prompt, the conversation, from now on.
DRV_CHECKED drv_status chat_prompt_listen(void);
// Returns whether Ctrl-C was pressed; it serves as `interrupted` of generator_opts.
bool chat_prompt_interrupted(void *ctx);
// Reads and answers lines until the input ends. On a terminal a failure is reported and the
// conversation continues; otherwise it is returned, with the number of the line.
DRV_CHECKED drv_status chat_prompt_run(conversation *c);
