// Measures a node and its links to other nodes before a run; launch/preflight.h judges the figures.
// There is one rank on each node, and all ranks call these functions at the same time.
#pragma once
#include "comm/comm.h"
#include "launch/preflight.h"

// Measures all nodes in about `seconds`: products, copies in memory, the run directory `dir`, free
// memory, and the links between nodes. results [nodes]: those of all nodes, on each of them. Ranks
// of one host share its cores and its memory.
DRV_CHECKED drv_status node_measure(arena *a, comm *nodes, const char *dir, double seconds,
        node_result *results);
// Returns the bytes that a measurement may use: `most`, halved until it is at most a quarter of the
// share that one of n ranks has of the available bytes; at least `least`.
int64_t node_share(int64_t most, int64_t least, int64_t there, int n);
// Measures links between pairs of nodes in log2(nodes) rounds of about `seconds` altogether, the
// difference of clocks to node 0, and whether this node sees node 0's locks and renamed files in
// `dir`. All ranks call it together.
DRV_CHECKED drv_status node_measure_others(arena *a, comm *nodes, const char *dir, double seconds,
        node_result *out);
// Returns the partner of a node among n in a round; -1: it has none. In rounds 0 to node_rounds(n)
// - 1 a node has a different partner each time, and none in at most one round.
int node_partner(int n_nodes, int node, int round);
int node_rounds(int n_nodes);
