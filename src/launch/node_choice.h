// Chooses the nodes and the layout of the next attempt among the connected nodes. Nothing here
// blocks or changes any state.
#pragma once
#include "launch/meeting.h"

// Returns the number of nodes of the whole layout: all but the spare ones.
int choice_full(const launch_job *job);
// Count the nodes that can take part in the next attempt; those that are connected and not
// excluded, ready or not; and those that may still come, since they are not excluded.
int choice_count_usable(const meeting *met);
int choice_count_not_excluded(const meeting *met);
int choice_count_possible(const meeting *met);
// Returns whether a connected node has not yet ended what is left of the last attempt.
bool choice_one_is_late(const meeting *met);
// Finds the best layout for at most n_usable nodes. DRV_E_USAGE: there is none.
DRV_CHECKED drv_status choice_layout(const meeting *met, int n_usable, attempt_layout *out);
// Returns whether waiting nodes allow a larger attempt than one of n_now nodes; *n_nodes: its
// nodes.
bool choice_could_grow(const meeting *met, int n_now, int *n_nodes);
// Returns the nodes of the next attempt by place, in the meeting's arena. NULL: one of them has
// been lost since they were counted.
int *choice_pick(const meeting *met, int n_nodes);
