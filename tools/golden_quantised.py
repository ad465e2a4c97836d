#!/usr/bin/env python3
"""Writes tests/golden/gguf/quantised.gguf: rows of numbers of several kinds (Q4_K.numbers), what ggml's own search makes of
them (Q4_K.written), which is the measure for ours.

    pip install gguf==0.19.0 llama-cpp-python==0.3.36; tools/golden_quantised.py

ggml's functions are taken from the library that llama-cpp-python builds.
"""
import ctypes
import pathlib

import gguf
import llama_cpp
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/gguf/quantised.gguf"
COLS, BYTES, Q4_K = 512, 288, 12
rng = np.random.default_rng(20261126)


def rows():
    """Gaussian; with a heavy tail; all positive; sub-blocks of other sizes; uniform; with one that stands out; sparse; of 16
    steps a sub-block, as what has been in blocks of four bits before."""
    normal = rng.standard_normal((4, COLS)) * 0.02
    tail = rng.standard_t(3, (4, COLS)) * 0.02
    positive = np.abs(rng.standard_normal((2, COLS))) + 0.5
    sizes = rng.standard_normal((2, COLS)) * np.repeat(10.0 ** rng.integers(-3, 1, (2, COLS // 32)), 32, axis=1)
    uniform = rng.uniform(-1, 1, (2, COLS))
    outlier = rng.standard_normal((2, COLS)) * 0.02
    outlier[:, 100] = 3
    sparse = rng.standard_normal((2, COLS)) * (rng.random((2, COLS)) < 0.1)
    steps = rng.integers(-8, 8, (4, COLS)) * np.repeat(rng.uniform(0.5, 1.5, (4, COLS // 32)) * 0.01, 32, axis=1)
    return np.concatenate([normal, tail, positive, sizes, uniform, outlier, sparse, steps]).astype(np.float32)


def main():
    lib = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib/libggml-base.so"))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    numbers = rows()
    written = np.zeros((len(numbers), BYTES), dtype=np.uint8)
    n = lib.ggml_quantize_chunk(ctypes.c_int(Q4_K), numbers.ctypes.data_as(ctypes.c_void_p),
                                written.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0), ctypes.c_int64(len(numbers)),
                                ctypes.c_int64(COLS), None)
    assert n == written.size, n
    kind = gguf.GGMLQuantizationType.Q4_K
    w = gguf.GGUFWriter(OUT, "llama")
    w.add_tensor("Q4_K.numbers", numbers)
    w.add_tensor("Q4_K.written", written, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
