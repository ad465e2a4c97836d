#!/usr/bin/env python3
"""Writes tests/golden/foreign: one small Llama as a Hugging Face folder (model) and as other trainers save it, and .metadata files
that are wrong in one way each (bad, which fuzzing begins with too). Needs torch 2.11; runs four processes for a minute.

    dcp       PyTorch itself: torchtitan's names, two-way tensor parallelism and two-way FSDP, each chunk where they put it
    mcore     Megatron-LM's files of 2 x 2 ranks, names of Transformer Engine (as the others below: from
              the descriptions in tools/foreign_models.py)
    classic   the older names, padded vocabulary, 2 tensor ranks
    nxd       4 tensor ranks for 2 heads of keys
    xser      NxD's one rank, references of xser
    nnm       neuronx-nemo-megatron, 2 x 2 ranks
    *.nemo    archives of NeMo 1: of the ranks of nnm (pax), and of a model of one rank (GNU's form)
    tar       archives with a long name in the three forms of Python's tarfile, which fuzzing begins with too
    midrun    a run in mid-run (tools/check_resume.py): the tokens that it learns, the losses of its next steps, its checkpoint as
              torchtitan and as Megatron-Core's fully_sharded_model_space save it, and as drover's own (own)
"""
import io, json, os, pathlib, pickle, random, shutil, sys, tarfile, tempfile, warnings
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.checkpoint import metadata as md
from torch.distributed.checkpoint.filesystem import _StorageInfo
import foreign_models as models

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/foreign"
CONFIG = dict(models.draw_config(random.Random(1)), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=4, vocab_size=24, tie_word_embeddings=False, torch_dtype="bfloat16")


def as_modules(tensors):
    """The tensors as parameters of linear layers and of modules without a forward pass, and how tensor parallelism cuts them."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
    root, plan = nn.Module(), {}
    for name, w in tensors.items():
        *path, leaf, _ = name.split(".")
        module = root
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if w.dim() == 2:
            made = nn.Linear(w.shape[1], w.shape[0], bias=False, dtype=w.dtype)
            plan[name.removesuffix(".weight")] = RowwiseParallel() if leaf in ("wo", "w2") else ColwiseParallel()
        else:
            made = nn.Module()
            made.weight = nn.Parameter(torch.empty_like(w))
        with torch.no_grad():
            made.weight.copy_(w)
        module.add_module(leaf, made)
    return root, plan


def save_sharded(rank, tensors, folder, port):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import parallelize_module
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="4")
    dist.init_process_group("gloo", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    root, plan = as_modules(tensors)
    parallelize_module(root, mesh["tp"], plan)
    fully_shard(root, mesh=mesh["dp"])
    dcp.save(root.state_dict(), checkpoint_id=folder)
    dist.destroy_process_group()


def write_dcp(tensors, folder):
    titan = {name: w.contiguous() for name, w in models.to_torchtitan(tensors, CONFIG).items()}
    mp.spawn(save_sharded, args=(titan, str(folder), random.Random().randint(20000, 30000)), nprocs=4)
    (folder / "config.json").write_text((ROOT / "model/config.json").read_text())


def one_tensor(chunks, size=(4, 2), places=None, **fields):
    """Metadata of an embedding. A chunk is (offsets, sizes); places: (offset, file) of each, by default all chunks'."""
    name = "tok_embeddings.weight"
    listed = [md.ChunkStorageMetadata(torch.Size(o), torch.Size(s)) for o, s in chunks]
    tensor = md.TensorStorageMetadata(md.TensorProperties(dtype=fields.get("dtype", torch.float32)), torch.Size(size), listed)
    places = [(o, "__0_0.distcp") for o, _ in chunks] if places is None else places
    stored = {md.MetadataIndex(fields.get("place_of", name), o, i): _StorageInfo(file, 100 * i, 100, fields.get("transforms"))
              for i, (o, file) in enumerate(places)}
    return md.Metadata({name: tensor}, {name: (name,)}, stored)


def write_bad(folder):
    folder.mkdir()
    halves = [((0, 0), (2, 2)), ((2, 0), (2, 2))]
    cases = {"good": one_tensor(halves), "overlap": one_tensor([halves[0], ((1, 0), (2, 2))]), "missing_chunk": one_tensor(halves[:1]),
             "beyond": one_tensor([halves[0], ((3, 0), (2, 2))]), "no_place": one_tensor(halves, places=[((0, 0), "__0_0.distcp")]),
             "no_such_chunk": one_tensor(halves, places=[((0, 0), "__0_0.distcp"), ((3, 0), "__0_0.distcp")]),
             "other_folder": one_tensor(halves, places=[((0, 0), "../x"), ((2, 0), "__0_0.distcp")]),
             "dimensions": one_tensor([((0,), (4,))], places=[]), "complex": one_tensor(halves, dtype=torch.complex64),
             "of_nothing": one_tensor(halves, place_of="norm.weight"), "compressed": one_tensor(halves, transforms=["zstd"]),
             "huge": one_tensor([((0, 0), (2**40, 2**40))], size=(2**40, 2**40)), "two_places": one_tensor(halves),
             "no_dict": md.Metadata(None), "weights": one_tensor(halves)}
    twice = cases["two_places"].storage_data
    twice[md.MetadataIndex("tok_embeddings.weight", (0, 0), 0)], twice[md.MetadataIndex("tok_embeddings.weight", None)] = list(twice.values())
    del cases["weights"]
    for name, metadata in cases.items():
        (folder / f"{name}.metadata").write_bytes(pickle.dumps(metadata))


