// The polynomial of Muon's Newton-Schulz iteration, NS_A x + NS_B x^3 + NS_C x^5, in singular
// values x: Keller Jordan's coefficients (https://kellerjordan.github.io/posts/muon), which
// torch.optim.Muon has too. They make the slope at 0 as large as possible, so that five steps bring
// small values near 1; they do not converge to it.
#pragma once
#define NS_A        3.4445
#define NS_B        (-4.775)
#define NS_C        2.0315

// An orthogonalised matrix is multiplied by this and by the square root of its longer side, so that
// the size of an update matches that of AdamW (arXiv:2502.16982, equation 4).
#define MUON_RMS    0.2

// NorMuon adds this to the root mean square of a row.
#define NORMUON_EPS 1e-10
