#!/usr/bin/env python3
"""Adds texts and their rolling log-likelihoods to tests/golden/choices, whose tiny model has a context of 64: what
lm-evaluation-harness's HFLM.loglikelihood_rolling gives (models/huggingface.py, utils.get_rolling_token_windows), by
transformers in double. Where lm_eval can be imported, its own windows are compared with those made here. The tests need
none of it.

    python tools/golden_rolling.py tests/golden/choices

rolling.txt: SPECIALS CONTEXT STRIDE TOKENS WORDS BYTES LOG_LIKELIHOOD, a line for each text of texts.jsonl and setting.
"""
import json, pathlib, re, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = ["The dog sings.", "", "x", "<s>The dog and the tree", "  A man\u2003fills\u00a0a tub.\n\nThe end \u001c ",
         "Größe zählt. " * 3, "The water in a pot that stands on fire is hot and the soup is hot. " * 9,
         "A song to the dog: sing, sing, sing and shake the tree. " * 23]
SETTINGS = [(64, 64), (64, 20), (16, 16), (16, 5), (16, 1), (1, 1)]


def windows(tokens, prefix, context, stride):
    """Inputs and what they predict, of which the last ones are scored."""
    out, done = [([prefix] + tokens[:context - 1][:len(tokens) - 1], tokens[:context])], min(context, len(tokens))
    while done < len(tokens):
        n = min(len(tokens) - done, stride)
        end = done + n
        out.append((tokens[end - context - 1:end - 1], tokens[done:end]))
        done = end
    return out if tokens else []


def compare(tokens, prefix, context, stride):
    try:
        from lm_eval.utils import get_rolling_token_windows
    except ImportError:
        return False
    theirs = list(get_rolling_token_windows(tokens, prefix, context, context - stride + 1))
    assert theirs == windows(tokens, prefix, context, stride), (tokens, context, stride)
    return True


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    prefix = tokenizer.bos_token_id
    # texts around the context: 62 to 66 tokens with and without the beginning
    words = " dog" * 80
    texts = TEXTS + [tokenizer.decode(tokenizer.encode(words, add_special_tokens=False)[:n]) for n in range(62, 67)]
    compared = False
    with open(folder / "texts.jsonl", "w") as f, open(folder / "rolling.txt", "w") as g:
        for text in texts:
            f.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            for specials in (True, False):
                add = specials and not text.startswith(tokenizer.decode(prefix))
                tokens = tokenizer.encode(text, add_special_tokens=add)
                for context, stride in SETTINGS:
                    total = 0.0
                    compared = compare(tokens, prefix, context, stride)
                    for inputs, scored in windows(tokens, prefix, context, stride):
                        with torch.no_grad():
                            logits = model(torch.tensor([inputs])).logits[0]
                        rows = torch.log_softmax(logits[-len(scored):], -1)
                        total += rows[range(len(scored)), scored].sum().item()
                    print(int(specials), context, stride, len(tokens), len(re.split(r"\s+", text)),
                          len(text.encode()), total, file=g)
    print(f"{len(texts)} texts; windows {'as' if compared else 'not compared with'} lm_eval's")


main()
