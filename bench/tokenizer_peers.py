#!/usr/bin/env python3
"""drover's tokenizer beside gigatoken, tiktoken and Hugging Face tokenizers, one after the other on the
same machine and text. Every measurement is a fresh process; cold is its first pass, warm the best (and the median) of
the --passes after it, for all programs alike. Prints a JSON object per measurement, and a table at the end.

    python bench/tokenizer_peers.py build/drover CORPUS.txt TOKENIZER_DIR... [--rounds 3] [--passes 5] [--peers gigatoken,tiktoken,huggingface] [--threads 1,2] [--train]

    python bench/tokenizer_peers.py --make-mix MIX.txt     150 MB of this Debian's perl, documentation, C headers and Python

Needs tokenizers, and gigatoken and tiktoken where they are to be compared. CORPUS: 150 MB or more.
"""
import argparse, json, os, random, statistics, subprocess, sys, time

PEERS = ["gigatoken", "tiktoken", "huggingface"]
SLICE = {"gigatoken": None, "tiktoken": 20_000_000, "huggingface": 4_000_000}  # bytes: the slow ones get less


MIX = [("/usr/share/perl", (".pm", ".pl", ".pod", ".t"), 60e6), ("/usr/share/doc", None, 52e6), ("/usr/include", None, 55e6),
    ("/usr/lib/python3", (".py",), 30e6), ("/usr/lib/python3.11", (".py",), 20e6)]  # folder, endings, bytes at most


def make_mix(out):
    with open(out, "wb") as f:
        for root, ends, limit in MIX:
            paths = [os.path.join(d, x) for d, _, names in os.walk(root) for x in names
                if (ends is None or x.endswith(ends)) and not x.endswith((".gz", ".png", ".svg", ".gif", ".pdf"))]
            paths = sorted(p for p in paths if not os.path.islink(p))
            random.Random(1).shuffle(paths)
            n = 0
            for p in paths:
                data = open(p, "rb").read()
                if b"\0" not in data and n + len(data) <= limit:
                    n += f.write(data)
            print(root, n)


