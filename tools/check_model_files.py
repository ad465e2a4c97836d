#!/usr/bin/env python3
"""Compares drover's ids with those of sentencepiece, tiktoken and tokenizers, on random texts for three dozen models
(golden_model_files.py).

    pip install sentencepiece tiktoken tokenizers protobuf; cmake --build build --target test_model_file
    tools/check_model_files.py build/tests/test_model_file [TEXTS [SEED]]
"""
import pathlib, subprocess, sys, tempfile

import golden_model_files


def main():
    program, texts, seed = sys.argv[1], int((sys.argv + ["", ""])[2] or 100), int((sys.argv + ["", "", ""])[3] or 1)
    with tempfile.TemporaryDirectory() as work:
        cases = pathlib.Path(work) / "cases.jsonl"
        golden_model_files.main(cases, seed, texts)
        n = sum(1 for _ in open(cases, encoding="utf-8"))
        done = subprocess.run([program, cases], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        print(done.stdout)
    print(f"{n} models, {texts} random texts and the corpus each, seed {seed}: the ids are {'NOT ' if done.returncode else ''}the same")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
