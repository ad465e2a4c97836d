// Chooses the nodes and the layout of the next attempt among the nodes that have come. Nothing here
// waits or changes anything.
#pragma once
#include "launch/meeting.h"

// Returns the nodes of the whole layout: all but the spare ones.
int choice_full(const launch_job *job);
// Counts the nodes that are there for the next attempt; those that are there and not excluded,
// ready or not; those that may still come, since they are not excluded.
int choice_count_usable(const meeting *met);
int choice_count_not_excluded(const meeting *met);
int choice_count_possible(const meeting *met);
// Returns whether one is there that has not yet ended what was left of the last attempt.
bool choice_one_is_late(const meeting *met);
// Finds the best layout for at most n_usable nodes. DRV_E_USAGE: there is none.
DRV_CHECKED drv_status choice_layout(const meeting *met, int n_usable, attempt_layout *out);
// Returns whether the nodes that wait could make a larger attempt than one of n_now; *n_nodes: of
// how many.
bool choice_could_grow(const meeting *met, int n_now, int *n_nodes);
// Returns the nodes of the next attempt by place, in the meeting's arena; NULL: one that was
// counted has fallen silent since.
int *choice_pick(const meeting *met, int n_nodes);
