#!/usr/bin/env python3
"""Plans of our own runs beside the runs: 12 layouts of llama-15m on two ranks under mpirun, one thread each. Eight minutes.

    bench/own_plans.py [--drover build/drover] [--table FILE.md] [--repeats 20] [--rows 8]

`drover bench device` measures the profile once, on two data ranks; each layout is then planned by `drover plan --device` and timed
by `drover bench step`, both by the fastest of their steps. The machine is to be quiet: a step that waits for another program's
turn is no step of the plan. The exit status is 1 where the median error is above 5 %.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

LAYOUTS = {
    "data 2, zero 1, micro-batch 1": {"parallel.zero": 1, "training.micro_batch_size": 1},
    "data 2, zero 1, micro-batch 4": {"parallel.zero": 1, "training.micro_batch_size": 4},
    "data 2, zero 0, micro-batch 2": {"parallel.zero": 0, "training.micro_batch_size": 2},
    "data 2, zero 2, micro-batch 2": {"parallel.zero": 2, "training.micro_batch_size": 2},
    "data 2, all recomputed": {"parallel.zero": 1, "training.micro_batch_size": 2, "training.recompute": "full"},
    "tensor 2": {"parallel.tensor": 2, "training.micro_batch_size": 2},
    "tensor 2, whole tokens": {"parallel.tensor": 2, "parallel.sequence": "false", "training.micro_batch_size": 2},
    "context 2": {"parallel.context": 2, "training.micro_batch_size": 2},
    "pipeline 2, 1f1b": {"parallel.pipeline": 2, "parallel.schedule": "1f1b", "training.micro_batch_size": 1},
    "pipeline 2, gpipe": {"parallel.pipeline": 2, "parallel.schedule": "gpipe", "training.micro_batch_size": 2},
    "pipeline 2, zb-h1": {"parallel.pipeline": 2, "parallel.schedule": "zb-h1", "training.micro_batch_size": 1},
    "pipeline 2, interleaved x3": {"parallel.pipeline": 2, "parallel.schedule": "interleaved", "parallel.virtual_stages": 3,
                                   "training.micro_batch_size": 1},
}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DROVER_THREADS": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
ENVIRONMENT.pop("DROVER_PEAK_FLOPS", None)


def run(*words):
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stderr.strip()}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drover", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/drover"))
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rows", type=int, default=8)
    args = parser.parse_args()
    shape = {"model.preset": "llama-15m", "data.sequence_length": 256, "data.pack": "stream", "training.global_batch_size": args.rows}
    sets = lambda more: [word for k, v in {**shape, **more}.items() for word in ("--set", f"{k}={v}")]
    ranks = lambda *words: run("mpirun", "--oversubscribe", "-n", "2", args.drover, *words)
    errors, lines = [], ["| layout | planned, ms | measured, ms | error |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "here.yaml")
        ranks("bench", "device", *sets({"parallel.zero": 1, "training.micro_batch_size": 2}), "--repeats", str(args.repeats), "--out", profile)
        for name, layout in LAYOUTS.items():
            step = json.loads(ranks("bench", "step", *sets(layout), "--repeats", str(args.repeats), "--json"))
            plan = json.loads(run(args.drover, "plan", "--ranks", "2", "--device", profile, "--json", *sets(layout)))
            measured = args.rows * shape["data.sequence_length"] / step["tokens_per_s"]
            errors.append(plan["step_seconds"] / measured - 1)
            lines.append(f"| {name} | {1e3 * plan['step_seconds']:.1f} | {1e3 * measured:.1f} | {100 * errors[-1]:+.1f} % |")
            print(lines[-1], flush=True)
    sizes = [abs(e) for e in errors]
    median = statistics.median(sizes)
    lines += ["", f"{len(sizes)} layouts: median error {100 * median:.1f} %, largest {100 * max(sizes):.1f} %, "
                  f"{sum(s <= .05 for s in sizes)} within 5 %."]
    print(lines[-1])
    if args.table:
        with open(args.table, "w") as f:
            f.write("\n".join(lines) + "\n")
    return median > .05


if __name__ == "__main__":
    sys.exit(main())
