#!/usr/bin/env python3
"""Prints the rows of `transformers_has` in tests/test_sample.c: the probabilities of the next token that transformers' own logits
processors leave, in the order in which generate() applies them, for drawn options. Needs torch and transformers.

    python tools/golden_sample.py [SEED [CASES]]
"""
import random
import sys

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

SHARE = [0.4, 0.3, 0.15, 0.1, 0.05, 0]  # `share` of the test

model = LlamaForCausalLM(LlamaConfig(vocab_size=len(SHARE), hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1))
rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 10):
    temperature, top_p, top_k = rng.choice([0.5, 0.7, 1, 1.5]), rng.choice([1, 1, 0.6, 0.9]), rng.choice([0, 0, 2, 3, 4])
    penalty, min_p = rng.choice([1, 1, 1.5]), rng.choice([0, 0.05, 0.1, 0.2, 0.4])
    seen = [rng.randrange(5) for _ in range(2)]
    config = GenerationConfig(do_sample=True, temperature=float(temperature), top_p=float(top_p), top_k=top_k, min_p=float(min_p),
                              repetition_penalty=float(penalty))
    processors = model._get_logits_processor(generation_config=config)
    want = torch.softmax(processors(torch.tensor([seen]), torch.tensor([SHARE]).log()), -1)[0].tolist()
    print("            {{%g, %g, %d, %g, %g}, {%s}, {%d, %d}}," % (temperature, top_p, top_k, penalty, min_p,
                                                                    ", ".join("%.4f" % p for p in want), *seen))
