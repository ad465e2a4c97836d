#!/usr/bin/env python3
"""Makes tests/golden/muon.safetensors: the matrices of a layer after twenty steps of torch.optim.Muon on gradients
that a formula gives, which tests/test_muon.c has as well: as torch orthogonalises, in bf16 ("bf16.NAME"), and with the
same code in fp32 ("f32.NAME"); and after twenty steps of NorMuon, algorithm 1 of arXiv:2510.05491 with Nesterov's
step, around torch's Newton-Schulz in fp32 ("normuon.NAME"). Needs torch 2.9 or later and safetensors; the test needs neither.

    python tools/golden_muon.py tests/golden/muon.safetensors
"""
import sys
import torch
from torch.optim import _muon
from safetensors.torch import save_file

MATRICES = {"self_attn.q_proj": (32, 32), "self_attn.k_proj": (16, 32), "self_attn.v_proj": (16, 32),
            "self_attn.o_proj": (32, 32), "mlp.gate_proj": (80, 32), "mlp.up_proj": (80, 32), "mlp.down_proj": (32, 80)}
STEPS, LR, DECAY, MOMENTUM, BETA2 = 20, 1e-3, 0.1, 0.95, 0.95


def numbers(matrix, step, shape):
    """In [-1, 1): a hash of the element, the step and the matrix."""
    i = torch.arange(shape[0] * shape[1], dtype=torch.int64)
    h = (i * 2654435761 + step * 40503 + matrix * 97531) % 2**32
    h = ((h ^ (h >> 15)) * 2246822519) % 2**32
    h = ((h ^ (h >> 13)) * 3266489917) % 2**32
    h ^= h >> 16
    return (h.double() / 2**31 - 1).float().reshape(shape)


class NorMuon(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for w in self.param_groups[0]["params"]:
            state = self.state[w]
            if not state:
                state["m"], state["v"] = torch.zeros_like(w), torch.zeros(w.shape[0], 1)
            m, v = state["m"], state["v"]
            m.mul_(MOMENTUM).add_((1 - MOMENTUM) * w.grad)
            o = _muon._zeropower_via_newtonschulz(MOMENTUM * m + (1 - MOMENTUM) * w.grad, (3.4445, -4.775, 2.0315), 5, 1e-7)
            v.mul_(BETA2).add_((1 - BETA2) * (o * o).mean(dim=1, keepdim=True))
            o = o / (v.sqrt() + 1e-10)
            w.copy_(w - LR * DECAY * w - LR * 0.2 * (w.numel() ** 0.5 / o.norm()) * o)


def train(in_float, normuon=False):
    weights = [torch.nn.Parameter(0.1 * numbers(k, 0, shape)) for k, shape in enumerate(MATRICES.values())]
    optimizer = torch.optim.Muon(weights, lr=LR, weight_decay=DECAY, momentum=MOMENTUM, nesterov=True,
                                 adjust_lr_fn="match_rms_adamw") if not normuon else NorMuon(weights)
    to_bf16 = torch.Tensor.bfloat16
    if in_float:
        torch.Tensor.bfloat16 = lambda x: x.clone()  # Newton-Schulz rounds its input so, and nothing else
    for step in range(1, STEPS + 1):
        for k, w in enumerate(weights):
            w.grad = numbers(k, step, w.shape)
        optimizer.step()
    torch.Tensor.bfloat16 = to_bf16
    return weights


if __name__ == "__main__":
    made = {f"{kind}.model.layers.0.{name}.weight": w.detach().contiguous()
            for kind, how in (("bf16", [False]), ("f32", [True]), ("normuon", [True, True]))
            for name, w in zip(MATRICES, train(*how))}
    save_file(made, sys.argv[1], metadata=dict(torch=torch.__version__))
    print({k: float(v.norm()) for k, v in made.items()})
