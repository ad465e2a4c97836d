#!/usr/bin/env python3
"""Writes random documents in odd but legal files (JSON lines and arrays, CSV, TSV, text, Parquet, Arrow; compressed in several
members; folders of them) and compares the documents of `drover data build` with those that json, csv and pyarrow were
given. Prints the seed and the file of each difference; exit 1 if there is one.

    python tools/compare_random_inputs.py build/drover [--n 200] [--seed 1] [--keep DIR]
"""
import argparse, csv, gzip, io, json, pathlib, random, struct, subprocess, sys, tempfile
import pyarrow as pa, pyarrow.parquet as pq, zstandard

PARTS = ["a", "the fox", " ", "  ", "\n", "\r\n", "\r", "\t", "\0", "é", "日本", "😀", '"', "'", "\\", ",", ";", "{", "}", "[", "]", "null", "\u2028", "\x85", "\ufeff", "\x7f", "x" * 700, "#", "1.5"]


def text(rng, big=False):
    return "".join(rng.choices(PARTS, k=rng.choice([0, 1, 1, 2, 3, 5, 9]))) * (rng.choice([1, 300]) if big else 1)


def documents(rng):
    rows = [text(rng, True) if rng.random() < .9 else None for _ in range(rng.choice([1, 2, 7, 40, 150]))]
    return rows if any(rows) else rows + ["one"]


def packed(rng, data, name):
    """The bytes of a file in up to four members of a compressed one, and its name."""
    if rng.random() < .5:
        return data, name
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4)))
    pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
    if rng.random() < .5:
        return b"".join(gzip.compress(p, rng.choice([0, 1, 9])) for p in pieces) + rng.choice([b"", b"\0" * 512]), name + ".gz"
    frame = lambda p: zstandard.ZstdCompressor(level=rng.choice([1, 3, 19]), write_checksum=rng.random() < .5, write_content_size=rng.random() < .5).compress(p)
    skip = struct.pack("<II", 0x184D2A50 + rng.randrange(16), 5) + b"skip!"
    return b"".join(frame(p) + (skip if rng.random() < .3 else b"") for p in pieces), name + ".zst"


def json_text(rng, row):
    """An object that has the text in some place and some spelling."""
    spelled = json.dumps(row, ensure_ascii=rng.random() < .5)
    if rng.random() < .2 and row:
        spelled = '"' + "".join(f"\\u{u:04x}" if rng.random() < .3 else f"\\u{u:04X}" for u in struct.unpack(f"<{len(row.encode('utf-16-le')) // 2}H", row.encode("utf-16-le"))) + '"'
    other = [f'"k{i}": ' + rng.choice(["1", "null", "[{}]", '{"text": "inner"}', '"text"', "1e400", "-0", "12345678901234567890123", "[[[[]]]]", '"\\u0000"']) for i in range(rng.randrange(4))]
    key = '"text"' if rng.random() < .8 else '"t\\u0065xt"'
    if rng.random() < .1:
        other.insert(0, '"text": "first of two"')  # the last one counts, as in json
        return "{" + ",".join(other + [key + ":" + spelled]) + "}"
    other.insert(rng.randrange(len(other) + 1), key + rng.choice([":", " : ", ":\t"]) + spelled)
    return rng.choice(["", " ", "\t"]) + "{" + rng.choice([",", " , "]).join(other) + rng.choice(["}", " }", "}  "])


