// Applies BPE's merges to one word (arXiv:1508.07909, algorithm 1, with a given list of merges):
// the pair of lowest rank first, the leftmost on a tie, as Hugging Face does.
#pragma once
#include "tok/tokenizer_internal.h"

typedef struct merger merger; // working memory; one for each thread
merger *merger_new(const tokenizer *t);
void merger_free(merger *m);

// Appends the ids of one word.
void merger_run(merger *m, const unsigned char *s, size_t n, id_list *out);
