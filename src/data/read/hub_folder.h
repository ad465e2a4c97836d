// A folder as the hub has it: files of several splits, of which training takes one, and files about
// the data set, which are none of its texts.
#pragma once
#include "data/read/inputs.h"

// Takes out of the files of a folder those that are not to be trained on, and says which: all but
// those of the training split, where the names say that there are others too, and cards and
// licences of a data set. A folder of texts alone, whose names say nothing, stays as it is.
void hub_folder_choose(const char *folder, input_file *files, int *n_files);