def byte_level_ranks(path):
    """tiktoken's ranks of a byte-level vocabulary."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    of, n = {chr(b): b for b in printable}, 0
    for b in range(256):
        if b not in printable:
            of[chr(256 + n)] = b
            n += 1
    vocab = json.load(open(path))["model"]["vocab"]
    return {bytes(of[c] for c in k): v for k, v in vocab.items() if all(c in of for c in k)}


def one_peer(name, directory, corpus, passes):
    path = directory + "/tokenizer.json"
    n = SLICE[name] or os.path.getsize(corpus)
    t0 = time.time()
    if name == "gigatoken":
        import gigatoken
        tok = gigatoken.Tokenizer(path)
        source = gigatoken.TextFileSource([corpus], separator=b"<|endoftext|>")
        run = lambda: tok.encode_files(source)
    else:
        text = open(corpus, "rb").read(n).decode("utf-8", "ignore")
        pieces = [text[i:i + 100_000] for i in range(0, len(text), 100_000)]
        if name == "tiktoken":
            import tiktoken
            pre = json.load(open(path))["pre_tokenizer"]
            pattern = next((p["pattern"]["Regex"] for p in pre.get("pretokenizers", []) if p["type"] == "Split"),
                r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s")
            tok = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=byte_level_ranks(path), special_tokens={})
            run = lambda: [tok.encode_ordinary(p) for p in pieces]
        else:
            from tokenizers import Tokenizer
            tok = Tokenizer.from_file(path)
            run = lambda: tok.encode_batch_fast(pieces)
    out = dict(tool=name, tokenizer=os.path.basename(directory), load_s=round(time.time() - t0, 3))
    speeds = []
    for _ in range(1 + passes):
        t0 = time.time()
        run()
        speeds.append(round(n / (time.time() - t0) / 1e6, 1))
    out.update(threads=1, cold_mb_per_s=speeds[0], warm_mb_per_s=max(speeds[1:]), warm_median_mb_per_s=statistics.median(speeds[1:]))
    print(json.dumps(out), flush=True)


def one_training(name, corpus):
    t0 = time.time()
    if name == "gigatoken":
        import gigatoken
        gigatoken.train_bpe(gigatoken.TextFileSource([corpus], separator=b"<|endoftext|>"), 32000, ["<|endoftext|>"])
    else:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
        text = open(corpus, encoding="utf-8", newline="").read()
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t0 = time.time()
        t.train_from_iterator([text[i:i + 1_000_000] for i in range(0, len(text), 1_000_000)], trainers.BpeTrainer(
            vocab_size=32000, min_frequency=2, show_progress=False, special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    s = time.time() - t0
    print(json.dumps(dict(tool=name, train_s=round(s, 2), mb_per_s=round(os.path.getsize(corpus) / s / 1e6, 1))), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover", nargs="?")
    p.add_argument("corpus", nargs="?")
    p.add_argument("--make-mix")
    p.add_argument("tokenizers", nargs="*")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--train", action="store_true")
    p.add_argument("--passes", type=int, default=5)
    p.add_argument("--peers", default=",".join(PEERS))
    p.add_argument("--threads", default="1,2")
    p.add_argument("--preload", default="", help="a library for the peers alone: tcmalloc spares gigatoken new pages in each pass")
    p.add_argument("--one")
    a = p.parse_args()
    if a.make_mix:
        return make_mix(a.make_mix)
    if a.one:
        return one_training(a.one, a.corpus) if a.train else one_peer(a.one, a.tokenizers[0], a.corpus, a.passes)
    env = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", LD_PRELOAD=a.preload)
    lines = []
    def measure(tool, command, **more):
        out = subprocess.run(command, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **more).stdout.strip()
        print(out, flush=True)
        if out:
            lines.append(dict(json.loads(out), tool=tool))
    for _ in range(a.rounds):
        for d in a.tokenizers:
            for threads in a.threads.split(","):
                for program in a.drover.split(","):  # more than one: versions side by side
                    measure(program, [program, "bench", "tokenizer", "--json", "--tokenizer", d, "--input", a.corpus, "--threads", threads,
                        "--repeats", str(a.passes)])
            for name in filter(None, a.peers.split(",")):
                measure(name, [sys.executable, __file__, a.drover, a.corpus, d, "--one", name, "--passes", str(a.passes)], env=env)
        if a.train:
            t0 = time.time()
            subprocess.run([a.drover, "tokenizer", "train", "--input", a.corpus, "--vocab-size", "32000", "--out", "/tmp/drover-bench-tok"],
                stderr=subprocess.DEVNULL)
            s = time.time() - t0
            print(json.dumps(dict(tool="drover", train_s=round(s, 2), mb_per_s=round(os.path.getsize(a.corpus) / s / 1e6, 1))), flush=True)
            for name in "gigatoken", "huggingface":
                subprocess.run([sys.executable, __file__, a.drover, a.corpus, "--train", "--one", name],
                    env=dict(os.environ, TOKENIZERS_PARALLELISM="true"), stderr=subprocess.DEVNULL)
    table(lines)


def table(lines):
    """Medians over the rounds."""
    groups = {}
    for x in lines:
        groups.setdefault((os.path.basename(x["tokenizer"]), x["threads"], x["tool"]), []).append(x)
    for (tokenizer, threads, tool), rounds in sorted(groups.items()):
        m = {k: statistics.median(x.get(k, 0) for x in rounds) for k in ("cold_mb_per_s", "warm_mb_per_s", "warm_median_mb_per_s")}
        print(f"{tokenizer:12} {threads} {tool:24} cold {m['cold_mb_per_s']:6.1f}  warm best {m['warm_mb_per_s']:6.1f}  median {m['warm_median_mb_per_s']:6.1f}")


if __name__ == "__main__":
    main()