def as_json_lines(rng, rows, folder):
    end = rng.choice(["\n", "\r\n"])
    lines = []
    for row in rows:
        lines += [json_text(rng, row)] + [rng.choice(["", "  "]) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    data = rng.choice(["", "", "\ufeff"]) + end.join(lines) + rng.choice([end, "", end * 3])
    data, name = packed(rng, data.encode(), rng.choice(["x.jsonl", "a b.jsonl", "new\nline.jsonl", "é'\".jsonl", "-x.jsonl"]))
    (folder / name).write_bytes(data)


def as_json_array(rng, rows, folder):
    data = rng.choice(["", "\ufeff", " \n"]) + "[" + rng.choice([",", ",\n", " ,\r\n\t"]).join(json_text(rng, r) for r in rows) + rng.choice(["]", "\n]\n"])
    data, name = packed(rng, data.encode(), "x.json")
    (folder / name).write_bytes(data)


def as_table(rng, rows, folder):
    kind = rng.choice(["csv", "tsv"])
    out = io.StringIO(newline="")
    rows[:] = [r if r and r.strip("\r\n") and "\0" not in r else "cell" for r in rows]  # an empty row is none, NUL is no CSV
    writer = csv.writer(out, delimiter="," if kind == "csv" else "\t", quoting=rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerow(["n", "text", "a \"b\"\n,c"])
    for i, row in enumerate(rows):
        writer.writerow([i, row, rng.choice(["", "z", '"', "\n"])])
    data, name = packed(rng, (rng.choice(["", "\ufeff"]) + out.getvalue()).encode(), "x." + kind)
    (folder / name).write_bytes(data)


def column(rng, rows, arrow):
    """The texts as a column of a random type."""
    kinds = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()] + [pa.dictionary(rng.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16()]), rng.choice([pa.string(), pa.large_string()]))]
    kind = rng.choice(kinds)
    if pa.types.is_dictionary(kind):
        if len(set(rows)) > 120:
            kind = pa.dictionary(pa.int32(), pa.string())
        return pa.array(rows, kind.value_type).dictionary_encode().cast(kind)
    values = [None if r is None else r.encode() for r in rows] if kind in (pa.binary(), pa.large_binary()) else rows
    return pa.array(values, kind)


def beside(rng, n, arrow):
    """Columns that are passed over."""
    every = dict(i=pa.array(range(n)), s=pa.array([None] * n, pa.string()), l=pa.array([[i] * (i % 3) for i in range(n)]), b=pa.array([i % 2 == 0 for i in range(n)]), f=pa.array([i / 3 for i in range(n)], pa.float16()),
                 t=pa.array([None if i % 2 else i for i in range(n)], pa.timestamp("us", "UTC")), d=pa.array([i % 99 for i in range(n)]).cast(pa.decimal128(25, 2)), o=pa.array([dict(text="inner", x=[dict(y=None)])] * n),
                 m=pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int32())), z=pa.nulls(n), fixed=pa.array([b"abcd"] * n, pa.binary(4)), day=pa.array([i for i in range(n)], pa.date32()), ll=pa.array([[["x"], []]] * n), fl=pa.array([[1., 2.]] * n, pa.list_(pa.float32(), 2)))
    if arrow:
        every.update(ree=pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["r"])), dur=pa.array(range(n), pa.duration("s")), lv=pa.array([["x"]] * n, pa.list_view(pa.string())), bv=pa.array(["v" * 20] * n, pa.string_view()))
        every["us"] = pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array(range(n)), pa.array(["u"] * n)])
        every["u"] = pa.UnionArray.from_dense(pa.array([0] * n, pa.int8()), pa.array(range(n), pa.int32()), [pa.array(range(n)), pa.array(["u"])])
    return {k: every[k] for k in rng.sample(sorted(every), rng.randrange(4))}


def make_table(rng, rows, arrow):
    columns = list(beside(rng, len(rows), arrow).items())
    columns.insert(rng.randrange(len(columns) + 1), ("text", column(rng, rows, arrow)))
    return pa.table(dict(columns))


def as_parquet(rng, rows, folder):
    table = make_table(rng, rows, False)
    plain = rng.random() < .4
    options = dict(compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4"]), data_page_version=rng.choice(["1.0", "2.0"]), data_page_size=rng.choice([1, 100, 5000, None]), write_batch_size=rng.choice([1, 7, 1024]), version=rng.choice(["1.0", "2.4", "2.6"]),
                   use_dictionary=not plain, dictionary_pagesize_limit=rng.choice([10, 1000, 1 << 20]), write_page_checksum=rng.random() < .5, write_page_index=rng.random() < .5, write_statistics=rng.random() < .5, store_schema=rng.random() < .7, use_compliant_nested_type=rng.random() < .5)
    if plain:
        options["column_encoding"] = dict(text=rng.choice(["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]))
    with pq.ParquetWriter(folder / "x.parquet", table.schema, **options) as writer:
        for at in cuts_of(rng, len(rows)):
            if rng.random() < .2:
                writer.write_table(table.slice(0, 0))
            writer.write_table(table.slice(*at), row_group_size=rng.choice([1, 5, 1000]))
    assert pq.read_metadata(folder / "x.parquet").num_rows == len(rows)


def cuts_of(rng, n):
    cuts = sorted(rng.randrange(n + 1) for _ in range(rng.randrange(3)))
    return [(a, b - a) for a, b in zip([0] + cuts, cuts + [n])]


def as_arrow(rng, rows, folder):
    table = make_table(rng, rows, True)
    file = rng.random() < .5
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]), use_legacy_format=False, emit_dictionary_deltas=rng.random() < .5 and not file, unify_dictionaries=file, metadata_version=rng.choice([pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5]))
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, table.schema, options=options) as writer:
        for at in cuts_of(rng, len(rows)):
            writer.write_table(table.slice(*at), max_chunksize=rng.choice([1, 9, 1000]))


