#!/usr/bin/env python3
"""Holds a GGUF file that drover wrote against llama.cpp itself: gguf-py reads it, llama.cpp loads it, cuts texts into the
tokens of the Hugging Face folder's tokenizer.json, and gives the logits that transformers gives for the folder.

    pip install gguf==0.19.0 xllamacpp==2026.10.11549 torch transformers
    tools/check_llama_cpp.py MODEL.gguf HF_DIR [--text FILE...] [--tolerance X]

It is no part of `make test`, since llama.cpp is no Debian package: run it after a change to src/gguf or ckpt/gguf_writer.c,
on a model with each kind of tokenizer. llama.cpp's C interface is taken from the library in xllamacpp's wheel. Exit status 0: all the same; 1: not; 77: a
package is missing.
"""
import argparse, ctypes, pathlib, sys

try:
    import gguf, numpy as np, torch, transformers, xllamacpp
    from tokenizers import Tokenizer
except ImportError as e:
    print(f"check_llama_cpp: skipped: {e}", file=sys.stderr)
    sys.exit(77)


class Params(ctypes.Structure):
    """llama_model_params, llama_context_params: larger than they are, since a structure that is passed by value as the
    last argument may be. Only the first fields of the second are set."""
    _fields_ = [("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32),
                ("rest", ctypes.c_char * 2036)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8)),
                ("rest", ctypes.c_char * 200)]


class LlamaCpp:
    def __init__(self, path, context):
        lib = self.lib = ctypes.CDLL(str(next(pathlib.Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"))))
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(self.log)
        self.messages = []
        for name, result in (("llama_model_default_params", Params), ("llama_context_default_params", Params),
                             ("llama_batch_init", Batch), ("llama_model_load_from_file", ctypes.c_void_p),
                             ("llama_init_from_model", ctypes.c_void_p), ("llama_model_get_vocab", ctypes.c_void_p),
                             ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float)),
                             ("llama_model_chat_template", ctypes.c_char_p)):
            getattr(lib, name).restype = result
        lib.llama_log_set(self.quiet, None)
        lib.llama_backend_init()
        lib.ggml_backend_load_all()
        self.model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not self.model:
            sys.exit("check_llama_cpp: llama.cpp does not load it:\n" + "".join(self.messages[-20:]))
        p = lib.llama_context_default_params()
        words = ctypes.cast(ctypes.pointer(p), ctypes.POINTER(ctypes.c_int32))
        for i in range(8, 40):  # fp32 where it has fp16 by default: flash attention off; type_k, type_v F32 instead of F16
            if [words[i + k] for k in range(4)] == [-1] * 4:
                words[i + 3] = 0
            if words[i] == words[i + 1] == 1 and i > 18:
                words[i] = words[i + 1] = 0
                break
        p.n_ctx = p.n_batch = p.n_ubatch = context
        self.context = lib.llama_init_from_model(ctypes.c_void_p(self.model), p)
        self.vocab = lib.llama_model_get_vocab(ctypes.c_void_p(self.model))
        self.n_vocab = lib.llama_vocab_n_tokens(ctypes.c_void_p(self.vocab))

    def log(self, level, text, _):
        self.messages.append(text.decode(errors="replace"))

    def encode(self, text, specials=True):
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 16))()
        n = self.lib.llama_tokenize(ctypes.c_void_p(self.vocab), raw, len(raw), out, len(out), specials, True)
        return list(out[:n])

    def logits(self, ids):
        lib = self.lib
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if lib.llama_decode(ctypes.c_void_p(self.context), batch) != 0:
            sys.exit("check_llama_cpp: llama_decode failed:\n" + "".join(self.messages[-10:]))
        row = lambda i: np.ctypeslib.as_array(lib.llama_get_logits_ith(ctypes.c_void_p(self.context), i), (self.n_vocab,))
        return np.stack([row(i).copy() for i in range(len(ids))])

    def chat_template(self):
        text = self.lib.llama_model_chat_template(ctypes.c_void_p(self.model), None)
        return text.decode() if text else None


TEXTS = ["Hello, world! It's 12345 o'clock.", "  two spaces\tand a tab\r\n\r\nlines", "naïve café 日本語 🙂👩‍👩‍👧", "a", " ",
         "def f(x):\n    return x ** 2  # squared\n"]


def check_tokens(llama, tokenizer, texts):
    bad = 0
    for text in texts:
        got, expected = llama.encode(text), tokenizer.encode(text).ids
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
    got = llama.logits(ids)[:, :expected.shape[1]]
    worst, same = np.abs(got - expected).max(), (got.argmax(1) == expected.argmax(1)).mean()
    print(f"logits at {len(ids)} positions: largest difference {worst:.2g}, same argmax at {100 * same:.1f} %")
    return worst > tolerance * expected.std() or same < 0.99


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
    llama = LlamaCpp(a.gguf, max(positions, 32))
    bad = 0
    texts = TEXTS + [pathlib.Path(p).read_bytes()[:20000].decode(errors="replace") for p in a.text]
    path = pathlib.Path(a.folder, "tokenizer.json")
    if path.exists():
        tokenizer = Tokenizer.from_file(str(path))
        bad += check_tokens(llama, tokenizer, texts)
        ids = tokenizer.encode("\n".join(texts[::-1])).ids[:positions]
        template = getattr(transformers.AutoTokenizer.from_pretrained(a.folder), "chat_template", None)
        if (template or None) != llama.chat_template():
            print("the chat template differs")
            bad += 1
    else:
        ids = np.random.default_rng(1).integers(0, config.vocab_size, positions).tolist()
    bad += check_logits(llama, a.folder, ids, a.tolerance)
    print("the same" if not bad else "NOT the same")
    return bool(bad)


sys.exit(main())
