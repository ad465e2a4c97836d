// The split of a data set that the name of a file or a folder says, by the words that Hugging Face
// datasets knows (datasets/data_files.py, SPLIT_KEYWORDS).
#pragma once

typedef enum data_split {
    SET_UNSPLIT, // the name says none
    SET_TRAIN,
    SET_VALIDATION,
    SET_TEST,
    N_DATA_SPLITS
} data_split;

// `path`: of a file, from the folder of the data set on. A word counts where it stands between
// separators ("-._ " and digits); that of a folder goes before that of the file.
data_split data_split_of_path(const char *path);
// Returns what the name of a split is one of: "train_sft" is training.
data_split data_split_of_name(const char *name);
const char *data_split_name(data_split split); // "train", "validation", "test"; "none"