def write_any(rng, table, folder):
    """A table as Parquet or Arrow with random options."""
    cuts = cuts_of(rng, len(table))
    if rng.random() < .5:
        with pq.ParquetWriter(folder / "x.parquet", table.schema, data_page_version=rng.choice(["1.0", "2.0"]), data_page_size=rng.choice([50, 5000]), use_dictionary=rng.random() < .5, use_compliant_nested_type=rng.random() < .5, compression=rng.choice(["none", "zstd"])) as writer:
            for at in cuts:
                writer.write_table(table.slice(*at), row_group_size=rng.choice([1, 5, 1000]))
    else:
        make = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
        with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=rng.choice([None, "zstd"]))) as writer:
            for at in cuts:
                writer.write_table(table.slice(*at), max_chunksize=rng.choice([1, 9]))


def as_ids(rng, rows, folder):
    """Lists of token ids, some with a mask; `rows` becomes the texts that they stand for."""
    rows[:] = [None if r is None else r[:rng.choice([3, 300])] for r in rows]
    ids = [None if r is None else list(r.encode()) for r in rows]
    number, masked = rng.choice([pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]), rng.random() < .5
    kind = rng.choice([pa.list_, pa.large_list])
    masks = [None if x is None else [rng.random() < .7 for _ in x] for x in ids]
    columns = dict(input_ids=pa.array([None if x is None else [IDS[b] for b in x] for x in ids], kind(pa.int64())).cast(kind(number if number != pa.uint8() else pa.int16())))
    if masked:
        flag = rng.choice([pa.bool_(), pa.int8(), pa.int64(), pa.uint8()])
        columns["attention_mask"] = pa.array([None if m is None else [bool(x) if flag == pa.bool_() else int(x) for x in m] for m in masks], kind(flag))
        rows[:] = [None if x is None else bytes(b for b, m in zip(x, mask) if m).decode(errors="replace") for x, mask in zip(ids, masks)]
    write_any(rng, pa.table(columns), folder)


TEMPLATE = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m | tojson }}{% endgeneration %}{% else %}{{ m | tojson }}{% endif %}{% endfor %}"


def without_nulls(x):
    if isinstance(x, list):
        return [without_nulls(v) for v in x]
    return {k: without_nulls(v) for k, v in x.items() if v is not None} if isinstance(x, dict) else x


def as_conversations(rng, rows, folder):
    """Rows of messages with lists and structs; `rows` becomes the texts that TEMPLATE makes of them."""
    some = lambda make, p: None if rng.random() < p else [make() for _ in range(rng.randrange(3))]
    call = lambda: dict(name=text(rng), arguments=rng.choice([None, dict(n=rng.choice([None, 1, -2**40]), x=rng.choice([None, 1.5, 1e-7, 1e300]), ok=rng.choice([None, True, False]))]))
    message = lambda role: dict(role=role, content=text(rng), calls=some(call, .5), tags=some(lambda: rng.choice([text(rng), None]), .3))
    made = [[message("user"), message("assistant")] for _ in rows]
    argument = pa.struct([("n", pa.int64()), ("x", pa.float64()), ("ok", pa.bool_())])
    kind = rng.choice([pa.list_, pa.large_list])
    string = rng.choice([pa.string(), pa.large_string()])
    struct_ = pa.struct([("role", pa.string()), ("content", string), ("calls", kind(pa.struct([("name", pa.string()), ("arguments", argument)]))), ("tags", pa.list_(string))])
    rows[:] = ["".join(json.dumps(m, ensure_ascii=False) for m in without_nulls(x)) for x in made]
    write_any(rng, pa.table(dict(id=range(len(made)), messages=pa.array(made, kind(struct_)))), folder)


