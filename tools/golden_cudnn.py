#!/usr/bin/env python3
"""Writes the calls of cuDNN to which JAX lowers attention for CUDA; a test compares drover's calls with them, field by field.

    pip install jax && tools/golden_cudnn.py >tests/golden/cudnn_calls.json

Needs no GPU: JAX lowers for a platform that is not there, with its checks for an installed cuDNN and for the capability
of the GPU set aside. The gradient of a mask, which JAX always asks for, is left out by JAX's own switch for it: nothing
reads it. Each case is attention in bf16 over rows that are causal (with a window), masked, or packed segments.
"""
import json
import sys

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as fused

ROWS, TOKENS = 2, 128
CASES = {  # name: query heads, key heads, numbers of a head, window, segments of a row, masked
    "causal": (4, 4, 64, 0, 0, False),
    "causal_grouped": (4, 2, 128, 0, 0, False),
    "causal_one_key_head": (4, 1, 72, 0, 0, False),
    "causal_large_heads": (2, 2, 256, 0, 0, False),
    "window": (4, 4, 64, 32, 0, False),
    "window_grouped": (4, 2, 128, 48, 0, False),
    "mask": (4, 4, 64, 0, 0, True),
    "mask_grouped": (4, 2, 128, 0, 0, True),
    "mask_large_heads": (2, 1, 256, 0, 0, True),
    "segments": (4, 4, 64, 0, 4, False),
    "segments_grouped": (4, 2, 128, 0, 8, False),
    "segments_large_heads": (2, 1, 256, 0, 2, False),
}


def attention(heads, kv_heads, d, window, segments, masked):
    """Forward and backward as one function, and shapes of its arguments."""
    shape = jax.ShapeDtypeStruct
    q = shape((ROWS, TOKENS, heads, d), jnp.bfloat16)
    kv = shape((ROWS, TOKENS, kv_heads, d), jnp.bfloat16)
    more = {}
    if masked:
        more["mask"] = shape((ROWS, 1, TOKENS, TOKENS), jnp.bool_)
    if segments:
        for name, n in (("seqlen", segments), ("offsets", segments + 1)):
            more["q_" + name] = more["kv_" + name] = shape((ROWS, n), jnp.int32)
    kind = fused.MaskType.PADDING_CAUSAL if segments else fused.MaskType.CAUSAL

    def both(q, k, v, d_o, more):
        o, back = jax.vjp(lambda q, k, v: fused.dot_product_attention(q, k, v, scale=d ** -0.5, mask_type=kind,
                          sliding_window_length=window or None, **more), q, k, v)
        return o, back(d_o)

    return both, (q, kv, kv, q, more)


def call_of(op):
    a = op.attributes
    layouts = lambda name: [[int(i) for i in layout] for layout in a[name]]
    return {
        "target": a["call_target_name"].value,
        "api_version": int(a["api_version"]) if "api_version" in a else 1,
        "has_side_effect": "has_side_effect" in a and bool(a["has_side_effect"].value),
        "operands": [str(x.type) for x in op.operands],
        "operand_layouts": layouts("operand_layouts"),
        "results": [str(x.type) for x in op.results],
        "result_layouts": layouts("result_layouts"),
        "backend_config": json.loads(a["backend_config"].value),
    }


def find_calls(op, found):
    for region in op.regions:
        for block in region:
            for inner in block:
                if inner.operation.name == "stablehlo.custom_call":
                    call = inner.operation
                    if call.attributes["call_target_name"].value.startswith("__cudnn$fmha"):
                        found.append(call_of(call))
                find_calls(inner.operation, found)
    return found


def main():
    fused.check_cudnn_version = lambda: 91900
    fused.check_compute_capability = lambda capability: True
    fused.is_cuda_compute_capability_equal = lambda capability: False
    fused.should_export_dbias = lambda *shapes: False
    out = []
    for name, case in CASES.items():
        function, arguments = attention(*case)
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
        calls = find_calls(lowered.compiler_ir().operation, [])
        assert len(calls) == 2, f"{name}: {len(calls)} calls"
        keys = ("heads", "kv_heads", "head_dim", "window", "segments", "masked")
        out.append({"name": name, "rows": ROWS, "tokens": TOKENS, **dict(zip(keys, case)),
                    "forward": calls[0], "backward": calls[1]})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in out)
    sys.stdout.write(f'{{"jax": "{jax.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
