#!/usr/bin/env python3
"""Compares `drover plan --device` with published runs, and fits the profiles of devices to them.

    tools/fit_devices.py RUNS.json [--drover PATH] [--table FILE.md]   each run: published, planned, error
    tools/fit_devices.py RUNS.json --leave-out                         the same with each set-up left out of the fit in turn, by device
    tools/fit_devices.py RUNS.json --write                             fits and writes the shares into src/search/devices/*.yaml

RUNS.json has a list "runs": id, device, ranks, model (a preset or its fields), layout and batch, tokens_per_s_per_rank as published, and
`group`, which ties the sizes of one set-up together: a set-up counts once, and is left out as a whole.

The fit determines the shares of the peaks under `reached`. The time of a term is inversely proportional to its share, so the terms of
a plan with one set of shares give those of any other, nearly; after each fit all runs are planned again. The shares of a device are
those of all devices times a factor of its family, which has the same products and software, times one of its own. The factors stay near 1
unless runs say otherwise (PULL), and the shares of all devices near what is measured on devices (PRIOR). With --leave-out, each run is
planned by drover with the shares that were fitted without it.
"""
import argparse, concurrent.futures, json, math, os, re, statistics, subprocess, sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEVICES = os.path.join(HERE, "src/search/devices")
NAMES = {"h100mt": "h100-500w", "h200x4": "h200"}  # of the runs' file -> of the profiles; hosts of four: an override
OVERRIDES = {"h200x4": ",links.ranks_per_host=4"}
FAMILIES = {"h100": "Hopper", "h100-500w": "Hopper", "h200": "Hopper", "b200": "Blackwell", "gb200": "Blackwell"}
SHARES = ["products", "products_fp8", "attention", "memory", "inside", "between"]
PRIOR = dict(products=.75, products_fp8=.60, attention=.45, memory=.80, inside=.70, between=.60)
STIFF = dict(products=.002, products_fp8=.002, attention=.05, memory=.2, inside=.05, between=.1)  # of all devices, to PRIOR
PULL = dict(products=.3, products_fp8=3, attention=20, memory=20, inside=3, between=3)             # of a factor, to 1
BLUNT = .05  # errors below this count by their square, larger ones by their size
ROUNDS, SWEEPS = 4, 3  # plans of all runs; descents over all factors after each


def device_of(run):
    return NAMES.get(run["device"], run["device"])


def command(drover, run, device):
    sets = {"data.sequence_length": run["sequence_length"], "data.pack": "stream", "training.global_batch_size": run["global_batch_size"],
            "training.micro_batch_size": run["micro_batch_size"], "training.recompute": run["recompute"], "training.precision": run["precision"],
            "parallel.tensor": run["tensor"], "parallel.pipeline": run["pipeline"], "parallel.context": run["context"],
            "parallel.sequence": str(run["sequence"]).lower(), "parallel.zero": 3 if run["fsdp"] and run["ranks"] > run["tensor"] * run["pipeline"] else run["zero"] or 0}
    if run["pipeline"] > 1:
        sets["parallel.virtual_stages"] = run["virtual_stages"]
        sets["parallel.schedule"] = "interleaved" if run["virtual_stages"] > 1 else "1f1b"
    model = run["model"]
    sets.update({"model.preset": model} if isinstance(model, str) else {"model." + k: v for k, v in model.items()})
    words = [word for k, v in sets.items() for word in ("--set", f"{k}={v}")]
    return [drover, "plan", "--json", "--ranks", str(run["ranks"]), "--device", device] + words


