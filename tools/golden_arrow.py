#!/usr/bin/env python3
"""Makes tests/golden/arrow/: small folders and files of Arrow as Hugging Face datasets and pyarrow write them, and beside
each NAME.jsonl with its rows as Python has them. The tests need no Python.

    python tools/golden_arrow.py tests/golden/arrow      (with pyarrow and datasets)
"""
import json, pathlib, random, shutil, sys
import datasets, pyarrow as pa

rng = random.Random(7)
WORDS = "the quick brown fox größe 日本語 naïve \n \t \" \\ 😀 jumps".split(" ")
text = lambda: " ".join(rng.choice(WORDS) for _ in range(rng.randrange(12)))


def write_rows(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))


def texts():
    return ["", "a", None, "x" * 300] + [text() for _ in range(60)] + [None]


def ids(n=40):
    return [[rng.randrange(256) for _ in range(rng.choice([0, 1, 7, 33]))] for _ in range(n)]


def save_folder(out, name, rows, features=None, **kw):
    """A folder by save_to_disk, without what says when and where it was made."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    datasets.Dataset.from_list(rows, features=features).save_to_disk(str(folder), **kw)
    write_rows(out / f"{name}.jsonl", rows)


def write_stream(path, table, rows_a_batch, compression=None, file=False):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)


def labelled():
    rows = []
    for n in [1, 2, 5, 17, 40]:
        tokens = [rng.randrange(256) for _ in range(n)]
        labels = [t if rng.random() < .5 else -100 for t in tokens]
        labels[-1] = tokens[-1]
        pad = rng.randrange(4)
        rows.append(dict(input_ids=tokens + [0] * pad, labels=labels + [-100] * pad, attention_mask=[1] * n + [0] * pad))
    return rows


def without_nulls(x):
    """As drover reads rows: without the members of structs that are None."""
    if isinstance(x, list):
        return [without_nulls(v) for v in x]
    return {k: without_nulls(v) for k, v in x.items() if v is not None} if isinstance(x, dict) else x


def conversations(n=80):
    some = lambda make, p: None if rng.random() < p else [make() for _ in range(rng.randrange(4))]
    call = lambda: dict(name=text(), arguments=rng.choice(["{}", None]))
    message = lambda: dict(role=rng.choice(["user", "assistant"]), content=rng.choice([text(), None]), calls=some(call, .5))
    return [dict(messages=some(message, .1), system=rng.choice([text(), None])) for _ in range(n)]


def grown(out):
    """A dictionary that grows from batch to batch (deltas), with values that are null, and is another one then."""
    words = ["a", "b", None, "größe" * 9, "", "d" * 70, "e"]
    sizes = [(words, 2), (words, 4), (words, 4), (words, 7), (["z"], 1), (["z", None, "y"], 3)]
    picked = [(values[:n], [rng.choice([None, *range(n)]) for _ in range(11)] + [n - 1]) for values, n in sizes]
    write_rows(out / "deltas.jsonl", [dict(text=None if i is None else values[i]) for values, at in picked for i in at])
    for name, index, value, codec in (("i8", pa.int8(), pa.string(), None), ("i32_large", pa.int32(), pa.large_string(), "zstd")):
        tables = [pa.table(dict(text=pa.DictionaryArray.from_arrays(pa.array(at, index), pa.array(values, value))))
                  for values, at in picked]
        options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
        with pa.OSFile(str(out / f"deltas_{name}.arrow"), "wb") as sink, pa.ipc.new_stream(
                sink, tables[0].schema, options=options) as writer:
            for table in tables:
                writer.write_table(table)
            assert writer.stats.num_dictionary_deltas == 3 and writer.stats.num_replaced_dictionaries == 1, writer.stats


def coded(out):
    """Text that is no plain column: dictionaries that change between batches, views of short and long text."""
    few = ["yes", "no", "größe", None, "x" * 40, ""]
    parts = [[few[rng.randrange(6)] for _ in range(n)] for n in (20, 15)]
    write_rows(out / "dictionary.jsonl", [dict(text=t) for part in parts for t in part])
    for name, index, value, codec in (("i8", pa.int8(), pa.string(), None), ("i32_large", pa.int32(), pa.large_string(), "zstd")):
        tables = [pa.table(dict(n=pa.array(range(len(part))), text=pa.array(part, value).dictionary_encode().cast(
            pa.dictionary(index, value)), kind=pa.array(["a"] * len(part)).dictionary_encode())) for part in parts]
        with pa.OSFile(str(out / f"dictionary_{name}.arrow"), "wb") as sink, pa.ipc.new_stream(
                sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            for table in tables:
                writer.write_table(table)
    values = texts()
    write_rows(out / "views.jsonl", [dict(text=t) for t in values])
    for codec in (None, "lz4"):
        other = pa.array(["some text that is passed over, with a buffer of its own"] * len(values), pa.binary_view())
        table = pa.table(dict(other=other, text=pa.array(values, pa.string_view()), n=pa.array(range(len(values)))))
        write_stream(out / f"views_{codec or 'plain'}.arrow", table, 17, codec)
    grown(out)
    turns = [dict(messages=[dict(role=rng.choice(["user", "assistant"]), content=text()) for _ in range(3)]) for _ in range(9)]
    write_rows(out / "roles.jsonl", turns)
    message = pa.list_(pa.struct([("role", pa.dictionary(pa.int32(), pa.string())), ("content", pa.string_view())]))
    write_stream(out / "roles.arrow", pa.Table.from_pylist(turns, schema=pa.schema([("messages", message)])), 4)


def masked_by_flags(out):
    """The rows of saved_labels with a mask of booleans (flags) and, which drover refuses, of texts (marks)."""
    rows = [json.loads(line) for line in (out / "saved_labels.jsonl").read_text().splitlines()]
    for name, cast, kind in (("flags", bool, pa.bool_()), ("marks", str, pa.string())):
        columns = {k: pa.array([r[k] for r in rows], pa.list_(pa.int32())) for k in ("input_ids", "labels")}
        mask = pa.array([[cast(x) for x in r["attention_mask"]] for r in rows], pa.large_list(kind))
        write_stream(out / f"{name}.arrow", pa.table(dict(columns, attention_mask=mask)), 2)


def odd_columns(out):
    """The texts of text.jsonl after columns that are passed over and have other buffers in metadata of version 4."""
    values = [json.loads(line)["text"] for line in (out / "text.jsonl").read_text().splitlines()]
    n = len(values)
    both = [pa.array(range(n)), pa.array(["u"] * n)]
    kind, at = pa.array([0] * n, pa.int8()), pa.array(range(n), pa.int32())
    table = pa.table(dict(dense=pa.UnionArray.from_dense(kind, at, both), sparse=pa.UnionArray.from_sparse(kind, both),
                          runs=pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["r"])), text=pa.array(values)))
    for version in (pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5):
        options = pa.ipc.IpcWriteOptions(metadata_version=version)
        with pa.OSFile(str(out / f"odd_{version.name}.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    save_folder(out, "saved_text", [dict(text=t, n=i) for i, t in enumerate(texts())], num_shards=3)
    save_folder(out, "saved_ids", [dict(input_ids=x) for x in ids()], num_shards=2)
    save_folder(out, "saved_labels", labelled(), features=datasets.Features(dict(
        input_ids=datasets.Sequence(datasets.Value("int32")), labels=datasets.Sequence(datasets.Value("int64")),
        attention_mask=datasets.Sequence(datasets.Value("int8")))))
    values, lists = texts(), ids()
    write_rows(out / "text.jsonl", [dict(text=t) for t in values])
    for codec in (None, "lz4", "zstd"):
        for large in (False, True):
            column = pa.array(values, pa.large_string() if large else pa.string())
            before = pa.array([[1.5] * (i % 3) for i in range(len(values))])  # columns that are passed over
            table = pa.table(dict(numbers=before, text=column, flag=pa.array([i % 2 == 0 for i in range(len(values))])))
            write_stream(out / f"text_{codec or 'plain'}{'_large' if large else ''}.arrow", table, 17, codec, file=codec == "lz4")
    write_rows(out / "ids.jsonl", [dict(input_ids=x) for x in lists])
    for kind, list_type in dict(i64=pa.list_(pa.int64()), u16=pa.large_list(pa.uint16()), i32=pa.list_(pa.int32())).items():
        write_stream(out / f"ids_{kind}.arrow", pa.table(dict(input_ids=pa.array(lists, list_type))), 11, "zstd" if kind == "u16" else None)
    fixed = [x for x in ids(60) if len(x) == 7]
    write_rows(out / "fixed.jsonl", [dict(input_ids=x) for x in fixed])
    write_stream(out / "fixed.arrow", pa.table(dict(input_ids=pa.array(fixed, pa.list_(pa.int32(), 7)))).slice(0), 3)
    chat = conversations()
    write_rows(out / "chat.jsonl", without_nulls(chat))
    call = pa.list_(pa.struct([("name", pa.string()), ("arguments", pa.string())]))
    message = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("calls", call)]))
    table = pa.Table.from_pylist(chat, schema=pa.schema([("messages", message), ("system", pa.large_string())]))
    write_stream(out / "chat.arrow", table.slice(3, 50), 9, "lz4")  # offsets that do not begin at zero
    coded(out)
    masked_by_flags(out)
    odd_columns(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
