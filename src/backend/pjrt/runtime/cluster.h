// A client with the devices of several processes, made with the same options as by jax's
// distributed service (num_nodes, node_id, callbacks for the key-value store): each process has one
// device, and process r has that of rank r.
#pragma once
#include "backend/pjrt/runtime/cluster_store.h"
#include "backend/pjrt/runtime/pjrt_abi.h"

// Sets the callbacks of a client that is being created; `s` serves them as long as the client
// lives.
void cluster_callbacks(cluster_store *s, pjrt_client_create_args *out);
// Returns the number of lower ranks on this rank's host, which is the index of its device on the
// host.
int cluster_place_on_host(const comm *c);
