"""drover bench step --profile, read back. usage: bench_step.py DROVER"""
import json, os, re, shutil, subprocess, tempfile, xml.etree.ElementTree as ET
from story import check, drover, finish

SVG = "{http://www.w3.org/2000/svg}"
TINY = ["--repeats", "1"] + [word for key in (
    "model.preset=tiny", "data.sequence_length=64", "training.global_batch_size=4", "training.micro_batch_size=2",
    "training.threads=1") for word in ("--set", key)]


def bench(*args, code=0, before=(), verb="step"):
    run = subprocess.run([*before, drover, "bench", verb, *TINY, *args], capture_output=True, text=True)
    check(f"bench {verb} {' '.join(args)} exits {code}", run.returncode == code, run.stdout + run.stderr)
    return run.stdout, run.stderr


def near(a, b, bound):
    return abs(a - b) <= bound * max(abs(a), abs(b))


def as_text():
    out, _ = bench("--profile", "--out", "profile.svg")
    rows = [re.match(r"(\S*)\s+(\S.*?)\s+(?:(\d+)\s+)?(\d+\.\d+)\s+(\d+\.\d)%", line) for line in out.splitlines()]
    rows = [row.groups() for row in rows if row]
    check("the rows begin with those of a program", rows and rows[0][0] == "forward", out)
    step = [float(row[3]) for row in rows if row[1] == "the step"]
    times = [float(row[3]) for row in rows if row[1] != "the step"]
    check("one row is the step", len(step) == 1, out)
    step = step or [0]
    check("the others add up to it", abs(sum(times) - step[0]) <= 0.005 * (len(times) + 1), (sum(times), step))
    check("so do their shares", abs(sum(float(row[4]) for row in rows) - 200) <= 0.05 * (len(rows) + 1), out)
    check("what is left over is a row", sum(row[1] == "outside ops" for row in rows) == 1, out)
    check("the bounds are said", re.search(r"^bounds: products \d.* GFLOP/s, memory \d.* GB/s$", out, re.M), out)
    svg = ET.parse("profile.svg").getroot()
    words = [text.text for text in svg.iter(f"{SVG}text")]
    check("each row is a bar", all(row[1] in words for row in rows if row[1] != "the step"), words)
    bars = [float(bar.get("width")) for bar in svg.iter(f"{SVG}rect")]
    check("bars are within the picture", all(0 <= width <= 960 for width in bars), bars)


def by_precision():
    for precision in "fp32", "bf16", "fp8":
        out, _ = bench("--json", "--set", f"training.precision={precision}")
        check(f"the precision is {precision}", json.loads(out)["precision"] == precision, out)


def as_json():
    out, _ = bench("--profile", "--json", "--set", "training.recompute=full")
    whole = json.loads(out)
    profile = whole["profile"]
    rows = profile["rows"]
    seconds = sum(row["seconds"] for row in rows) + profile["outside_seconds"]
    check("seconds add up", near(seconds, profile["step_seconds"], 1e-4), seconds)
    check("shares are those of the step", all(near(row["share"], row["seconds"] / profile["step_seconds"], 1e-3)
                                              for row in rows), rows)
    tokens = whole["batch"] * whole["sequence"]
    # recomputing_ratio counts the step of the model alone: the optimizer has no products here
    flops = whole["recomputing_ratio"] * max(whole["gemm_peak_fp32"], whole["gemm_peak_bf16"]) * tokens / whole["tokens_per_s"]
    check("FLOPs are those of the step", near(sum(row["flops"] for row in rows), flops, 1e-3), flops)
    check("programs", {row["program"] for row in rows} == {"forward", "recomputed", "backward", "optimizer"}, rows)
    for row in rows:
        least = max(row["flops"] / profile["peak_flops_per_s"], row["bytes"] / profile["memory_bytes_per_s"])
        check(f"{row['op']}: the bound", near(row["bound_seconds"], least, 1e-3) and
              near(row["of_bound"], least / row["seconds"], 1e-3) and row["bytes"] > 0 and row["sent_bytes"] == 0, row)
    check("an op is one row of its program", len({(row["program"], row["op"]) for row in rows}) == len(rows), rows)
    out, _ = bench("--json")
    check("no profile unasked", "profile" not in json.loads(out), out)


def refused():
    _, err = bench("--out", "x.svg", code=2)
    check("a picture needs the profile", "--profile" in err, err)
    _, err = bench("--profile", "--out", "x.png", code=2)
    check("and a name", err.strip().endswith('--out is "x.png", expected a name ending in .svg'), err)


def on_ranks():
    if not shutil.which("mpirun") or not os.path.exists(f"{os.path.dirname(drover)}/drover_mpi.so"):
        print("left out: ranks; no mpirun, or drover is built without it")
        return
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HWLOC_SYNTHETIC="core:2 pu:1")
    two = ("mpirun", "--oversubscribe", "-n", "2")
    out, _ = bench("--profile", "--json", before=two)
    whole = json.loads(out)  # of one rank, so one object
    rows = whole["profile"]["rows"]
    between = [row for row in rows if row["program"] == "ranks"]
    check("two ranks", whole["ranks"] == 2, whole)
    check("what goes between them is apart, with its bytes", between and all(row["sent_bytes"] > 0 for row in between), rows)
    seconds = sum(row["seconds"] for row in rows) + whole["profile"]["outside_seconds"]
    check("their rows add up", near(seconds, whole["profile"]["step_seconds"], 1e-4), whole)
    out, _ = bench("--profile", "--set", "parallel.tensor=2", before=two)
    check("tensor ranks too", re.search(r"^ranks +all_reduce|^ranks +reduce_scatter", out, re.M), out)
    _, err = bench("--profile", "--set", "parallel.tensor=3", before=two, code=2)
    check("a layout that does not divide is refused once", err.count("expected a multiple of tensor 3") == 1, err)
    device_of_ranks()


def planned(*args):
    run = subprocess.run([drover, "plan", "--json", *args, *TINY[2:]], capture_output=True, text=True)
    check(f"plan {' '.join(args)}", run.returncode == 0, run.stdout + run.stderr)
    return json.loads(run.stdout)["terms"]


def device_of_ranks():
    """The profile that ranks measure together: the plan of their layout waits for them as its links say."""
    for n, layout in (2, ()), (4, ("--set", "parallel.tensor=2")):
        before = ("mpirun", "--oversubscribe", "-n", str(n))
        bench("--out", "here.yaml", *layout, "--set", "training.micro_batch_size=1", before=before, verb="device")
        terms = planned("--ranks", str(n), "--device", "here.yaml", *layout, "--set", "training.micro_batch_size=1")
        check(f"{n} ranks have links", terms["data"] > 0 and (not layout or terms["tensor"] > 0), terms)
        check(f"{n} ranks compute", min(terms[term] for term in ("products", "attention", "memory", "update")) > 0, terms)
    for axis in "pipeline", "context":
        _, err = bench("--set", f"parallel.{axis}=2", before=("mpirun", "--oversubscribe", "-n", "2"), verb="device", code=2)
        check(f"{axis} ranks measure no device", err.count(f"parallel.{axis} is 2, expected 1") == 1, err)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    as_text()
    as_json()
    by_precision()
    refused()
    on_ranks()
finish()
