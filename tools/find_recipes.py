#!/usr/bin/env python3
"""Counts how many tuned recipes among published runs have a mesh in the first five rows of `drover plan --search`.

    tools/find_recipes.py bench/published-runs.json [--drover PATH] [--all]

Each search has the model, the rows, the batch, the precision, the ranks and the device of the run, but not its layout. --all also
searches for runs that are not known to be tuned. The exit status is 1 if fewer than eight of ten tuned ones are found.
"""
import argparse, json, os, subprocess, sys, time
import fit_devices

LAYOUT = ("training.micro_batch_size", "training.recompute", "parallel.")
TOP = 5


def search(drover, run):
    device = fit_devices.NAMES.get(run["device"], run["device"]) + fit_devices.OVERRIDES.get(run["device"], "")
    words = fit_devices.command(drover, run, device)
    kept = words[:7]  # drover plan --json --ranks N --device D
    for option, value in zip(words[7::2], words[8::2]):
        if not value.startswith(LAYOUT):
            kept += [option, value]
    done = subprocess.run(kept + ["--search", "--top", str(TOP)], capture_output=True, text=True)
    return json.loads(done.stdout)["layouts"] if done.returncode == 0 else done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs")
    parser.add_argument("--drover", default=os.path.join(fit_devices.HERE, "build/drover"))
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    with open(args.runs) as f:
        runs = [run for run in json.load(f)["runs"] if run["tuned"] or args.all]
    n = found = 0
    for run in runs:
        begin = time.time()
        layouts = search(args.drover, run)
        axes = ("tensor", "pipeline", "context")
        wanted = [run[axis] for axis in axes]
        meshes = [[row[axis] for axis in axes] for row in layouts] if isinstance(layouts, list) else []
        place = meshes.index(wanted) + 1 if wanted in meshes else 0
        n += run["tuned"]
        found += run["tuned"] and place > 0
        shown = " ".join("x".join(map(str, mesh)) for mesh in meshes) or layouts
        print(f"{run['id']:12} {run['device']:8} {run['ranks']:6} ranks, published {'x'.join(map(str, wanted)):8} "
              f"{'row ' + str(place) if place else 'not found'}: {shown}  ({time.time() - begin:.1f} s)", flush=True)
    print(f"{found} of {n} tuned recipes are in the first {TOP} rows")
    return found < 0.8 * n


if __name__ == "__main__":
    sys.exit(main())