def write_nemo(tensors):
    with tempfile.TemporaryDirectory() as folder:
        for name, how, form in (("ranks", dict(pipeline=2), tarfile.PAX_FORMAT), ("alone", dict(tensor=1), tarfile.GNU_FORMAT)):
            models.write_nnm(f"{folder}/{name}", tensors, CONFIG, **how)
            with tarfile.open(ROOT / f"{name}.nemo", "w:", format=form) as archive:
                for path in sorted(pathlib.Path(folder, name).glob("*/*.ckpt")):
                    archive.add(path, f"./{path.parent.name}/model_weights.ckpt" if name == "ranks" else "./model_weights.ckpt")


def write_tars(folder):
    folder.mkdir()
    for name, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("ustar", tarfile.USTAR_FORMAT)):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:", format=form) as archive:
            for member, content in (("./folder/" + "long" * 22 + "/name", b"first"), ("second", b"2" * 513), ("./empty", b"")):
                about = tarfile.TarInfo(member)
                about.size, about.mtime = len(content), 1.5 if name == "pax" else 1
                archive.addfile(about, io.BytesIO(content))
        (folder / f"{name}.tar").write_bytes(made.getvalue()[:8 * 1024])  # of 10 KB, the last of them empty


def write_run(folder):
    """Cases of tools/check_resume.py, and the state that they have as a checkpoint of drover."""
    import check_resume as run
    from safetensors.torch import load_file, save_file
    folder.mkdir()
    run.train_and_save(1, folder, ["titan", "flattened"], more=4, lean=True)
    torch.save(run.nemo_common(json.loads((folder / "rate.json").read_text())), folder / "nemo.pt")
    before, own = load_file(folder / "before.safetensors"), folder / "own"
    own.mkdir()
    save_file({n: w for n, w in before.items() if not n.startswith("exp_avg")}, own / "model.safetensors", metadata={"format": "pt"})
    save_file({n: w for n, w in before.items() if n.startswith("exp_avg")}, own / "optimizer.safetensors")
    (own / "config.json").write_text(json.dumps(run.CONFIG))
    (own / "trainer.json").write_text(json.dumps({"step": run.STEPS, "updates": run.STEPS, "rows_taken": run.STEPS * run.ROWS,
                                                  "tokens": run.STEPS * run.ROWS * run.TOKENS}))
    for name in ("before.safetensors", "after.safetensors", "rate.json"):
        (folder / name).unlink()
    for path in own.iterdir():
        path.chmod(0o644)


def write_corpus(folder):
    """What fuzzing begins with (tests/fuzz/fuzz_dcp_state.c): small checkpoints with an optimizer, each as one file."""
    import check_resume as run
    numbers = iter(range(1, 1000))
    titan = {"tok_embeddings.weight": (4, 4), "layers.1.attention.wq.weight": (4, 4), "norm.weight": (4,)}
    core = {"embedding.word_embeddings.weight": (4, 4), "decoder.layers.mlp.linear_fc2.weight": (2, 4, 4)}

    def fresh(shape):
        return torch.rand(shape, generator=torch.Generator().manual_seed(next(numbers)))
    states = {"titan": {name: fresh(shape) for name, shape in titan.items()} | {"train_state.step": torch.tensor(5)},
              "flattened": {name: fresh(shape).bfloat16() for name, shape in core.items()} | {"train_state.step": 5}}
    run.join_group(0, random.Random().randint(20000, 30000), 1)
    for name, shape in titan.items():
        states["titan"] |= {f"optimizer.state.{name}.{key}": fresh(shape) for key in ("exp_avg", "exp_avg_sq")}
        states["titan"] |= {f"optimizer.state.{name}.step": torch.tensor(5.0), f"optimizer.param_groups.{name}.lr": 1e-3}
    for name, shape in core.items():
        states["flattened"][f"optimizer.state.exp_avg.{name}"] = run.flattened(fresh(shape), name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, state in states.items():
        with tempfile.TemporaryDirectory() as saved:
            dcp.save(state, checkpoint_id=saved)
            metadata, data = (pathlib.Path(saved, part).read_bytes() for part in (".metadata", "__0_0.distcp"))
        (folder / name).write_bytes(len(metadata).to_bytes(4, "little") + metadata + data)
    dist.destroy_process_group()


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    tensors = models.write_model(ROOT / "model", CONFIG, 1)
    write_bad(ROOT / "bad")
    write_dcp(tensors, ROOT / "dcp")
    models.write_megatron(ROOT / "mcore", tensors, CONFIG, pipeline=2)
    models.write_megatron(ROOT / "classic", tensors, CONFIG, spec="classic", args=False)
    models.write_nxd(ROOT / "nxd", tensors, CONFIG, tensor=4, copies=2)
    models.write_nxd(ROOT / "xser", tensors, CONFIG, tensor=1, xser=True, below="shards/model")
    models.write_nnm(ROOT / "nnm", tensors, CONFIG, pipeline=2, split=True)
    write_nemo(tensors)
    write_tars(ROOT / "tar")
    shutil.copytree(ROOT / "tar", ROOT.parent.parent / "corpus/tar", dirs_exist_ok=True)
    write_run(ROOT / "midrun")
    write_corpus(ROOT.parent.parent / "corpus/dcp_state")


if __name__ == "__main__":
    main()
