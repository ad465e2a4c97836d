// A data set's folder from the hub: files of several splits, of which training uses one, and files
// about the data set, which are not its texts.
#pragma once
#include "data/read/inputs.h"

// Removes from the files of a folder those that are not training data, and logs which: other
// splits, if the names of files show that there are several, and the data set's card and licence. A
// folder of texts whose names contain no split is left unchanged.
void hub_folder_choose(const char *folder, input_file *files, int *n_files);
