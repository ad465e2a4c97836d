#!/usr/bin/env python3
"""Checks a GGUF file that drover wrote with llama.cpp itself: gguf-py reads it, llama.cpp loads it, divides texts into the same
tokens as the Hugging Face folder's tokenizer.json, and computes the logits that transformers computes for the folder.

    pip install gguf==0.19.0 torch transformers
    CMAKE_ARGS="-DLLAVA_BUILD=OFF -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1" pip install llama-cpp-python==0.3.36
    tools/check_llama_cpp.py MODEL.gguf HF_DIR [--text FILE...] [--tolerance X]

PyPI has llama.cpp's source alone, which takes a core eight minutes, so this is no part of `make test`: run it after a
change to src/gguf or ckpt/gguf_writer.c, on a model with each kind of tokenizer; with --tolerance 0.1 for q8_0 and q4_k,
since llama.cpp rounds what their products take to 8 bits. Exit status 0: all the same; 1: not; 77: a package is missing.
"""
import argparse, pathlib, sys

try:
    import gguf, llama_cpp, numpy as np, torch, transformers
    from tokenizers import Tokenizer
except ImportError as e:
    print(f"check_llama_cpp: skipped: {e}", file=sys.stderr)
    sys.exit(77)

TEXTS = ["Hello, world! It's 12345 o'clock.", "  two spaces\tand a tab\r\n\r\nlines", "naïve café 日本語 🙂👩‍👩‍👧", "a", " ",
         "def f(x):\n    return x ** 2  # squared\n"]


def load(path, context):
    fp32 = llama_cpp.GGML_TYPE_F32  # of keys and values, which are fp16 by default
    options = dict(n_ctx=context, n_batch=context, n_ubatch=context, logits_all=True, type_k=fp32, type_v=fp32)
    try:
        return llama_cpp.Llama(path, verbose=False, **options)
    except ValueError:
        return llama_cpp.Llama(path, verbose=True, **options)  # says why, and fails again


def check_tokens(llama, tokenizer, texts):
    bad = 0
    for text in texts:
        got, expected = llama.tokenize(text.encode(), special=True), tokenizer.encode(text).ids
        if got != expected:
            at = next((i for i, (x, y) in enumerate(zip(got, expected)) if x != y), min(len(got), len(expected)))
            print(f"tokens differ at {at} of {text[:40]!r}: llama.cpp {got[at:at + 5]}, tokenizer.json {expected[at:at + 5]}")
            bad += 1
    print(f"tokens: {len(texts) - bad} of {len(texts)} texts the same")
    return bad


def check_logits(llama, folder, ids, tolerance):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    llama.eval(ids)
    got, bound = llama.scores[:len(ids), :expected.shape[1]], tolerance * expected.std()
    # Each token's logit over all positions: where llama.cpp rounds to 8 bits, a single one is far off by chance.
    worst = np.sqrt(np.square(got - expected).mean(0)).max()
    # How far llama.cpp's likeliest token is behind the likeliest in transformers' own logits: within the bound is a near tie.
    behind = expected.max(1) - np.take_along_axis(expected, got.argmax(1)[:, None], 1)[:, 0]
    print(f"logits at {len(ids)} positions: off by {worst:.2g}, bound {bound:.2g}; "
          f"likeliest tokens: {(behind > bound).sum()} differ, {((behind > 0) & (behind <= bound)).sum()} near ties")
    return worst > bound or behind.max() > bound


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--positions", type=int, default=500)
    parser.add_argument("--tolerance", type=float, default=2e-3,
                        help="of the logits' standard deviation (default 0.002)")
    a = parser.parse_args()
    reader = gguf.GGUFReader(a.gguf)
    print(f"gguf-py: {len(reader.tensors)} tensors, {len(reader.fields)} values")
    config = transformers.AutoConfig.from_pretrained(a.folder)
    positions = min(a.positions, config.max_position_embeddings)
    llama = load(a.gguf, max(positions, 32))
    bad = 0
    texts = TEXTS + [pathlib.Path(p).read_bytes()[:20000].decode(errors="replace") for p in a.text]
    path = pathlib.Path(a.folder, "tokenizer.json")
    if path.exists():
        tokenizer = Tokenizer.from_file(str(path))
        bad += check_tokens(llama, tokenizer, texts)
        ids = tokenizer.encode("\n".join(texts[::-1])).ids[:positions]
        template = getattr(transformers.AutoTokenizer.from_pretrained(a.folder), "chat_template", None)
        if (template or None) != llama.metadata.get("tokenizer.chat_template"):
            print("the chat template differs")
            bad += 1
    else:
        ids = np.random.default_rng(1).integers(0, config.vocab_size, positions).tolist()
    bad += check_logits(llama, a.folder, ids, a.tolerance)
    print("the same" if not bad else "NOT the same")
    return bool(bad)


sys.exit(main())
