#!/usr/bin/env python3
"""Makes tests/golden/: tiny models of every family with the logits, loss, gradients and training losses that PyTorch
and transformers give for them, in double and in float. Needs torch, transformers, safetensors; the
tests need none of them.

    python tools/golden.py tests/golden [CASE ...]
"""
import json, pathlib, sys
import torch, transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers import SmolLM3Config, SmolLM3ForCausalLM

# name -> (config, model, what is special)
CASES = {
    # grouped query heads, tied embeddings
    "tied": (LlamaConfig, LlamaForCausalLM,
        dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0)),
    # grouped query heads, untied, llama3 frequency scaling (short original context, so that all three
    # branches of the formula are taken), head_dim apart from hidden_size / heads
    "untied_llama3": (LlamaConfig, LlamaForCausalLM,
        dict(num_key_value_heads=1, tie_word_embeddings=False, head_dim=16, rope_theta=500000.0,
            rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=32))),
    # a window of a fourth of the rows; three query heads to a key head
    "mistral": (MistralConfig, MistralForCausalLM,
        dict(num_attention_heads=6, num_key_value_heads=2, head_dim=10, tie_word_embeddings=False,
             sliding_window=12)),
    # biases on q, k and v, the second layer in a window
    "qwen2_window": (Qwen2Config, Qwen2ForCausalLM,
        dict(num_attention_heads=4, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True,
             use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    # biases on q, k and v; three query heads to a key head
    "qwen2": (Qwen2Config, Qwen2ForCausalLM,
        dict(num_attention_heads=6, num_key_value_heads=2, head_dim=10, tie_word_embeddings=False,
             rope_theta=1e6)),
    "qwen2_tied": (Qwen2Config, Qwen2ForCausalLM,
        dict(num_attention_heads=3, num_key_value_heads=1, head_dim=12, tie_word_embeddings=True)),
    # norms of the heads of queries and keys; heads that are no power of two, and wider together than
    # hidden_size
    "qwen3": (Qwen3Config, Qwen3ForCausalLM,
        dict(num_attention_heads=6, num_key_value_heads=2, head_dim=10, tie_word_embeddings=True,
             rope_theta=1e6)),
    "qwen3_untied": (Qwen3Config, Qwen3ForCausalLM,
        dict(num_attention_heads=3, num_key_value_heads=1, head_dim=16, tie_word_embeddings=False,
             rope_theta=10000.0)),
    # the fourth layer without rotary embedding
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM,
        dict(num_hidden_layers=4, hidden_size=24, intermediate_size=40, num_key_value_heads=2, head_dim=6,
             pad_token_id=None)),
}
ROWS, SEQ, STEPS = 4, 48, 20
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-8, 0.1, 1.0


def loss_of(model, tokens):
    logits = model(input_ids=tokens).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1)), logits


def make(name, config_class, model_class, extra, out):
    torch.manual_seed(1)
    config = config_class(**{**dict(vocab_size=96, hidden_size=32, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.1,
        bos_token_id=0, eos_token_id=1, attn_implementation="eager"), **extra})
    model = model_class(config).float().train()
    with torch.no_grad():  # norms that are not all 1
        for n, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.3 * torch.randn_like(p))
    folder = out / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, config.vocab_size, (ROWS, SEQ))
    golden = {"tokens": tokens.float()}
    double = model_class(config).double()
    double.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    loss, logits = loss_of(double, tokens)
    loss.backward()
    golden["logits"] = logits.detach()
    golden["loss"] = loss.detach().reshape(1)
    for n, p in double.named_parameters():
        golden["grad." + n] = p.grad
    decay = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=DECAY), dict(params=rest, weight_decay=0.0)],
                                  lr=LR, betas=BETAS, eps=EPS)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        # another order of the rows each step: the batch is fixed, the sums are not
        loss, _ = loss_of(model, tokens.roll(step, 0))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    golden["losses"] = torch.tensor(losses, dtype=torch.float64)
    meta = dict(torch=torch.__version__, transformers=transformers.__version__, seed="1")
    save_file({k: v.contiguous() for k, v in golden.items()}, str(folder / "golden.safetensors"), metadata=meta)
    print(name, "loss", float(golden["loss"]), "after", STEPS, "steps", losses[-1])


if __name__ == "__main__":
    for case, (config_class, model_class, extra) in CASES.items():
        if len(sys.argv) == 2 or case in sys.argv[2:]:
            make(case, config_class, model_class, extra, pathlib.Path(sys.argv[1]))
