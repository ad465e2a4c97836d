#!/usr/bin/env python3
"""Writes tests/golden/torch_save: files of torch.save in both forms and every protocol (NAME.pt), and what torch's own weights_only
reader makes of each (NAME.safetensors), which tests/test_torch_file.c holds drover against; and for tests/test_source_torch.c a small
Llama as pytorch_model.bin in two files, as a checkpoint of a trainer, and an adapter as adapter_model.bin; and the corpora of
tests/fuzz/fuzz_pickle.c and fuzz_torch_file.c.

    pip install torch transformers safetensors numpy; tools/golden_torch.py
"""
import argparse, collections, json, pathlib, pickle, shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/torch_save"
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
         torch.bool]
LATE = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]  # that torch has no storage class for


def numbers(generator, shape, dtype):
    """Random bytes as a type; a bool is 0 or 1."""
    n = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (n,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).reshape(shape)


def state(generator, types):
    """A nested dict: each type, views of one storage, strides, a scalar, an empty tensor, parameters, and what is no tensor."""
    shared = numbers(generator, (6, 5), torch.float32)
    model = collections.OrderedDict((f"layers.{i}.weight", numbers(generator, (3, 2), t)) for i, t in enumerate(types))
    model["transposed"] = shared.t()
    model["every_other"] = shared[::2, 1::3]
    model["middle"] = shared[1:3]
    model["again"] = shared
    model["repeated"] = shared[0].expand(3, 5)
    model["turned"] = numbers(generator, (2, 3, 4), torch.bfloat16).permute(2, 0, 1)
    model["scalar"] = numbers(generator, (), torch.float32)
    model["empty"] = torch.zeros(0, 4)
    model["parameter"] = torch.nn.Parameter(shared[0], requires_grad=False)
    model._metadata = {"": {"version": 1}}
    return {"model": model, "optimizer": {"state": {0: {"step": torch.tensor(3.0), "exp_avg": numbers(generator, (2, 2), torch.float32)}},
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "params": [0]}]}, "iteration": 70000, "negative": -3, "large": 1 << 40,
            "args": argparse.Namespace(hidden_size=64, dtype=torch.bfloat16, name="a model"), "none": None, "yes": True,
            "device": torch.device("cpu"), "size": torch.Size([2, 3]), "set": {1}, "bytes": b"\x00\xff"}


def tensors(value, name=""):
    """The tensors of a value by the keys that lead to them, as drover lists them."""
    if isinstance(value, torch.Tensor):
        yield name, value.detach().contiguous().clone()
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from tensors(below, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, below in enumerate(value):
            yield from tensors(below, f"{name}.{i}" if name else str(i))


def write(name, value, **options):
    torch.save(value, OUT / f"{name}.pt", **options)
    with torch.serialization.safe_globals([argparse.Namespace]):
        read = torch.load(OUT / f"{name}.pt", weights_only=options.get("pickle_protocol", 2) == 2)
    save_file(dict(tensors(read)), OUT / f"{name}.safetensors")


def write_models(generator):
    config = LlamaConfig(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, dtype="bfloat16")
    names = LlamaForCausalLM(config).state_dict()
    weights = {n: torch.randn(w.shape, generator=generator).to(torch.bfloat16) for n, w in names.items()}
    for folder in "index", "trainer":
        (OUT / folder).mkdir(exist_ok=True)
        config.save_pretrained(OUT / folder)
    save_file(weights, OUT / "index/truth.safetensors")
    halves = [n for n in weights if ".layers.1." in n], [n for n in weights if ".layers.1." not in n]
    files = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    for file, half in zip(files, halves):
        torch.save({n: weights[n] for n in half}, OUT / "index" / file)
    index = {"metadata": {"total_size": sum(2 * w.numel() for w in weights.values())},
             "weight_map": {n: file for file, half in zip(files, halves) for n in half}}
    (OUT / "index/pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")
    lightning = {"epoch": 1, "global_step": 70, "state_dict": {"model." + n: w for n, w in weights.items()},
                 "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 1e-3, "params": [0]}]}]}
    torch.save(lightning, OUT / "trainer/last.ckpt")
    torch.save({"model": weights, "ema": {n: -w for n, w in weights.items()}}, OUT / "trainer/two.pt")
    adapter = OUT.parent / "adapters/plain"
    (OUT / "adapter").mkdir(exist_ok=True)
    shutil.copy(adapter / "adapter_config.json", OUT / "adapter")
    torch.save(load_file(adapter / "adapter_model.safetensors"), OUT / "adapter/adapter_model.bin")


def write_corpus():
    """Small files to begin with, for tests/fuzz: pickles of every kind of value, and torch files of one and of two tensors."""
    corpus = OUT.parent.parent / "corpus"
    for folder in "pickle", "torch_file":
        (corpus / folder).mkdir(exist_ok=True)
    shared = ["x"]
    values = {"none": None, "yes": True, "ints": [0, 300, -70000, 1 << 40, 1 << 70], "real": 0.5, "bytes": b"ab", "tuple": (1, (2,), ()),
              "set": {3}, "shared": [shared, shared], "ordered": collections.OrderedDict(a={"b": [torch.float32]}),
              "arguments": argparse.Namespace(size=torch.Size([2])), 5: "key"}
    for protocol in range(1, 6):
        (corpus / f"pickle/protocol_{protocol}").write_bytes(pickle.dumps(values, protocol=protocol))
    tensor = torch.arange(6, dtype=torch.int16).reshape(2, 3)
    torch.save({"model": {"w": tensor, "t": tensor.t()}}, corpus / "torch_file/zip")
    torch.save({"w": tensor, "t": tensor.t()}, corpus / "torch_file/old", _use_new_zipfile_serialization=False)
    torch.save(torch.zeros(2).to(torch.float8_e5m2), corpus / "torch_file/float8")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(1)
    write("zip", state(generator, TYPES + LATE))
    write("old", state(generator, TYPES), _use_new_zipfile_serialization=False)
    for protocol in 1, 3, 4, 5:
        write(f"zip_protocol_{protocol}", state(generator, TYPES), pickle_protocol=protocol)
    write("old_protocol_4", state(generator, TYPES), pickle_protocol=4, _use_new_zipfile_serialization=False)
    write("tensor", numbers(generator, (4, 3), torch.bfloat16).t())
    write_models(generator)
    write_corpus()
