#!/usr/bin/env python3
"""Writes tests/golden/gguf/quants.gguf with gguf-py: for each type that drover reads, random blocks (tensor TYPE) and what
gguf-py makes of them (TYPE.f32); for Q8_0 and BF16 numbers (TYPE.numbers) and what gguf-py writes for them (TYPE.written).
The metadata hold a value of each type.

    pip install gguf==0.19.0 numpy; tools/golden_gguf.py
"""
import pathlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/gguf/quants.gguf"
READ = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
# Where the fp16 scales and minima lie in a block: they are finite here, all other bytes are random.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
ROWS, COLS = 2, 256
rng = np.random.default_rng(20261122)


def halves(n):
    """fp16 of all sizes and both signs, denormals included."""
    bits = rng.integers(0, 0x7800, n, dtype=np.uint16) | rng.integers(0, 2, n, dtype=np.uint16) << 15
    return bits.astype("<u2").view(np.uint8).reshape(n, 2)


def blocks(name):
    kind = gguf.GGMLQuantizationType[name]
    size, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    n = ROWS * COLS // size
    if name == "F32":
        return rng.standard_normal((ROWS, COLS)).astype(np.float32)
    if name in ("F16", "BF16"):
        return halves(ROWS * COLS).reshape(ROWS, 2 * COLS)
    raw = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
    for at in SCALES[name]:
        raw[:, at:at + 2] = halves(n)
    return raw.reshape(ROWS, -1)


def main():
    OUT.parent.mkdir(parents=True, exist_ok=True)
    w = gguf.GGUFWriter(OUT, "llama")
    w.add_key_value("test.u8", 250, gguf.GGUFValueType.UINT8)
    w.add_key_value("test.i8", -100, gguf.GGUFValueType.INT8)
    w.add_key_value("test.u16", 65000, gguf.GGUFValueType.UINT16)
    w.add_key_value("test.i16", -30000, gguf.GGUFValueType.INT16)
    w.add_uint32("test.u32", 4000000000)
    w.add_int32("test.i32", -2000000000)
    w.add_uint64("test.u64", 2**63)
    w.add_int64("test.i64", -(2**62))
    w.add_float32("test.f32", 1e-5)
    w.add_float64("test.f64", 1e-5)
    w.add_bool("test.bool", True)
    w.add_string("test.text", "grüße")
    w.add_array("test.texts", ["a", "", "ß"])
    w.add_array("test.i32s", [1, -2, 3])
    w.add_array("test.f32s", [1.5, -2.5])
    for name in READ:
        kind = gguf.GGMLQuantizationType[name]
        raw = blocks(name)
        if name == "F16":
            raw, f32 = raw.view(np.float16), raw.view(np.float16).astype(np.float32)
            w.add_tensor(name, raw)
        elif name == "F32":
            f32 = raw
            w.add_tensor(name, raw)
        else:
            f32 = gguf.quants.dequantize(raw, kind)
            w.add_tensor(name, raw, raw_dtype=kind)
        w.add_tensor(name + ".f32", np.ascontiguousarray(f32.astype(np.float32)))
    for name in ("Q8_0", "BF16"):
        kind = gguf.GGMLQuantizationType[name]
        numbers = (rng.standard_normal((ROWS, COLS)) * 10.0 ** rng.integers(-9, 4, (ROWS, COLS))).astype(np.float32)
        numbers[0, :32] = 0
        w.add_tensor(name + ".numbers", numbers)
        w.add_tensor(name + ".written", gguf.quants.quantize(numbers, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
