#!/usr/bin/env python3
"""Makes tests/golden/json_rows/: conversations whose calls and schemas hold values of every type that JSON has, written by
pyarrow as an Arrow stream and as Parquet in several encodings, and rows.jsonl, what its to_pylist gives of them without
the members of structs that are None (TRL's remove_none_values). bare.arrow has structs without members, which Parquet
cannot have. The tests need no Python.

    python tools/golden_json_rows.py tests/golden/json_rows [SEED [ROWS]]
"""
import json, pathlib, random, sys
import pyarrow as pa, pyarrow.parquet as pq

STRING = pa.string()
INNER = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.bool_()), ("t", STRING)]))])
ARGUMENTS = [("s", STRING), ("i", pa.int64()), ("u", pa.uint64()), ("i8", pa.int8()), ("u16", pa.uint16()),
    ("u32", pa.uint32()), ("b", pa.bool_()), ("d", pa.float64()), ("f", pa.float32()), ("li", pa.list_(pa.int64())),
    ("lb", pa.list_(pa.bool_())), ("ld", pa.large_list(pa.float64())), ("ln", pa.list_(pa.null())),
    ("lls", pa.list_(pa.list_(STRING))), ("st", INNER), ("ls", pa.list_(INNER)), ("n", pa.null())]


def value(rng, kind, odd):
    if rng.random() < .2 or pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        return {kind.field(i).name: value(rng, kind.field(i).type, odd) for i in range(kind.num_fields)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(rng, kind.value_type, odd) for _ in range(rng.randrange(4))]
    if pa.types.is_boolean(kind):
        return rng.random() < .5
    if pa.types.is_integer(kind):
        bits = kind.bit_width - (0 if odd else kind == pa.uint64())
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, (1 << bits) - 1)
        return rng.choice([0, 1, least, most, rng.randint(least, most)])
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -0.0, 1.0, -2.5, 0.1, 1e-7, 1e22, 3.4e38, rng.gauss(0, 1)] +
                          [float("nan"), float("inf"), float("-inf")] * odd)
    return rng.choice(["", "Oslo", "a \"b\" \\ c\n", "größe 😀", "null"])


def rows(rng, n, arguments, odd):
    def message():
        call = dict(type="function", function=dict(name="f", arguments=value(rng, arguments, odd)))
        return dict(role="assistant", content=rng.choice(["", "Yes.", None]), tool_calls=rng.choice([None, [], [call]]))
    def tool():
        return dict(type="function", function=dict(name="f", parameters=dict(required=rng.choice([[], ["s", "i"], None]),
                                                                              strict=rng.random() < .5, default=value(rng, arguments, odd))))
    return [dict(messages=[dict(role="user", content=f"Question {i}.", tool_calls=None)] + [message() for _ in range(rng.randrange(1, 3))],
                 tools=rng.choice([None, [], [tool()], [tool(), tool()]])) for i in range(n)]


def schema(arguments):
    calls = pa.list_(pa.struct([("type", STRING), ("function", pa.struct([("name", STRING), ("arguments", arguments)]))]))
    messages = pa.list_(pa.struct([("role", STRING), ("content", STRING), ("tool_calls", calls)]))
    parameters = pa.struct([("required", pa.list_(STRING)), ("strict", pa.bool_()), ("default", arguments)])
    tools = pa.list_(pa.struct([("type", STRING), ("function", pa.struct([("name", STRING), ("parameters", parameters)]))]))
    return pa.schema([("messages", messages), ("tools", tools)])


def without_nulls(x):
    if isinstance(x, list):
        return [without_nulls(v) for v in x]
    return {k: without_nulls(v) for k, v in x.items() if v is not None} if isinstance(x, dict) else x


def write(out, name, table):
    (out / f"{name}.jsonl").write_text("".join(json.dumps(without_nulls(r), ensure_ascii=False) + "\n" for r in table.to_pylist()))
    with pa.ipc.new_stream(out / f"{name}.arrow", table.schema) as stream:
        for batch in table.to_batches(max_chunksize=20):
            stream.write_batch(batch)


def main(out, seed, n):
    out.mkdir(parents=True, exist_ok=True)
    kinds = pa.struct(ARGUMENTS)
    for name, odd in (("rows", False), ("odd", True)):
        table = pa.Table.from_pylist(rows(random.Random(seed), n, kinds, odd), schema=schema(kinds))
        write(out, name, table)
        numbers = {c: "DELTA_BINARY_PACKED" for c in paths(table.schema, pa.types.is_integer)} | \
                  {c: "BYTE_STREAM_SPLIT" for c in paths(table.schema, pa.types.is_floating)}
        pq.write_table(table, out / f"{name}.parquet", data_page_size=400, row_group_size=25)
        if odd: continue
        pq.write_table(table, out / "plain.parquet", use_dictionary=False, compression="none", row_group_size=25)
        pq.write_table(table, out / "coded.parquet", use_dictionary=False, column_encoding=numbers, data_page_version="2.0", compression="zstd")
    bare = pa.struct([("s", STRING), ("e", pa.struct([])), ("le", pa.list_(pa.struct([])))])
    rng = random.Random(seed)
    write(out, "bare", pa.Table.from_pylist(rows(rng, n // 2, bare, False), schema=schema(bare)))
    (out / "VERSIONS").write_text(f"pyarrow {pa.__version__}, Python {sys.version.split()[0]}\n")


def paths(fields, wanted, front=""):
    """The columns of Parquet whose values are of a type: "messages.list.element.role"."""
    out = []
    for f in fields:
        path, kind = front + f.name, f.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            path, kind = path + ".list.element", kind.value_type
        if pa.types.is_struct(kind):
            out += paths(kind, wanted, path + ".")
        elif wanted(kind):
            out.append(path)
    return out


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *(int(a) for a in (sys.argv[2:4] + ["7", "24"][len(sys.argv) - 2:])))
