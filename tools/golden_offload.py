#!/usr/bin/env python3
"""Writes the calls to which JAX lowers offloading for CUDA: they move a value to the host's memory and back, field by field.

    pip install jax && tools/golden_offload.py >tests/golden/host_moves.json

The function is checkpointed with a policy that offloads one value of its forward pass. Needs no GPU: JAX lowers for a platform
that is not there.
"""
import functools
import json
import sys

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

POLICY = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[], names_which_can_be_offloaded=["x"], offload_src="device", offload_dst="pinned_host")


@functools.partial(jax.checkpoint, policy=POLICY)
def loss(w, x):
    return jnp.sum(jnp.cos(checkpoint_name(jnp.sin(x @ w), "x") @ w).astype(jnp.float32))


def call_of(op):
    attributes = {name: str(op.attributes[name]) for name in op.attributes}
    return {"attributes": attributes, "operand": str(op.operands[0].type), "result": str(op.results[0].type)}


def main():
    shape = jax.ShapeDtypeStruct((8, 8), jnp.bfloat16)
    lowered = jax.jit(jax.grad(loss)).trace(shape, shape).lower(lowering_platforms=("cuda",))
    calls = []
    for function in lowered.compiler_ir().body:
        calls += [call_of(op.operation) for op in function.body.blocks[0]
                  if op.operation.name == "stablehlo.custom_call"]
    assert len(calls) == 2, calls
    json.dump({"jax": jax.__version__, "to_host": calls[0], "from_host": calls[1]}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
