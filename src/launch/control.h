// Messages between the nodes of a job that is being started: frames over a socket whose two ends
// have proved their secret (comm/handshake.h). A frame is, in bytes of little-endian machines:
//
//   4 kind, 4 length of the text, the text, 32 of HMAC-SHA256(session key, side || number || all
//   before)
//
// The text consists of fields that each end in a NUL. `number` counts the frames of a side, so that
// none can be dropped, repeated or sent back. Nothing here blocks.
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "comm/handshake.h"

typedef enum control_kind {
    CONTROL_HELLO = 1, // node -> head: version, node rank, nodes, ranks per node, host name, the id
                       // of this process
    CONTROL_WELCOME,   // head -> node: address of the head, 1: further attempts may follow
    CONTROL_REFUSED,   // head -> node: exit status, why
    CONTROL_COMMAND,   // head -> node: place and nodes of the attempt, number of variables, the
                       // variables, the daemon and its arguments; agent -> head: host, words
    CONTROL_RESULT,    // node -> head: how its ranks ended (outcome.h), as text; 1: the system has
                       // killed a process for lack of memory
    CONTROL_LEAVE,     // node -> head: a signal has asked it to stop
    CONTROL_OVER,      // head -> node: the attempt has ended; end what is left of it
    CONTROL_READY,     // node -> head: nothing of it is left
    CONTROL_END,       // head -> node, agent: exit status, why ("": nothing to say)
    CONTROL_BEAT,      // both: a heartbeat
    N_CONTROL_KINDS
} control_kind;

enum { CONTROL_MAX_TEXT = 1 << 20, CONTROL_MAX_FIELDS = 4096 };
#define CONTROL_SILENT_S 60.0 // a side that has been silent for so long counts as gone

typedef struct control {
    int fd; // -1: none; belongs to the control
    bool calls, closed;
    job_secret key;
    uint64_t n_sent, n_received;
    str in, out, text;      // text: of the message that was taken last
    double heard_s, beat_s; // clock
    int n_silent;           // of host_is_unreachable
    const char **fields;    // of that message
} control;

typedef struct control_message { // lives until the next one is taken
    control_kind kind;
    const char **field;
    int n_fields;
} control_message;

void control_open(control *self, int fd, bool calls, const job_secret *key);
void control_close(control *self); // allowed when it is not open
void control_send(control *self, control_kind kind, const char *const *fields, int n_fields);
// Sends and receives what it can without blocking, and sends a heartbeat when one is due. Sets
// self->closed if the other side is gone, cut off or silent for too long, or sends something else.
void control_pump(control *self);
// Takes the next whole message; false: there is none.
bool control_take(control *self, control_message *out);
// Returns a field as a number, 0 or more; -1: it is not a number.
int control_number(const char *field);
// Sends what has not been sent, for at most `seconds`.
void control_flush(control *self, double seconds);
