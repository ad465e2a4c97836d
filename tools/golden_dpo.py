#!/usr/bin/env python3
"""Makes tests/golden/dpo.safetensors: pairs of random tokens, and what TRL 0.24's DPOTrainer gives for them with the
model of tests/golden/tied in double: the log-probabilities of both responses, the loss, the rewards and every gradient,
without and with label smoothing, and of pairs that are too long for a row and cut (truncation_mode keep_start); the
reference is the same model with its weights moved. concatenated_forward and dpo_loss are TRL's own, called without a
trainer around them. Needs torch, transformers 4.57, trl 0.24 and what those import; the test needs none of them.

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
# Pairs that do not fit ROW tokens, prompt once, and the max_length at which TRL leaves of both responses what a row has:
# half of it for each, or the rest beside a response that is shorter.
ROW = 24
CUT = {(7, 20, 9): 16, (5, 25, 12): 15, (7, 18, 18): 16, (4, 30, 3): 22, (4, 3, 30): 22}


def trainer(smoothing):
    """What the two functions read of a trainer."""
    t = types.SimpleNamespace(aux_loss_enabled=False, pad_token_id=0, max_length=None, truncation_mode="keep_start",
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


def forward(t, model, pairs, limits):
    """The log-probabilities of all pairs; each of `limits`, if there are any, is the max_length of a pair."""
    if limits is None:
        got = DPOTrainer.concatenated_forward(t, model, batch_of(pairs))
        return got["chosen_logps"], got["rejected_logps"]
    both = []
    for pair, t.max_length in zip(pairs, limits):
        got = DPOTrainer.concatenated_forward(t, model, batch_of([pair]))
        both.append((got["chosen_logps"], got["rejected_logps"]))
    return tuple(torch.cat(x) for x in zip(*both))


def values_of(name, pairs, smoothing, limits, model, ref):
    """Values of the model for the pairs, whose log-probabilities by the reference are `ref`."""
    model.zero_grad()
    t = trainer(smoothing)
    got = forward(t, model, pairs, limits)
    losses, chosen, rejected = DPOTrainer.dpo_loss(t, *got, *ref, "sigmoid")
    losses.mean().backward()
    print(name, "loss", losses.mean().item(), "rewards", chosen.tolist(), rejected.tolist())
    out = {"smoothing": torch.tensor([smoothing]).double(), "log_probs": torch.stack(got, 1).detach(),
           "loss": losses.mean().detach().reshape(1),
           "rewards": torch.stack([chosen.mean(), rejected.mean(), (chosen > rejected).double().mean()])}
    out.update({f"grad.{n}": p.grad.float() for n, p in model.named_parameters()})
    return {f"{name}.{k}": v for k, v in out.items()}


def pairs_of(of, lengths, vocab, limits, reference):
    """(values that say what the pairs are, the pairs, their log-probabilities by the reference)"""
    pairs = [tuple(torch.randint(1, vocab, (n,)).tolist() for n in x) for x in lengths]
    with torch.no_grad():
        ref = forward(trainer(0), reference, pairs, limits)
    return {of + "lengths": torch.tensor(lengths).float(), of + "reference": torch.stack(ref, 1),
            of + "tokens": torch.tensor([t for p in pairs for part in p for t in part]).float()}, pairs, ref


def make(golden):
    torch.manual_seed(7)
    model, reference = (LlamaForCausalLM.from_pretrained(golden / "tied", dtype=torch.float64, attn_implementation="eager")
                        for _ in range(2))
    with torch.no_grad():
        for p in reference.parameters():
            p.add_(0.03 * torch.randn_like(p))
    out, pairs, ref = pairs_of("", LENGTHS, model.config.vocab_size, None, reference)
    out["beta"] = torch.tensor([BETA]).double()
    for name, smoothing in [("plain", 0.0), ("smooth", SMOOTHING)]:
        out.update(values_of(name, pairs, smoothing, None, model, ref))
    limits = list(CUT.values())
    more, pairs, ref = pairs_of("cut.", list(CUT), model.config.vocab_size, limits, reference)
    out.update(more, **{"cut.row": torch.tensor([float(ROW)])}, **values_of("cut", pairs, 0.0, limits, model, ref))
    meta = dict(torch=torch.__version__, transformers=transformers.__version__, trl=trl.__version__, seed="7")
    save_file({k: v.contiguous() for k, v in out.items()}, str(golden / "dpo.safetensors"), metadata=meta)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
