// Handles what launchers keep outside the run directory: folders for Open MPI's session, and the
// secret of a job of one machine. A launcher that is killed leaves them behind; the next one of the
// same user removes them. A launcher holds a lock on its own while it lives.
#pragma once
#include "base/arena.h"

// Returns the prefix of the names of leftovers. It contains a part of the boot's id, since locks in
// a shared folder may not reach other machines.
const char *leftover_prefix(arena *a);
// Locks a file or a folder that this process has made, until the returned descriptor is closed; -1:
// it could not.
int leftover_hold(const char *path);
// Removes those of this user in `folder` that nobody holds. One that was changed within the last
// minute may not be locked yet and stays.
void leftovers_remove(arena *a, const char *folder);
