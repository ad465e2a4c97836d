// The loss of a preference pair (ir/ops/preference.c), whose margin is the reward of the chosen
// response less that of the rejected one. `smoothing`: the share of pairs that is taken to be the
// wrong way round. The same bits on any processor (base/elementary.h).
#pragma once

// -(1 - smoothing) log sigmoid(margin) - smoothing log sigmoid(-margin)
double pair_loss(double margin, double smoothing);
// Minus its derivative by the margin.
double pair_pull(double margin, double smoothing);
