#!/usr/bin/env python3
"""Makes tests/golden/parquet/: small Parquet files written by pyarrow in every codec, encoding and page
version that drover reads, rows.jsonl with the values of their column "text",
and conversations. The tests need no Python.

    python tools/golden_parquet.py tests/golden/parquet
"""
import json, pathlib, random, sys
import pyarrow as pa, pyarrow.parquet as pq


def rows():
    rng = random.Random(3)
    words = "the quick brown fox größe 日本語 naïve \n \t \" \\ 😀 jumps".split(" ")
    out = ["", "a", None, "x" * 300, "prefix one", "prefix two", "prefix three", None, "prefix three"]
    out += [" ".join(rng.choice(words) for _ in range(rng.randrange(12))) for _ in range(60)]
    return out


def without_nulls(x):
    """As drover reads rows: without the members of structs that are None."""
    if isinstance(x, list):
        return [without_nulls(v) for v in x]
    return {k: without_nulls(v) for k, v in x.items() if v is not None} if isinstance(x, dict) else x


def conversations(out):
    """chat.jsonl: rows with lists, structs, nulls and empty lists at every level; chat1.parquet, chat2.parquet: the same by pyarrow."""
    rng = random.Random(5)
    text = lambda: rng.choice(["", "why?", "because \"it\" \\ is", "größe\n", "x" * 90, None])
    call = lambda: dict(function=dict(name=text(), arguments=rng.choice(["{}", None]))) if rng.random() < .8 else None
    some = lambda make, p: None if rng.random() < p else [make() for _ in range(rng.randrange(4))]
    message = lambda: dict(role=rng.choice(["user", "assistant"]), content=text(), tool_calls=some(call, .5)) if rng.random() < .9 else None
    rows = [dict(messages=some(message, .1), system=text(), tools=rng.choice([None, "[]"])) for _ in range(300)]
    (out / "chat.jsonl").write_text("".join(json.dumps(without_nulls(r)) + "\n" for r in rows))
    string = pa.string()
    calls = pa.list_(pa.struct([("function", pa.struct([("name", string), ("arguments", string)]))]))
    messages = pa.list_(pa.struct([("role", string), ("content", string), ("weight", pa.float64()), ("tool_calls", calls)]))
    schema = pa.schema([("id", pa.int64()), ("messages", messages), ("system", string), ("tools", string)])
    table = pa.Table.from_pylist([dict(r, id=i) for i, r in enumerate(rows)], schema=schema)
    for version in "12":
        pq.write_table(table, out / f"chat{version}.parquet", data_page_version=version + ".0", row_group_size=100,
            data_page_size=300, compression="zstd" if version == "2" else "none", use_compliant_nested_type=version == "2")
    flat = pa.table(dict(instruction=["a", "b"], input=["", None], output=["c", "d"]))
    pq.write_table(flat, out / "alpaca.parquet")


