// Messages between the nodes of a job that is being started: frames over a socket whose two ends
// have proven the secret (comm/handshake.h). A frame is, in bytes of little-endian machines:
//
//   4 kind, 4 length of the text, the text, 32 of HMAC-SHA256(session key, side || number || all
//   before)
//
// The text is fields that each end in a NUL. `number` counts the frames of a side, so that none can
// be left out, doubled or sent back. Nothing here waits.
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "comm/handshake.h"

typedef enum control_kind {
    CONTROL_HELLO = 1, // node -> head: version, node rank, nodes, ranks per node, host name, a
                       // number that tells this process from another one
    CONTROL_WELCOME,   // head -> node: address of the head, 1: attempts may follow each other
    CONTROL_REFUSED,   // head -> node: exit status, why
    CONTROL_COMMAND, // head -> node: place in the attempt, nodes of it, how many variables, those,
                     // the daemon and its arguments; agent -> head: host, words
    CONTROL_RESULT,  // node -> head: how its ranks ended (outcome.h), as text; 1: the system has
                     // killed a process for want of memory
    CONTROL_LEAVE,   // node -> head: asked to stop
    CONTROL_OVER,    // head -> node: the attempt has ended, to end what is left of it
    CONTROL_READY,   // node -> head: nothing is left of it
    CONTROL_END,     // head -> node, agent: exit status, why ("": nothing to say)
    CONTROL_BEAT,    // both: still there
    N_CONTROL_KINDS
} control_kind;

enum { CONTROL_MAX_TEXT = 1 << 20, CONTROL_MAX_FIELDS = 4096 };
#define CONTROL_SILENT_S 60.0 // a side that has not been heard of for so long is gone

typedef struct control {
    int fd; // -1: none; belongs to the control
    bool calls, closed;
    job_secret key;
    uint64_t n_sent, n_received;
    str in, out, text;      // text: of the message that was taken last
    double heard_s, beat_s; // clock
    int n_silent;           // of host_is_gone
    const char **fields;    // of that message
} control;

typedef struct control_message { // lives until the next one is taken
    control_kind kind;
    const char **field;
    int n_fields;
} control_message;

void control_open(control *self, int fd, bool calls, const job_secret *key);
void control_close(control *self); // fine when it is not open
void control_send(control *self, control_kind kind, const char *const *fields, int n_fields);
// Sends and receives what can be at once, and a beat when it is time; self->closed: the other side
// is gone, its host cut off, silent for too long, or speaks another language.
void control_pump(control *self);
// Takes the next whole message; false: none is there.
bool control_take(control *self, control_message *out);
// Returns a field as a number from 0; -1: it is none.
int control_number(const char *field);
// Sends what is left, for `seconds` at most.
void control_flush(control *self, double seconds);
