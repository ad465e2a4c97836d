#!/usr/bin/env python3
"""Makes tests/golden/shards/: small data sets in the formats of other trainers, and beside each NAME.jsonl with its
texts, ids or objects, as the package that wrote it reads them back. MDS is written by mosaicml-streaming, WebDataset
archives by webdataset, and by tarfile for headers of other kinds, .npy by NumPy. The .bin files follow the Python of
karpathy/llm.c (dev/data/data_common.py), which is no package. The tests need no Python.

    python tools/golden_shards.py tests/golden/shards      (with mosaicml-streaming, webdataset and numpy)
"""
import io, json, pathlib, random, shutil, sys, tarfile
import numpy as np
import webdataset
from streaming import MDSWriter
from streaming.base import LocalDataset

rng = random.Random(43)
WORDS = "the quick brown fox größe 日本語 naïve \n \t \" \\ 😀 jumps".split(" ")
text = lambda: " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12)))
out = pathlib.Path(sys.argv[1])


def rows(name, values):
    lines = [json.dumps(v, ensure_ascii=False) + "\n" for v in values]
    (out / f"{name}.jsonl").write_text("".join(lines))


def documents(mark, first, n=20, ids=60000):
    """Lists of ids, of which `mark` begins (or ends) each; one is empty but for it."""
    made = [[rng.randrange(ids) for _ in range(rng.choice([1, 3, 17, 40]))] for _ in range(n)]
    made[3] = []
    made = [[i if i != mark else 1 for i in d] for d in made]
    return [[mark] + d if first else d + [mark] for d in made]


def write_bin(name, magic, version, dtype, docs):
    ids = [i for d in docs for i in d]
    header = np.zeros(256, dtype=np.int32)
    header[0], header[1], header[2] = magic, version, len(ids)
    with open(out / name, "wb") as f:
        f.write(header.tobytes())
        f.write(np.array(ids, dtype=dtype).tobytes())


def bins():
    docs = documents(50256, True, ids=50256)
    write_bin("gpt2.bin", 20240520, 1, np.uint16, docs)
    rows("gpt2", docs)
    docs = documents(128000, True, ids=128000)
    docs[0] = docs[0][1:]  # a shard that begins within a document, as llm.c cuts them
    write_bin("llama3.bin", 20240801, 7, np.uint32, docs)
    rows("llama3", docs)


def arrays():
    docs = documents(50279, False, ids=50279)
    docs[-1] = docs[-1][:-1]  # a file that ends within a document
    flat = np.array([i for d in docs for i in d])
    for name, dtype in (("olmo_u16", np.uint16), ("olmo_u32", np.uint32)):
        m = np.memmap(out / f"{name}.npy", mode="w+", dtype=dtype, shape=(len(flat),))
        m[:] = flat
        m.flush()
        assert (np.memmap(out / f"{name}.npy", mode="r", dtype=dtype) == flat).all()
    for name, dtype in (("numpy_u16", np.uint16), ("numpy_i64", np.int64)):
        np.save(out / f"{name}.npy", flat.astype(dtype))
        assert (np.load(out / f"{name}.npy") == flat).all()
    with open(out / "numpy_v2.npy", "wb") as f:
        np.lib.format.write_array(f, flat.astype(np.uint32), version=(2, 0))
    rows("olmo", docs)


def mds(name, columns, samples, show, **kw):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, **kw) as writer:
        for s in samples:
            writer.write(s)
    # A copy, since the package unpacks shards beside the packed ones.
    copy = out / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    if kw.get("compression"):
        from streaming.base.compression import decompress
        index = json.loads((copy / "index.json").read_text())
        for shard in index["shards"]:
            packed = (copy / shard["zip_data"]["basename"]).read_bytes()
            (copy / shard["raw_data"]["basename"]).write_bytes(decompress(shard["compression"], packed))
    rows(name, [show(s) for s in LocalDataset(str(copy))])
    shutil.rmtree(copy)


