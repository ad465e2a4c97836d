#!/usr/bin/env python3
"""A LoRA step of the same Llama by transformers + PEFT and by drover, one after the other on the same machine. Prints one JSON
object per mode and the ratio of drover to PEFT's best.

    python bench/lora_step.py build/drover llama-135m 1024 [--modes eager-bf16,...] [--micro 1,2] [--rank 16]

A mode is eager or compile, and what the base is held in: bf16 (branches too), bf16-fp32 (branches in fp32, PEFT's default),
fp32, or fp32-autocast (products in bf16). Needs torch, transformers and peft; preload tcmalloc (libtcmalloc_minimal.so.4),
PyTorch is slower without.
"""
import peer_step

MODES = "eager-bf16,eager-bf16-fp32,eager-fp32,eager-fp32-autocast,compile-bf16,compile-fp32-autocast"


def main():
    parser = peer_step.parser(MODES, batch=2)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    args = parser.parse_args()

    def one(mode, micro):
        import torch
        from peft import LoraConfig, get_peft_model
        how, kind = mode.split("-", 1)
        base = peer_step.llama(args).to(torch.float32 if kind.startswith("fp32") else torch.bfloat16)
        lora = LoraConfig(task_type="CAUSAL_LM", r=args.rank, lora_alpha=args.rank, lora_dropout=args.dropout,
            target_modules=["q_proj", "v_proj"])
        model = get_peft_model(base, lora, autocast_adapter_dtype=kind == "bf16-fp32").train()
        trained = [p for p in model.parameters() if p.requires_grad]
        speed = peer_step.time_step(model, trained, 1e-5, how == "compile", kind == "fp32-autocast", micro, args)
        return dict(system=f"PEFT on PyTorch {torch.__version__}", trained=sum(p.numel() for p in trained), tokens_per_s=speed)

    peer_step.compare(args, "PEFT", one, [f"lora.rank={args.rank}", f"lora.dropout={args.dropout}"])


main()