def pairs(out):
    """pairs.jsonl: preference pairs whose prompt stands beside them or is what both begin with; pairs.parquet: the same."""
    say = lambda role, text: dict(role=role, content=text)
    rows = [dict(prompt=None if i % 2 else [say("user", f"Where is fox {i}?")],
                 chosen=[say("user", f"Where is fox {i}?")] * (i % 2) + [say("assistant", f"By hen {i * 7 % 11}.")],
                 rejected=[say("user", f"Where is fox {i}?")] * (i % 2) + [say("assistant", f"With the dog {i}.")]) for i in range(40)]
    (out / "pairs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    pq.write_table(pa.Table.from_pylist(rows), out / "pairs.parquet", row_group_size=16)


def kept(row):
    """What drover makes of a row of token ids: those that its mask does not call padding, or what is wrong."""
    lists = [x for x in row.values()]
    if None in lists:
        return dict(broken="is null")
    if any(None in x for x in lists):
        return dict(broken="has an id, label or mask that is null")
    if len({len(x) for x in lists}) > 1:
        return dict(broken="has labels or a mask of another length than its ids")
    if any(not 0 <= x < 2**31 for x in row["input_ids"]):
        return dict(broken="has an id below 0 or above 2147483647")
    mask = row.get("attention_mask", [1] * len(row["input_ids"]))
    if any(m and l not in (-100, x) for x, l, m in zip(row["input_ids"], row.get("labels", row["input_ids"]), mask)):
        return dict(broken="has a label that is neither its id nor -100")
    return {k: [x for x, m in zip(v, mask) if m] for k, v in row.items() if k != "attention_mask"}


def tokenised(out):
    """NAME.jsonl: what drover makes of the rows of token ids in NAME.parquet, some of them broken."""
    rng = random.Random(11)
    lists = [[rng.randrange(256) for _ in range(rng.choice([0, 1, 7, 33]))] for _ in range(60)]
    kinds = dict(ids_i32=(pa.list_(pa.int32()), [[3, -1, 4]]), ids_i64=(pa.large_list(pa.int64()), [[2**31], [-2**40]]),
                 ids_u16=(pa.list_(pa.uint16()), [[65535]]), ids_u64=(pa.list_(pa.uint64()), [[2**63 + 1]]))
    for i, (name, (kind, odd)) in enumerate(kinds.items()):
        rows = [dict(input_ids=x) for x in lists[:30] + [None, [5, None, 6]] + odd + lists[30:]]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(kept(r)) + "\n" for r in rows))
        table = pa.table(dict(n=list(range(len(rows))), input_ids=pa.array([r["input_ids"] for r in rows], kind)))
        delta = dict(use_dictionary=False, column_encoding={"input_ids.list.element": "DELTA_BINARY_PACKED"}) if i % 2 else {}
        pq.write_table(table, out / f"{name}.parquet", data_page_version=f"{1 + i % 2}.0", row_group_size=25, data_page_size=200,
                       compression="zstd" if i % 2 else "none", use_compliant_nested_type=i != 2, **delta)
    rows = [dict(input_ids=[1, 2, 3], labels=[-100, 2, 3], attention_mask=[1, 1, 1]),
            dict(input_ids=[7, 8, 0, 0], labels=[-100, 8, -100, 5], attention_mask=[1, 1, 0, 0]),
            dict(input_ids=[1, 2], labels=[1, 3], attention_mask=[1, 1]), dict(input_ids=[1, 2], labels=[1], attention_mask=[1, 1]),
            dict(input_ids=[1, 2], labels=[1, 2], attention_mask=[1]), dict(input_ids=[1], labels=None, attention_mask=[1]),
            dict(input_ids=[1, 2], labels=[None, 2], attention_mask=[1, 1]), dict(input_ids=[], labels=[], attention_mask=[]),
            dict(input_ids=[9], labels=[9], attention_mask=[1])]
    (out / "labels.jsonl").write_text("".join(json.dumps(kept(r)) + "\n" for r in rows))
    pq.write_table(pa.table(dict(input_ids=pa.array([r["input_ids"] for r in rows], pa.list_(pa.int32())),
                                 labels=pa.array([r["labels"] for r in rows], pa.list_(pa.int64())),
                                 attention_mask=pa.array([r["attention_mask"] for r in rows], pa.list_(pa.int8())))),
                   out / "labels.parquet", row_group_size=4)
    masks = dict(flags=(bool, pa.bool_()), reals=(float, pa.float32()))  # reals: a mask that drover refuses
    for name, (cast, kind) in masks.items():
        lists = [[cast(x) for x in r["attention_mask"]] for r in rows]
        pq.write_table(pa.table(dict(input_ids=pa.array([r["input_ids"] for r in rows], pa.list_(pa.int32())),
                                     labels=pa.array([r["labels"] for r in rows], pa.list_(pa.int64())),
                                     attention_mask=pa.array(lists, pa.list_(kind)))), out / f"{name}.parquet", row_group_size=4)
    many = [[i % 200, 7] for i in range(1100)]  # more than a batch of a build takes of small files
    pq.write_table(pa.table({k: pa.array(many, pa.list_(pa.int32())) for k in ("input_ids", "labels")}), out / "many.parquet",
                   compression="zstd")
    points = [[dict(x=1)], [dict(x=2), dict(x=3)]]  # lists of structs are no ids
    pq.write_table(pa.table(dict(input_ids=points)), out / "structs.parquet")


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    texts = rows()
    whole = [t or "-" for t in texts]
    (out / "rows.jsonl").write_text("".join(json.dumps(dict(text=t)) + "\n" for t in texts))
    nested = pa.array([dict(title=t, body=None) if i % 5 else None for i, t in enumerate(texts)],
                      pa.struct([("title", pa.string()), ("body", pa.string())]))
    table = pa.table(dict(id=pa.array(range(len(texts))), text=pa.array(texts), tags=pa.array([["a", "b"]] * len(texts)), page=nested))
    required = pa.table([pa.array(whole)], schema=pa.schema([pa.field("text", pa.string(), nullable=False)]))
    cases = {"none": {}, "snappy": dict(compression="snappy"), "gzip": dict(compression="gzip"), "zstd": dict(compression="zstd"),
        "lz4raw": dict(compression="lz4")}
    for codec, how in cases.items():
        for version in ("1.0", "2.0"):
            for encoding in ("dict", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
                if codec != "zstd" and (version, encoding) not in (("1.0", "dict"), ("2.0", "PLAIN")):
                    continue
                options = dict(use_dictionary=["text"]) if encoding == "dict" else dict(use_dictionary=False, column_encoding=dict(text=encoding))
                pq.write_table(table.select(["id", "text"]), out / f"{codec}_{encoding}_v{version[0]}.parquet",
                    **({"compression": "none"} | how), data_page_version=version, write_page_checksum=True, row_group_size=40, **options)
    pq.write_table(table, out / "nested.parquet", data_page_size=200)
    pq.write_table(required, out / "required.parquet", use_dictionary=False, write_statistics=False)
    pq.write_table(table.select(["id"]), out / "numbers.parquet")
    pq.write_table(table.select(["text"]).slice(0, 0), out / "empty.parquet")
    pq.write_table(table.select(["text"]), out / "brotli.parquet", compression="brotli")
    conversations(out)
    pairs(out)
    tokenised(out)
    (out / "VERSIONS").write_text(f"pyarrow {pa.__version__}, Python {sys.version.split()[0]}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
