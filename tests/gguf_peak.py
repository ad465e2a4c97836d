#!/usr/bin/env python3
"""gguf_peak.py DROVER DIR: a synthetic Llama of 340 MB as GGUF (zeros, so the file takes no disk), imported and exported
again. Prints the largest resident memory of each and the limit, three times the largest tensor plus 200 MB; exit status 1
when it is passed."""
import pathlib, resource, struct, subprocess, sys

drover, folder = sys.argv[1], pathlib.Path(sys.argv[2])
layers, hidden, ffn, heads, vocab, context = 16, 1024, 2048, 8, 2048, 512


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_model(path):
    number = lambda key, x: text("llama." + key) + struct.pack("<II", 4, x)
    values = [text("general.architecture") + struct.pack("<I", 8) + text("llama"), number("block_count", layers),
              number("context_length", context), number("embedding_length", hidden), number("feed_forward_length", ffn),
              number("attention.head_count", heads),
              text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    shapes = {"attn_norm": (hidden,), "ffn_norm": (hidden,), "ffn_gate": (ffn, hidden), "ffn_up": (ffn, hidden),
              "ffn_down": (hidden, ffn)} | {f"attn_{x}": (hidden, hidden) for x in ("q", "k", "v", "output")}
    tensors = [("token_embd", (vocab, hidden)), ("output_norm", (hidden,))]
    tensors += [(f"blk.{i}.{name}", shape) for i in range(layers) for name, shape in shapes.items()]
    infos, at = [], 0
    for name, shape in tensors:
        kind, size = (0, 4) if len(shape) == 1 else (1, 2)  # F32, F16
        infos.append(text(name + ".weight") + struct.pack("<I", len(shape)) +
                     b"".join(struct.pack("<Q", d) for d in reversed(shape)) + struct.pack("<IQ", kind, at))
        n = size
        for d in shape:
            n *= d
        at += (n + 31) // 32 * 32
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(header)
        f.truncate((len(header) + 31) // 32 * 32 + at)
    return at


def peak_of(*command):
    """Bytes of the largest child so far: commands come in rising order of need, or alike."""
    done = subprocess.run([drover, *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gguf_peak: {' '.join(map(str, command))}: {done.stderr}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


size = write_model(folder / "large.gguf")
limit = 3 * 4 * ffn * hidden + 200 * 10**6
assert size > limit
bad = False
for what, command in (("import", ("ckpt", "import", folder / "large.gguf", "--out", folder / "large")),
                      ("export", ("ckpt", "export", folder / "large", "--gguf", folder / "again.gguf", "--no-verify"))):
    peak = peak_of(*command)
    print(f"{what}: {peak / 1e6:.0f} MB for a model of {size / 1e6:.0f} MB, limit {limit / 1e6:.0f} MB")
    bad |= peak > limit
sys.exit(bad)
