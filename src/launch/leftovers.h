// Handles what launchers keep outside the run directory: folders for Open MPI's session, the secret
// of a job of one machine. A launcher that is killed leaves its own behind; the next one of the
// same user removes it. Whoever lives holds a lock on what is its.
#pragma once
#include "base/arena.h"

// Returns how the names of leftovers begin: with a part of the id of this boot, since locks of a
// shared folder may not reach other machines.
const char *leftover_prefix(arena *a);
// Locks a file or a folder that this process has made, for as long as the descriptor that it
// returns is open; -1: it could not.
int leftover_hold(const char *path);
// Removes what nobody holds of this user's in `folder`. One that was touched within the last minute
// may not have been locked yet and is left.
void leftovers_remove(arena *a, const char *folder);
