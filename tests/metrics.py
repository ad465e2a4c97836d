#!/usr/bin/env python3
"""metrics.jsonl and TensorBoard's event files of a run that is killed and resumed, parsed as
TensorBoard parses them. usage: metrics.py DROVER"""
import glob, json, math, os, re, signal, struct, subprocess, tempfile
from story import check, drover, finish, make_data

CONFIG = """model: {preset: tiny, vocab_size: 300, num_hidden_layers: 1}
tokenizer: tok
data: {train: set, split: [90, 10, 0], sequence_length: 32}
training: {steps: 60, global_batch_size: 4, micro_batch_size: 4, log_every: 50, eval_every: 10, eval_batches: 1}
schedule: {type: cosine, warmup_steps: 5, decay_steps: 40}
checkpoint: {every: 7}
run_dir: run
"""


def crc32c(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def masked(data):
    c = crc32c(data)
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a protobuf message."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    at = 0
    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            n = {1: 8, 5: 4}.get(tag & 7) or varint() if tag & 7 != 2 else varint()
            yield tag >> 3, data[at:at + n]
            at += n


def events(folder):
    """All events in TensorBoard's order: (wall time, step, version, {tag: value}, session status)."""
    for path in sorted(glob.glob(f"{folder}/*tfevents*")):
        data = open(path, "rb").read()
        while data:
            n, = struct.unpack("<Q", data[:8])
            check("checksums", struct.unpack("<I", data[8:12])[0] == masked(data[:8])
                  and struct.unpack("<I", data[12 + n:16 + n])[0] == masked(data[12:12 + n]))
            event, scalars = dict(fields(data[12:12 + n])), {}
            for _, value in fields(event.get(5, b"")):
                v = dict(fields(value))
                scalars[v[1].decode()] = struct.unpack("<f", v[2])[0] if 2 in v else None
            status = dict(fields(event[7])).get(1, 0) if 7 in event else None
            yield struct.unpack("<d", event[1])[0], event.get(2, 0), event.get(3), scalars, status
            data = data[16 + n:]


def as_tensorboard(folder):
    """{tag: [(step, value)]}, purged at session starts as plugin_event_accumulator.py does."""
    tags, starts = {}, []
    for _, step, _, scalars, status in events(folder):
        if status == 1:
            starts.append(step)
            tags = {tag: [p for p in points if p[0] < step] for tag, points in tags.items()}
        for tag, value in scalars.items():
            tags.setdefault(tag, []).append((step, value))
    return tags, starts


def lines():
    with open("run/metrics.jsonl") as f:
        return [json.loads(line, parse_constant=lambda c: check("no nan in JSON", False, c)) for line in f]


def kill_and_resume():
    """Killed after step 15, when the checkpoint of step 7 has ended, and again; metrics.sh preloads at_event.c."""
    for writes in (17, 20):
        killed = subprocess.run([drover, "train", "run.yaml"], stderr=subprocess.DEVNULL,
                                env={**os.environ, "AT_EVENT": f"kill after {writes} write */metrics.jsonl"})
        check("it is killed", killed.returncode == -signal.SIGKILL, killed.returncode)
    subprocess.run([drover, "train", "run.yaml"], check=True, stderr=subprocess.DEVNULL)


def look():
    records = lines()
    steps = [r for r in records if "loss" in r]
    valid = [r for r in records if "val_loss" in r]
    check("one record per step", [r["step"] for r in steps] == list(range(1, 61)), [r["step"] for r in steps])
    check("one per evaluation", [r["step"] for r in valid] == list(range(0, 61, 10)), valid)
    stamp = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
    check("each has the time", all(stamp.match(r.get("time", "")) for r in records), records[:1])
    check("which continues", [r.get("time") for r in records] == sorted(r.get("time", "") for r in records))

    tags, starts = as_tensorboard("run/tensorboard")
    names = [name.rsplit(".", 1)[0] for name in glob.glob("run/tensorboard/*")]
    check("names order sessions, whatever number a process has", len(set(names)) == len(names), names)
    check("sessions start after a checkpoint", len(starts) == 3 and starts[0] == 0 and all(s % 7 == 1 for s in starts[1:]), starts)
    want = {"reduced_train_loss", "lr", "gradient_norm", "parameter_norm", "global_step", "consumed_samples",
            "throughput", "throughput_peak", "tokens_per_s", "val_loss"}
    check("NxD Training's tags", want <= set(tags), set(tags))
    for tag in sorted(want - {"val_loss"}):
        check(f"{tag}: each step once", [s for s, _ in tags[tag]] == list(range(1, 61)), tags[tag])
    check("a value of 0 is there", tags["lr"][-1][1] == 0 and steps[-1]["lr"] == 0, tags["lr"][-1])
    check("val_loss: each once", [s for s, _ in tags["val_loss"]] == list(range(0, 61, 10)), tags["val_loss"])
    for record, (_, loss), (_, rate) in zip(steps, tags["reduced_train_loss"], tags["throughput"]):
        check(f"step {record['step']}: both say the same", math.isclose(record["loss"], loss, rel_tol=1e-6)
              and math.isclose(record["throughput"], rate, rel_tol=1e-6))
    # Sequences per second of a window of 10 steps, evaluations and checkpoints in it.
    for r in steps[-20:]:
        check(f"throughput of step {r['step']}", 0 < r["throughput"] <= 1.01 * max(
            s["tokens_per_s"] / 32 for s in steps), r)
    peaks = [v for _, v in tags["throughput_peak"]]
    check("the peak is the highest of its session", math.isclose(
        peaks[-1], max(v for s, v in tags["throughput"] if s >= starts[-1]), rel_tol=1e-6), peaks)
    first = next(iter(events("run/tensorboard")))
    check("a file begins with its version", first[2] == b"brain.Event:2", first)


with tempfile.TemporaryDirectory() as folder:
    start = os.getcwd()
    os.chdir(folder)
    make_data(CONFIG)
    kill_and_resume()
    look()
    if os.environ.get("KEEP"):
        os.system(f"rm -rf {os.environ['KEEP']}; cp -r run {os.environ['KEEP']}")
    os.chdir(start)
finish()
