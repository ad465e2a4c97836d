#!/usr/bin/env python3
"""A training step of the same Llama in PyTorch (transformers' model, SDPA attention, fused AdamW) and in drover, one after the
other on the same machine. Prints one JSON object per mode and the ratio of drover to PyTorch's best.

    python bench/pytorch_step.py build/drover llama-135m 1024 [--modes eager-fp32,compile-bf16,...] [--micro 1,4]

Needs torch and transformers; preload tcmalloc (libtcmalloc_minimal.so.4), PyTorch is slower without.
"""
import peer_step


def main():
    args = peer_step.parser("eager-fp32,compile-fp32,eager-bf16,compile-bf16", batch=8).parse_args()

    def one(mode, micro):
        import torch
        how, dtype = mode.split("-")
        model = peer_step.llama(args).float().train()
        speed = peer_step.time_step(model, list(model.parameters()), 1e-5, how == "compile", dtype == "bf16", micro, args)
        return dict(system=f"PyTorch {torch.__version__}", tokens_per_s=speed)

    peer_step.compare(args, "PyTorch", one)


main()
