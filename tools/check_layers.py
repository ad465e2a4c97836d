#!/usr/bin/env python3
"""Compares every #include of src/ with layers.txt: folders, headers of libraries, *_internal.h, cycles."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
src = root / "src"
folders = {}  # folder -> folders that it may include
owners = {}   # beginning of a library's header -> folders that may see it
for line in (root / "layers.txt").read_text().splitlines():
    name, _, rest = line.split("#")[0].strip().partition(":")
    if name.startswith("<"):
        owners[name[1:].rstrip(">")] = rest.split()
    elif name and not name.startswith("lines "):  # the budget of tools/check_sizes.py
        folders[name.strip()] = rest.split()


def room(path):
    """The longest entry of layers.txt that a file below src/ lies in."""
    for parent in path.parents:
        if str(parent) in folders:
            return str(parent)
    return None


def inside(folder, rooms):
    return any(folder == r or (r.endswith("/*") and folder.startswith(r[:-1])) for r in rooms)


def reaches(a, b, seen):
    for name in (f for f in folders if inside(f, folders[a])):
        if name == b or (name not in seen and reaches(name, b, seen | {name})):
            return True
    return False


# Headers of the C library and of Linux; every other one is a library's and has a line in layers.txt.
SYSTEM = re.compile(r"(?:sys|linux|net|netinet|arpa)/\w+\.h|(?:ctype|dirent|dlfcn|elf|errno|fcntl|float|fnmatch|glob|ifaddrs|limits|"
                    r"locale|math|netdb|poll|pthread|regex|sched|semaphore|setjmp|signal|spawn|stdarg|stdatomic|stdbool|stddef|"
                    r"stdint|stdio|stdlib|string|strings|time|unistd)\.h")
bad = [f"layers.txt: {f} includes itself through others" for f in folders if reaches(f, f, frozenset())]
edges = 0

# Folders that ask what a back end can do (src/backend/caps/backend_caps.h) and not for its name; but for the key, and for PJRT's own
# verbs, in whose JSON the names are fields.
ASKS_FOR_NO_NAME = {"setup", "weights", "infer", "programs", "record", "train", "search", "config", "cli", "convert"}
NAMES_A_BACK_END = {"config/run_keys.c", "cli/doctor.c", "cli/verbs_devices.c"}

# Only src/backend opens one of its back ends by name; all others open the one of the config, the host's or the planner.
OPENS_BY_NAME = re.compile(r'\bbackend_(?:open_)?(?:cpu|null|pjrt)\b|\bbackend_open\([^,"]*,\s*"|"backend/backend_kinds\.h"')

# Names of the inputs of programs are spelled out in one table (src/ir/program_inputs.h). Fields of JSON are something else.
INPUTS = re.findall(r'\.name = "(\w+)"', (src / "ir/program_inputs.c").read_text())
INPUT_LITERAL = re.compile(r'"(?:step\.)?(?:%s)(?:\.%%d)?"' % "|".join(INPUTS))
NAMES_FIELDS = {"train/resume.c", "train/trainer_json.c", "record/metrics.c", "convert/compare.c", "convert/convert.c"}

# Ops are named by who defines them, runs them, lowers them or adds their nodes. What goes through any graph asks their rows.
NAMES_OPS = re.compile(r"ir/(ops/|graph\.h|op\.h|grad\.c)|backend/cpu/run_|backend/pjrt/stablehlo/lower_\w+\.c|model/llama\.c|"
                       r"passes/(?!autodiff|cut)|convert/replay\.c")
KNOWS_NO_OP = re.compile(r"backend/pjrt/stablehlo/lower_(graph|step|order)\.c")
for path in sorted(src.rglob("*.[ch]")):
    here, where = room(path.relative_to(src)), path.relative_to(root)
    if here is None:
        bad.append(f"{where}: its folder has no line in layers.txt")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.search(r'"(pjrt|cpu)"', line) and not line.lstrip().startswith("//") and here in ASKS_FOR_NO_NAME and \
                str(path.relative_to(src)) not in NAMES_A_BACK_END:
            bad.append(f"{where}:{number}: names a back end, expected a question of backend/caps/backend_caps.h")
        if here.split("/")[0] != "backend" and OPENS_BY_NAME.search(line):
            bad.append(f"{where}:{number}: opens a back end by its name, expected backend_open, backend_open_host or "
                       "backend_open_planner")
        if re.search(r"\bOP_[a-z]", line.split("//")[0]):
            name = str(path.relative_to(src))
            if not NAMES_OPS.match(name) or KNOWS_NO_OP.match(name):
                bad.append(f"{where}:{number}: names an op, expected a field of its row (src/ir/op.h)")
        if INPUT_LITERAL.search(line) and not line.lstrip().startswith("//") and here.split("/")[0] in (
                "model", "passes", "backend", "setup", "weights", "infer", "programs", "record", "train", "search", "convert") and str(
                path.relative_to(src)) not in NAMES_FIELDS:
            bad.append(f"{where}:{number}: names an input of a program, expected a row of ir/program_inputs.h")
        m = re.match(r'\s*#\s*include\s+(?:"([\w/]+/)[\w.]+"|<([^>]+)>)', line)
        if not m:
            continue
        if m[2]:
            if not SYSTEM.fullmatch(m[2]) and not any(m[2].startswith(header) for header in owners):
                bad.append(f"{where}:{number}: <{m[2]}> is of a library that has no line in layers.txt")
            for header, allowed in owners.items():
                if m[2].startswith(header) and not inside(here, allowed):
                    bad.append(f"{where}:{number}: only {' and '.join(allowed)} may see <{m[2]}>")
            continue
        other = room(pathlib.Path(m[1]) / "x")
        if other is None:  # generated
            continue
        edges += here != other
        if here != other and not inside(other, folders[here]):
            bad.append(f"{where}:{number}: {here} may not include {other}")
        if "_internal.h" in line and here != other:
            bad.append(f"{where}:{number}: private to {other}")
print(*bad, sep="\n", end="\n" if bad else "")
print(f"layers: {edges} includes across folders, {len(bad)} not allowed")
sys.exit(bool(bad))
