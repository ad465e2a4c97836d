// Selects the training data in a folder of a data set from the hub, which may have files of several
// splits and files about the data set, such as its card.
#pragma once
#include "data/read/inputs.h"

// Removes files that are not training data from the list, and logs which: other splits, if file
// names show that there are several, and the data set's card and licence. A list whose file names
// contain no split stays unchanged.
void hub_folder_choose(const char *folder, input_file *files, int *n_files);
