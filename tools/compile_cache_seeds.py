#!/usr/bin/env python3
"""Writes tests/corpus/compile_cache: a file of the compile cache (src/backend/pjrt/runtime/program_file.c) for each reason to
refuse one, and two that are read. Needs the package xxhash. usage: tools/compile_cache_seeds.py"""
import pathlib
import struct

import xxhash

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "tests/corpus/compile_cache"
MAGIC, PAYLOAD = b"drvprog5", b"payload"
TEXTS = {"program": b"step", "plugin": b"cpu", "kind": b"cpu", "interface": b"PJRT 0.116", "drover": b"0.1.0"}


def about(texts, facts):
    """program_about: the key, five texts of 64 bytes, devices, seconds, eleven counts, and whether these were read."""
    return struct.pack("<2Q", 1, 2) + b"".join(t.ljust(64, b"\0") for t in texts.values()) + struct.pack("<qd12q", 1, 0.5, *facts)


def program(magic=MAGIC, missing=0, texts=None, facts=(0,) * 12):
    """The head, which has the hash of all that follows it, and the payload. `missing`: bytes that the head counts beyond it."""
    rest = about(TEXTS | (texts or {}), facts) + PAYLOAD
    digest = struct.unpack(">2Q", xxhash.xxh3_128_digest(rest))  # the high half first
    return magic + struct.pack("<3Q", len(PAYLOAD) + missing, *digest) + rest


def main():
    seeds = {"valid": program(), "facts": program(facts=tuple(range(1, 12)) + (1,)), "short": program()[:-len(PAYLOAD) - 1],
             "magic": program(magic=b"drvprog4"), "length": program(missing=1), "hash": program()[:-1] + b"D"}
    seeds |= {name: program(texts={name: b"x" * 64}) for name in TEXTS}
    for old in CORPUS.iterdir():
        old.unlink()
    for name, content in seeds.items():
        (CORPUS / name).write_bytes(content)


if __name__ == "__main__":
    main()
