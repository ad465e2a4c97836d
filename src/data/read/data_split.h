// Derives the split of a data set from the name of a file or folder, by the keywords of Hugging
// Face datasets (datasets/data_files.py, SPLIT_KEYWORDS).
#pragma once

typedef enum data_split {
    SET_UNSPLIT, // the name contains no keyword
    SET_TRAIN,
    SET_VALIDATION,
    SET_TEST,
    N_DATA_SPLITS
} data_split;

// `path`: of a file, relative to the folder of the data set. A keyword must be delimited by
// separators ("-._ " and digits); one in a folder's name takes precedence over one in the file's.
data_split data_split_of_path(const char *path);
// Returns the kind of split that a name means: "train_sft" is training.
data_split data_split_of_name(const char *name);
const char *data_split_name(data_split split); // "train", "validation", "test"; "none"
