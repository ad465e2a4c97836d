#!/usr/bin/env python3
"""Compares drover's ids and decoded text with Hugging Face tokenizers' on files of text.

    python tools/compare_tokenizers.py build/drover TOKENIZER_DIR... -- TEXT_FILE...
"""
import subprocess, sys
from tokenizers import Tokenizer


def main():
    drover, rest = sys.argv[1], sys.argv[2:]
    dirs, files = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    bad = 0
    for d in dirs:
        hf = Tokenizer.from_file(d + "/tokenizer.json")
        for f in files:
            text = open(f, "rb").read().decode("utf-8", "replace")
            want = hf.encode(text).ids
            out = subprocess.run([drover, "tokenizer", "encode", "--tokenizer", d, "--input", f], capture_output=True)
            if out.returncode:
                print(d, f, out.stderr.decode().strip())
                bad += 1
                continue
            got = [int(x) for x in out.stdout.split()]
            back = subprocess.run([drover, "tokenizer", "decode", "--tokenizer", d], input=out.stdout, capture_output=True).stdout.decode("utf-8", "replace")
            same_text = back == hf.decode(want, skip_special_tokens=False)
            if got != want or not same_text:
                at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                print(f"DIFFERENT {d} {f}: ids {got == want}, text {same_text}, first at {at}: {got[at-1:at+4]} {want[at-1:at+4]} "
                      f"{hf.decode(want[max(0, at-3):at+4])!r}")
                bad += 1
        print(d.split("/")[-1], "done", flush=True)
    print(f"{bad} differences")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