def plan(drover, run, shares):
    """The terms of the run's step in seconds, with these shares of its device's peaks."""
    name = device_of(run)
    fields = "".join(f",reached.{k}={v:.6g}" for k, v in shares.items())
    done = subprocess.run(command(drover, run, name + OVERRIDES.get(run["device"], "") + fields), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{run['id']}: {done.stderr.strip()}")
    return json.loads(done.stdout)["terms"]


def plan_all(drover, runs, shares_of_run):
    """The terms of each run, and the shares of which they are, by id."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        terms = pool.map(lambda run: plan(drover, run, shares_of_run(run)), runs)
        return {run["id"]: (t, shares_of_run(run)) for run, t in zip(runs, terms)}


def seconds(terms, run, old, new):
    """The step's time with new shares, from terms that were planned with old ones."""
    by = {k: old[k] / new[k] for k in SHARES}
    main = by["products_fp8"] if run["precision"] == "fp8" else by["products"]
    hosts = by["between"] if run["ranks"] > 8 else by["inside"]
    compute = {"products": main, "head": by["products"], "attention": by["attention"], "memory": by["memory"], "launches": 1,
               "tensor": by["inside"] if run["tensor"] <= 8 else by["between"], "context": by["inside"]}
    before = sum(terms[k] for k in compute)
    after = sum(terms[k] * f for k, f in compute.items())
    return after + terms["bubble"] * after / before + terms["data"] * hosts + terms["update"] * by["memory"]


def error(run, took):
    """Planned over published speed, as a logarithm."""
    return math.log(run["global_batch_size"] * run["sequence_length"] / took / run["ranks"] / run["tokens_per_s_per_rank"])


def descend(loss, x, steps=(.2, .05, .01)):
    """The place of a minimum near x, by trying each number up and down."""
    x, best = dict(x), loss(x)
    for step in steps:
        moved = True
        while moved:
            moved = False
            for k in x:
                for factor in (1 + step, 1 / (1 + step)):
                    y = dict(x, **{k: x[k] * factor})
                    at = loss(y)
                    if at < best - 1e-9:
                        x, best, moved = y, at, True
    return x


class Model:
    """The shares of all devices, and the factors of families and of devices, by name; "" names all devices."""

    def __init__(self, levels=None):
        self.levels = dict(levels or {"": PRIOR})

    @staticmethod
    def names(device):
        return ["", device] if device not in FAMILIES else ["", FAMILIES[device], device]

    def shares(self, device):
        levels = [self.levels[name] for name in self.names(device) if name in self.levels]
        return {k: math.prod(level[k] for level in levels) for k in SHARES}

    def penalty(self, name, x):
        if not name:
            return sum(STIFF[k] * math.log(x[k] / PRIOR[k]) ** 2 for k in SHARES)
        # What slows bf16 products down, as a limit of power, slows fp8 as much.
        return sum(PULL[k] * math.log(x[k] / (x["products"] if k == "products_fp8" else 1)) ** 2 for k in SHARES)

    def fit(self, runs, planned):
        """Fits all levels, once each, to runs of which the terms with some shares are known: {id: (terms, shares)}."""
        sizes = {}
        for run in runs:
            sizes[run["group"]] = sizes.get(run["group"], 0) + 1

        def miss(run):
            terms, old = planned[run["id"]]
            e = error(run, seconds(terms, run, old, self.shares(device_of(run))))
            return (math.sqrt(e * e + BLUNT ** 2) - BLUNT) / sizes[run["group"]]

        names = sorted({name for run in runs for name in self.names(device_of(run))}, key=lambda n: (n != "", n not in FAMILIES.values()))
        self.levels = {name: self.levels.get(name, dict.fromkeys(SHARES, 1)) for name in names}
        for name in names:
            mine = [run for run in runs if name in self.names(device_of(run))]
            weight = len({run["group"] for run in runs}) if not name else 1

            def loss(x):
                self.levels[name] = x
                return sum(map(miss, mine)) + weight * self.penalty(name, x)

            self.levels[name] = descend(loss, self.levels[name])


def fit(drover, runs):
    """The model of all runs, and the terms of their plans with its shares."""
    model = Model()
    for _ in range(ROUNDS):
        planned = plan_all(drover, runs, lambda run: model.shares(device_of(run)))
        for _ in range(SWEEPS):
            model.fit(runs, planned)
    return model, plan_all(drover, runs, lambda run: model.shares(device_of(run)))


def shares_of(device):
    with open(os.path.join(DEVICES, device + ".yaml")) as f:
        line = re.search(r"^reached: \{(.*)\}$", f.read(), re.M).group(1)
    return {k: float(v) for k, v in (pair.split(": ") for pair in line.split(", "))}


def write(model):
    for file in sorted(os.listdir(DEVICES)):
        path, shares = os.path.join(DEVICES, file), model.shares(file[:-5])
        with open(path) as f:
            text = f.read()
        fields = ", ".join(f"{k}: {shares[k]:.3f}" for k in SHARES)
        with open(path, "w") as f:
            f.write(re.sub(r"^reached: \{.*\}$", f"reached: {{{fields}}}", text, flags=re.M))


def summary(errors):
    sizes = [abs(math.exp(e) - 1) for e in errors]
    return (f"{len(sizes)} runs: median error {100 * statistics.median(sizes):.1f} %, mean {100 * statistics.mean(sizes):.1f} %, "
            f"{sum(s <= .25 for s in sizes)} within 25 %, {sum(s <= .10 for s in sizes)} within 10 %")


def leave_out(drover, runs):
    """Plans each set-up with shares that are fitted without it. Begins at the fit of all, from which the descent is short."""
    model, planned = fit(drover, runs)
    shares, alone, errors = {}, set(), {}
    for group in sorted({run["group"] for run in runs}):
        others = [run for run in runs if run["group"] != group]
        left = Model(model.levels)
        for _ in range(SWEEPS):
            left.fit(others, planned)
        for run in (r for r in runs if r["group"] == group):
            shares[run["id"]] = left.shares(device_of(run))
            if device_of(run) not in left.levels:
                alone.add(run["id"])
    made = plan_all(drover, runs, lambda run: shares[run["id"]])
    for run in sorted(runs, key=lambda r: r["id"]):
        e = error(run, sum(made[run["id"]][0].values()))
        errors.setdefault(run["device"], []).append(e)
        print(f"{run['id']:12} {run['device']:8} {100 * (math.exp(e) - 1):+6.1f} %{'  the only one of its device' if run['id'] in alone else ''}", flush=True)
    print("each set-up left out of its fit:", summary([e for list_ in errors.values() for e in list_]))
    for device, list_ in sorted(errors.items()):
        print(f"- {device}: {summary(list_)}")


def table(drover, runs, out):
    rows, errors = [], {}
    for run in runs:
        took = sum(plan(drover, run, shares_of(device_of(run))).values())
        e = error(run, took)
        errors.setdefault(run["device"], []).append(e)
        model = run["model"] if isinstance(run["model"], str) else run["model"].get("preset", f"{run['model'].get('num_hidden_layers')} layers")
        rows.append((run["id"], run["source"], run["device"], run["ranks"], model, run["precision"],
                     "x".join(str(run[k]) for k in ("tensor", "pipeline", "context")), f"{run['tokens_per_s_per_rank']:.6g}",
                     f"{run['tokens_per_s_per_rank'] * math.exp(e):.4g}", f"{100 * (math.exp(e) - 1):+.1f} %"))
    head = ("run", "source", "device", "ranks", "model", "precision", "tensor x pipeline x context", "published", "planned", "error")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, r)) + " |" for r in rows]
    lines += ["", "Tokens/s of a rank. " + summary([e for all_ in errors.values() for e in all_]) + ".", ""]
    lines += [f"- {device}: {summary(list_)}" for device, list_ in sorted(errors.items())]
    text = "\n".join(lines) + "\n"
    if out:
        with open(out, "w") as f:
            f.write(text)
    print(text, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs")
    parser.add_argument("--drover", default=os.path.join(HERE, "build/drover"))
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    with open(args.runs) as f:
        runs = json.load(f)["runs"]
    if args.leave_out:
        leave_out(args.drover, runs)
    elif args.write:
        model, _ = fit(args.drover, runs)
        write(model)
        for name, level in model.levels.items():
            print(f"{name or 'all devices'}:", {k: round(v, 3) for k, v in level.items()})
    else:
        table(args.drover, runs, args.table)


if __name__ == "__main__":
    main()
