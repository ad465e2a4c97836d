#!/usr/bin/env python3
"""Gives random names, from a seed, to `drover launch KIND`: each job is refused by one line with status 2 and nothing written,
or all names in its files have the forms of Kubernetes, also that of the last pod, and Slurm's script has no other #SBATCH
line. The forms are written here independently, after the pages "Object Names and IDs" and "Labels and Selectors" of Kubernetes.

    tools/random_job_names.py DROVER [COUNT] [SEED]      (with PyYAML; a hundred a second)
"""
import glob, os, random, re, shutil, subprocess, sys, tempfile
import yaml

LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\Z")
KINDS = ["slurm", "trainjob", "trainjob --policy torch", "mpi-operator", "pytorchjob", "ray", "volcano"]
LAST_POD = dict(trainjob=lambda n: f"-node-0-{n - 1}", volcano=lambda n: f"-mpiworker-{n - 1}",
                pytorchjob=lambda n: f"-worker-{n - 2}" if n > 1 else "-master-0")
LAST_POD["mpi-operator"] = lambda n: f"-worker-{n - 1}"
CONFIG = """model: {preset: tiny}
data: {train: data/set, sequence_length: 64}
training: {steps: 10, global_batch_size: 16384, micro_batch_size: 1}
"""


def draw(rng):
    n = rng.choice([1, 2, 5, 12, 40, 47, 48, 50, 54, 55, 62, 63, 64, 70])
    return "".join(rng.choice("abcz019-" if rng.random() < .997 else "A_./ \n'\"$é`#:\\") for _ in range(n))


def leaves(node, path=()):
    for key, value in node.items() if isinstance(node, dict) else ((None, v) for v in node):
        here = path + (key,) if key else path
        if isinstance(value, (dict, list)):
            yield from leaves(value, here)
        else:
            yield here, value


def wrong_manifest(path):
    for document in filter(None, yaml.safe_load_all(open(path, encoding="utf-8"))):
        data = document["metadata"]
        if not SUBDOMAIN.match(data["name"]) or len(data["name"]) > 253:
            yield f"metadata.name {data['name']!r}"
        if "namespace" in data and (not SUBDOMAIN.match(data["namespace"]) or "." in data["namespace"] or len(data["namespace"]) > 63):
            yield f"namespace {data['namespace']!r}"
        for where, value in leaves(document):
            if "labels" in where and not (isinstance(value, str) and LABEL_VALUE.match(value) and len(value) <= 63):
                yield f"label {'.'.join(where)} {value!r}"
            if where and where[-1] == "claimName" and not (SUBDOMAIN.match(value) and len(value) <= 253):
                yield f"claim {value!r}"


def wrong_files(kind, name, nodes):
    if not LABEL_1035.match(name) or len(name) > 63:
        yield "the name was taken"
    last = LAST_POD.get(kind)
    if last and len(name + last(nodes)) > 63:
        yield f"the last pod is {name + last(nodes)!r}"
    for path in glob.glob("job/*.yaml"):
        yield from wrong_manifest(path)
    for path in glob.glob("job/*.sbatch"):
        lines = [line for line in open(path, encoding="utf-8") if line.startswith("#SBATCH")]
        if f"#SBATCH --job-name={name}\n" not in lines or len({line.split("=")[0] for line in lines}) != len(lines):
            yield f"lines {lines}"


def main():
    drover = os.path.abspath(sys.argv[1])
    count, seed = (int(x) for x in (sys.argv[2:] + ["10000", "1"][len(sys.argv[2:]):]))
    rng, taken, n_wrong = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        open("run.yaml", "w", encoding="utf-8").write(CONFIG)
        for _ in range(count):
            kind, name, nodes = rng.choice(KINDS), draw(rng), rng.choice([1, 2, 16, 128, 1024])
            command = [drover, "launch", *kind.split(), "run.yaml", "--instance", "cpu", "--nodes", str(nodes), "--name", name, "--out", "job"]
            if kind != "slurm":
                command += ["--image", "r/d:1", "--pvc", draw(rng) if rng.random() < .3 else "c"]
            if rng.random() < .3:
                command += ["--queue", draw(rng)]
            if kind != "slurm" and rng.random() < .3:
                command += ["--namespace", draw(rng)]
            ended = subprocess.run(command, capture_output=True, check=False)
            taken += ended.returncode == 0
            if ended.returncode == 0:
                found = list(wrong_files(kind.split()[0], name, nodes))
            else:
                well = ended.returncode == 2 and ended.stderr.count(b"\n") == 1 and not os.path.exists("job")
                found = [] if well else [f"status {ended.returncode}: {ended.stderr[-300:]!r}"]
            for words in found:
                n_wrong += 1
                print(f"WRONG: {words}: {command[1:]}")
            shutil.rmtree("job", ignore_errors=True)
    print(f"{count} jobs (seed {seed}): {taken} taken, {count - taken} refused, {n_wrong} wrong")
    return n_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
