// Measures a node and its links to the others before a run: figures for launch/preflight.h. Every
// node is one rank, and all do the same at the same time.
#pragma once
#include "comm/comm.h"
#include "launch/preflight.h"

// Measures figures of this node alone, in about `seconds`: products, copies in memory, the run
// directory `dir`, free memory. Ranks of one host share its memory. The number of threads must be
// set.
DRV_CHECKED drv_status node_measure(arena *a, const comm *nodes, const char *dir, double seconds,
        node_result *out);
// Returns the bytes that a measurement takes: `most`, halved until a quarter of the part that one
// of n has of what is there is enough; at least `least`.
int64_t node_share(int64_t most, int64_t least, int64_t there, int n);
// Measures its links, in rounds of pairs (log2 of the nodes) of about `seconds` altogether; its
// clock against node 0's; what it sees of node 0 in `dir`. All ranks call it together.
DRV_CHECKED drv_status node_measure_others(arena *a, comm *nodes, const char *dir, double seconds,
        node_result *out);
// Returns the partner of a node among n in a round; -1: it pauses. In rounds 0 to
// node_rounds(n) - 1 each meets different ones, and is alone in at most one of them.
int node_partner(int n_nodes, int node, int round);
int node_rounds(int n_nodes);
