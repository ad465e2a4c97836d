"""Holds docs/launch-manifests.md against examples/launch: a field that ours has is there, one that ours leaves out is not.

    manifest_table.py TREE
"""
import pathlib
import re
import sys

import yaml

tree = pathlib.Path(sys.argv[1])
FILES = {"MPIJob": "mpi-operator/mpijob.yaml", "RayCluster": "ray/raycluster.yaml", "RayJob": "ray/rayjob.yaml", "sbatch": "slurm/train.sbatch",
         "PyTorchJob": "pytorchjob/pytorchjob.yaml", "Volcano": "volcano/volcano.yaml", "TrainJob": "trainjob/trainjob.yaml"}


def paths(o, path=""):
    yield path
    for each in o.items() if isinstance(o, dict) else enumerate(o) if isinstance(o, list) else ():
        yield from paths(each[1], path + (f".{each[0]}" if isinstance(o, dict) else ""))


wrong, n = [], 0
for section in re.split(r"^## ", (tree / "docs/launch-manifests.md").read_text(), flags=re.M)[1:]:
    name = section.split()[0]
    text = (tree / "examples/launch" / FILES.pop(name)).read_text()
    fields = set() if name == "sbatch" else {p for o in yaml.safe_load_all(text) if o["kind"] != "ConfigMap" for p in paths(o)}
    for row in re.findall(r"^\| (.*) \|$", section, re.M)[2:]:
        given, theirs, ours = (cell.strip() for cell in row.split(" | "))
        for field in re.findall(r"`([^`]+)`", given):
            n += 1
            if ":" in given.split("`")[0]:  # of another object: Queue, etcd
                has = False
            elif name == "sbatch":
                has = re.search(rf"(^|\s){re.escape(field)}\b", text, re.M) is not None
            else:
                has = any(p.endswith("." + field) for p in fields)
            if has == ours.startswith("left out"):
                wrong.append(f"{name}: {field}: ours {'has it' if has else 'has it not'}, but the table says \"{ours}\"")
print(*wrong, sep="\n")
print(f"{n} fields, {len(wrong)} wrong")
sys.exit(bool(wrong) or bool(FILES) or n < 90)
