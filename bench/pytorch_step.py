#!/usr/bin/env python3
"""A training step of the same Llama in PyTorch (transformers' model, SDPA attention, fused AdamW) and in drover, one after the
other on the same machine. Prints one JSON object per mode and the ratio of drover to PyTorch's best.

    python bench/pytorch_step.py build/drover llama-135m 1024 [--modes eager-fp32,compile-bf16,...] [--micro 1,4] [--set KEY=VALUE ...]

A mode is how (eager, compile), in what (fp32; bf16: fp32 weights under autocast; pure: weights, gradients and moments in
bf16), and perhaps -recompute: the activations of each layer computed again. --set is for drover's run. Needs torch and
transformers; preload tcmalloc (libtcmalloc_minimal.so.4), PyTorch is slower without.
"""
import peer_step


def main():
    parser = peer_step.parser("eager-fp32,compile-fp32,eager-bf16,compile-bf16", batch=8)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()

    def one(mode, micro):
        import torch
        how, dtype, *recompute = mode.split("-")
        model = peer_step.llama(args).to(torch.bfloat16 if dtype == "pure" else torch.float32).train()
        if recompute:
            model.gradient_checkpointing_enable(dict(use_reentrant=False))
        speed = peer_step.time_step(model, list(model.parameters()), 1e-5, how == "compile", dtype == "bf16", micro, args)
        return dict(system=f"PyTorch {torch.__version__}", tokens_per_s=speed)

    peer_step.compare(args, "PyTorch", one, args.set)


main()