def mosaic():
    ids = lambda n: np.array([rng.randrange(50000) for _ in range(n)])
    lists = [ids(rng.choice([1, 5, 300])) for _ in range(24)]
    row = lambda column: lambda s: [int(i) for i in s[column]]
    mds("mds_i32", {"tokens": "ndarray:int32"}, [{"tokens": x.astype(np.int32)} for x in lists], row("tokens"),
        size_limit=4096)
    mds("mds_any", {"input_ids": "ndarray", "n": "int"},
        [{"input_ids": x.astype(rng.choice([np.uint16, np.int64])), "n": len(x)} for x in lists], row("input_ids"))
    mds("mds_shape", {"tokens": "ndarray:uint16:8"}, [{"tokens": ids(8).astype(np.uint16)} for _ in range(9)],
        row("tokens"), compression="zstd")
    mds("mds_bytes", {"tokens": "bytes"}, [{"tokens": x.astype(np.int64).tobytes()} for x in lists],
        lambda s: [int(i) for i in np.frombuffer(s["tokens"], np.int64)])
    texts = [{"text": text(), "weight": rng.random(), "id": str(i)} for i in range(40)] + [dict(text="", weight=0., id="")]
    columns = {"text": "str", "weight": "float64", "id": "str"}
    mds("mds_text", columns, texts, lambda s: s["text"], size_limit=1024)
    first = json.loads((out / "mds_text/index.json").read_text())["shards"][0]["samples"]
    rows("mds_first", [s["text"] for s in texts[:first]])
    mds("mds_zstd", columns, texts, lambda s: s["text"], size_limit=1024, compression="zstd:7", hashes=["sha1"])
    mds("mds_gz", columns, texts, lambda s: s["text"], compression="gz")
    talks = [{"prompt": text(), "response": text(), "tags": {"n": i}} for i in range(5)]
    mds("mds_chat", {"prompt": "str", "response": "str", "tags": "json"}, talks,
        lambda s: {"prompt": s["prompt"], "response": s["response"]})


def archive(name, samples, show, **kw):
    with webdataset.TarWriter(str(out / name), mtime=0, **kw) as writer:
        for s in samples:
            writer.write(s)
    rows(name.split(".")[0], [show(s) for s in webdataset.WebDataset(str(out / name), shardshuffle=False).decode()])


def tars():
    texts = [text() for _ in range(9)]
    archive("wds_txt.tar", [{"__key__": f"a/{i:04}", "txt": t} for i, t in enumerate(texts)], lambda s: s["txt"])
    archive("wds_packed.tar.gz", [{"__key__": f"{i:04}", "text": t, "json": {"n": i}, "png": b"\x89PNG"}
                                  for i, t in enumerate(texts)], lambda s: s["text"], encoder=True)
    archive("wds_json.tar", [{"__key__": f"{i:04}", "json": {"url": "x", "text": t}} for i, t in enumerate(texts)],
            lambda s: s["json"]["text"])
    archive("wds_json_gz.tar", [{"__key__": f"{i:04}", "json.gz": {"text": t}} for i, t in enumerate(texts)],
            lambda s: s["json.gz"]["text"] if isinstance(s["json.gz"], dict) else json.loads(s["json.gz"])["text"])
    lists = [[rng.randrange(50000) for _ in range(9)] for _ in range(6)]
    archive("wds_ids.tar", [{"__key__": f"{i:04}", "json.gz": x} for i, x in enumerate(lists)],
            lambda s: s["json.gz"] if isinstance(s["json.gz"], list) else json.loads(s["json.gz"]))
    for name, form in (("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT), ("ustar", tarfile.USTAR_FORMAT)):
        with tarfile.open(out / f"wds_{name}.tar", "w", format=form, pax_headers={"comment": "all"} if name == "pax" else None) as t:
            folder = tarfile.TarInfo("d" * 90)
            folder.type = tarfile.DIRTYPE
            t.addfile(folder)
            for i, one in enumerate(texts):
                key = f"{'d' * 90}/{'ß' if name == 'pax' else 'k' * (40 if name == 'ustar' else 200)}{i}"
                info = tarfile.TarInfo(f"{key}.txt")
                info.size = len(one.encode())
                t.addfile(info, io.BytesIO(one.encode()))
                link = tarfile.TarInfo(f"{key}.json")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                t.addfile(link)
        rows(f"wds_{name}", [s["txt"] for s in webdataset.WebDataset(str(out / f"wds_{name}.tar"), shardshuffle=False).decode()])


out.mkdir(parents=True, exist_ok=True)
bins()
arrays()
mosaic()
tars()
