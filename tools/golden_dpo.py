#!/usr/bin/env python3
"""Makes tests/golden/dpo.safetensors: pairs of random tokens, and what TRL 0.24's DPOTrainer gives for them with the
model of tests/golden/tied in double: the log-probabilities of both responses, the loss, the rewards and every gradient,
without and with label smoothing; the reference is the same model with its weights moved. concatenated_forward and
dpo_loss are TRL's own, called without a trainer around them. Needs torch, transformers 4.57, trl 0.24 and what those
import; the test needs none of them.

    python tools/golden_dpo.py tests/golden
"""
import pathlib, sys, types
import torch, transformers, trl
from safetensors.torch import save_file
from transformers import LlamaForCausalLM
from trl.trainer.dpo_trainer import DPOTrainer

PAIRS, BETA = 3, 0.3
LENGTHS = [(7, 5, 9), (4, 12, 3), (10, 6, 6)]  # prompt, chosen, rejected
SMOOTHING = 0.15


def trainer(smoothing):
    """What the two functions read of a trainer."""
    t = types.SimpleNamespace(aux_loss_enabled=False, pad_token_id=0, max_length=None, truncation_mode="keep_end",
        padding_free=False, use_logits_to_keep=False, label_pad_token_id=-100, is_encoder_decoder=False, use_weighting=False,
        args=types.SimpleNamespace(rpo_alpha=None, ld_alpha=None), loss_type=["sigmoid"], beta=BETA, label_smoothing=smoothing,
        reference_free=False, f_divergence_type="reverse_kl", f_divergence_params=None, is_vision_model=False,
        accelerator=types.SimpleNamespace(device=torch.device("cpu")), use_liger_loss=False)
    t.concatenated_inputs = DPOTrainer.concatenated_inputs
    return t


def padded(lists, left=False):
    n = max(len(x) for x in lists)
    ids = [[0] * (n - len(x)) * left + x + [0] * (n - len(x)) * (not left) for x in lists]
    mask = [[0] * (n - len(x)) * left + [1] * len(x) + [0] * (n - len(x)) * (not left) for x in lists]
    return torch.tensor(ids), torch.tensor(mask)


def batch_of(pairs):
    out = {}
    for k, name in enumerate(["prompt", "chosen", "rejected"]):
        ids, mask = padded([p[k] for p in pairs], left=k == 0)
        out[f"{name}_input_ids"], out[f"{name}_attention_mask"] = ids, mask
    return out


def make(golden):
    torch.manual_seed(7)
    model = LlamaForCausalLM.from_pretrained(golden / "tied", dtype=torch.float64, attn_implementation="eager").train()
    reference = LlamaForCausalLM.from_pretrained(golden / "tied", dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in reference.parameters():
            p.add_(0.03 * torch.randn_like(p))
    vocab = model.config.vocab_size
    pairs = [tuple(torch.randint(1, vocab, (n,)).tolist() for n in lengths) for lengths in LENGTHS]
    batch = batch_of(pairs)
    out = {"lengths": torch.tensor(LENGTHS).float(), "beta": torch.tensor([BETA]).double(),
           "tokens": torch.tensor([t for p in pairs for part in p for t in part]).float()}
    with torch.no_grad():
        ref = DPOTrainer.concatenated_forward(trainer(0), reference, batch)
    out["reference"] = torch.stack([ref["chosen_logps"], ref["rejected_logps"]], 1)
    for name, smoothing in [("plain", 0.0), ("smooth", SMOOTHING)]:
        model.zero_grad()
        t = trainer(smoothing)
        got = DPOTrainer.concatenated_forward(t, model, batch)
        losses, chosen, rejected = DPOTrainer.dpo_loss(t, got["chosen_logps"], got["rejected_logps"], ref["chosen_logps"],
            ref["rejected_logps"], "sigmoid")
        losses.mean().backward()
        out[name + ".smoothing"] = torch.tensor([smoothing]).double()
        out[name + ".log_probs"] = torch.stack([got["chosen_logps"], got["rejected_logps"]], 1).detach()
        out[name + ".loss"] = losses.mean().detach().reshape(1)
        out[name + ".rewards"] = torch.stack([chosen.mean(), rejected.mean(), (chosen > rejected).double().mean()])
        for n, p in model.named_parameters():
            out[f"{name}.grad.{n}"] = p.grad.float()
        print(name, "loss", losses.mean().item(), "rewards", chosen.tolist(), rejected.tolist())
    meta = dict(torch=torch.__version__, transformers=transformers.__version__, trl=trl.__version__, seed="7")
    save_file({k: v.contiguous() for k, v in out.items()}, str(golden / "dpo.safetensors"), metadata=meta)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
