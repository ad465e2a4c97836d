// A client whose devices are those of several processes (num_nodes, node_id, the plugin's key-value
// callbacks), as jax's distributed service makes it: each process has one device, and rank r's is
// that of process r.
#pragma once
#include "backend/pjrt/runtime/cluster_store.h"
#include "backend/pjrt/runtime/pjrt_abi.h"

// Sets the callbacks of a client that is being made, served by `s` as long as the client lives.
void cluster_callbacks(cluster_store *s, pjrt_client_create_args *out);
// Returns how many ranks before this one are on its host: which of the host's devices it takes.
int cluster_place_on_host(const comm *c);