def as_folder(rng, rows, folder):
    """Texts, JSON lines and tables side by side, in the order of their names."""
    names = ["a.txt", "b c.txt", "c\n.txt", "d.jsonl", "e.jsonl.gz", "f.parquet", "g.arrow", "h.txt.gz", "i.txt.zst", "j.json"]
    rows[:] = [r or "one" for r in rows]
    left, names = list(rows), sorted(rng.sample(names, rng.randrange(1, 6)))
    for k, name in enumerate(names):
        n = 1 if ".txt" in name else max(1, len(left) - len(names) + 1 + k)
        part, left = left[:n], left[n:]
        if not part:
            break
        if ".txt" in name:
            part[0] = part[0].lstrip("\ufeff") or "one"
            rows[len(rows) - len(left) - 1] = part[0]
        data = part[0].encode() if ".txt" in name else (json.dumps([dict(text=r) for r in part]) if ".jsonl" not in name else "".join(json.dumps(dict(text=r)) + "\n" for r in part)).encode()
        if name.endswith(".parquet"):
            pq.write_table(pa.table(dict(text=part)), folder / name)
        elif name.endswith(".arrow"):
            with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, pa.schema([("text", pa.string())])) as writer:
                writer.write_table(pa.table(dict(text=part)))
        else:
            (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else zstandard.compress(data) if name.endswith("zst") else data)
    rows[:] = rows[:len(rows) - len(left)]
    for junk in rng.sample([".hidden.txt", ".git/x.txt", "__pycache__/y.pyc", "notes.pdf"], rng.randrange(3)):
        (folder / junk).parent.mkdir(exist_ok=True)
        (folder / junk).write_bytes(b"%PDF-1.4")


IDS = {}  # of each byte


def bytes_of(tokenizer):
    """The bytes of each id of a byte-level tokenizer."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letter = {chr(b): b for b in printable}
    letter.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    vocab = json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"]
    return {i: bytes(letter[c] for c in t) if all(c in letter for c in t) else None for t, i in vocab.items()}


def seen(drover, tokenizer, ids, out, inputs, options):
    run = subprocess.run([drover, "data", "build", "--tokenizer", tokenizer, "--out", out, "--input", *inputs, *options], capture_output=True, timeout=120)
    if run.returncode:
        return run.stderr.decode(errors="replace").strip().splitlines()[-1]
    index = pathlib.Path(f"{out}.idx").read_bytes()
    n = struct.unpack_from("<q", index, 18)[0]
    lengths = struct.unpack_from(f"<{n}i", index, 34)
    data = pathlib.Path(f"{out}.bin").read_bytes()
    tokens, got, at = struct.unpack(f"<{len(data) // 2}H", data), [], 0
    for k in lengths:
        got.append(b"".join(ids[i] for i in tokens[at:at + k]).decode(errors="replace"))
        at += k
    return got


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("--n", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", type=pathlib.Path, help="a folder for the files of differences")
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        top = pathlib.Path(d)
        (top / "t.txt").write_text("a b")
        subprocess.run([a.drover, "tokenizer", "train", "--input", top / "t.txt", "--vocab-size", "257", "--out", top / "tok"], check=True, capture_output=True)
        (top / "t.jinja").write_text(TEMPLATE)
        ids = bytes_of(top / "tok")
        IDS.update({t[0]: i for i, t in ids.items() if t})
        options = {as_table: ["--text-column", "text"], as_conversations: ["--sft", "--template", top / "t.jinja"]}
        makers = [as_json_lines, as_json_lines, as_json_array, as_table, as_parquet, as_parquet, as_arrow, as_arrow, as_ids, as_conversations, as_folder]
        for seed in range(a.seed, a.seed + a.n):
            rng = random.Random(seed)
            folder = (a.keep or top) / f"s{seed}"
            folder.mkdir(parents=True)
            make = rng.choice(makers)
            rows = documents(rng)
            make(rng, rows, folder)
            inputs = [folder] if make is as_folder or make is not as_table and rng.random() < .3 else sorted(folder.iterdir())
            want = [r for r in rows if r is not None]
            got = seen(a.drover, top / "tok", ids, top / "set", inputs, options.get(make, []))
            if got == want:
                continue
            bad += 1
            if isinstance(got, list):
                first = next((i for i, (x, y) in enumerate(zip(want, got)) if x != y), min(len(want), len(got)))
                got = f"{len(got)} documents, {len(want)} expected; document {first}: {got[first:first + 1]!r:.300}, expected {want[first:first + 1]!r:.300}"
            print(f"--seed {seed} {make.__name__} {[str(x.name) for x in inputs]}\n  {got}", flush=True)
    print(f"{a.n} inputs, {bad} differences")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
