"""Holds the lines of packaging/Containerfile* against the tree and what it installs. No registry is asked: what an image of
others has is not seen here.

    image_recipes.py TREE INSTALLED       (INSTALLED: what cmake --install has made of this tree)
"""
import pathlib
import re
import shlex
import subprocess
import sys

tree, installed = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
sys.path.insert(0, str(tree / "packaging"))
from build_in_chroot import instructions  # noqa: E402

IMAGE = re.compile(r"[a-z0-9.-]+\.[a-z]+(/[a-z0-9._-]+)+:[A-Za-z0-9._-]+")  # REGISTRY/NAME:TAG
VENDORS = ("/opt/amazon/efa", "/opt/aws/neuron")  # of their images
PACKAGES = set(subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split())
problems = []


def packages_of(words):
    """Names after `apt-get install`."""
    at = words.index("install")
    return [word for word in words[at + 1:] if not word.startswith(("-", "<", "/"))]


def check_command(where, words, stage):
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    name = words[0]
    if name == "xargs":
        check_command(where, words[1:], stage)
    elif "/" in name:
        if not (tree / name).is_file() or not (tree / name).stat().st_mode & 0o100:
            problems.append(f"{where}: {name} is no program of the tree")
    elif subprocess.run(["sh", "-c", 'command -v "$0"', name], capture_output=True, check=False).returncode:
        problems.append(f"{where}: there is no {name} on a Debian")
    if name == "make":
        targets = [w for w in words[1:] if "=" not in w]
        known = re.findall(r"^([\w -]+):", (tree / "Makefile").read_text(), re.M)
        problems.extend(f"{where}: make has no {t}" for t in targets if t not in " ".join(known).split())
    if name == "apt-get" and "install" in words:
        problems.extend(f"{where}: there is no package {package}" for package in packages_of(words) if package not in PACKAGES)
    if name == "python3" and words[1].endswith(".py"):
        helped = subprocess.run([sys.executable, tree / words[1], "--help"], capture_output=True, text=True, check=False)
        if helped.returncode or any(w not in helped.stdout for w in words[2:] if not w.startswith("/")):
            problems.append(f"{where}: {words[1]} takes no {words[2:]}")
    if name == "cmake" and "--install" in words:
        stage["makes"].add(re.search(r"DESTDIR=(\S+)", where).group(1))
    for flag in ("--dir", "-p"):
        if flag in words and words[words.index(flag) + 1].startswith("/"):
            stage["makes"].add(words[words.index(flag) + 1])


def check_run(where, rest, stage):
    for command in re.split(r"\s(?:&&|\|)\s", rest):
        bare = re.sub(r'"\$\(.*\)/', '"', command)
        words = shlex.split(re.sub(r"[<>]\s*(\S+)", lambda m: (stage["makes"].add(m.group(1)) if m.group(0)[0] == ">" else None) or "", bare))
        check_command(f"{where}: {command}", words, stage)


def check(path):
    stages, arguments, stage, said = {}, {}, None, path.read_text()
    for word, rest in instructions(said):
        where = f"{path.name}: {word} {rest[:60]}"
        if word == "ARG":
            name, _, arguments[name] = rest.partition("=")
            if not IMAGE.fullmatch(arguments[name]):
                problems.append(f"{where}: expected REGISTRY/NAME:TAG")
        elif word == "FROM":
            source, _, name = rest.partition(" AS ")
            if source not in stages and source.strip("${}") not in arguments:
                problems.append(f"{where}: no such stage or argument")
            stage = {"makes": set(stages.get(source, {}).get("makes", ()))}
            stages[name] = stage
        elif word == "RUN":
            check_run(f"{path.name}: {word}", rest, stage)
        elif word == "COPY":
            words = shlex.split(rest)
            if words[0].startswith("--from="):
                if words[1] not in stages[words[0][7:]]["makes"]:
                    problems.append(f"{where}: {words[0][7:]} makes no {words[1]}, but {stages[words[0][7:]]['makes']}")
            elif words[0] != "." and not (tree / words[0]).exists():
                problems.append(f"{where}: there is no {words[0]}")
            stage["makes"].add(words[-1])
        elif word == "ENV":
            name, _, value = rest.partition("=")
            if value.startswith("/") and value != "/home/drover" and not any(made.startswith(value) for made in stage["makes"]):
                problems.append(f"{where}: nothing makes {value}")
        elif word in ("ENTRYPOINT", "CMD"):
            words = re.findall(r'"([^"]*)"', rest)
            if words and not (installed / words[0].lstrip("/")).is_file():
                problems.append(f"{where}: nothing installs {words[0]}")
            if words and subprocess.run([installed / words[0].lstrip("/"), *words[1:], "--help"], capture_output=True, check=False).returncode:
                problems.append(f"{where}: drover has no {words[1:]}")
        elif word not in ("USER", "WORKDIR"):
            problems.append(f"{where}: an instruction that packaging/build_in_chroot.py does not know")
    for target in re.findall(r"--target (\w+)", said):
        if target not in stages:
            problems.append(f"{path.name}: the comment builds {target}, which is no stage")
    for mentioned in re.findall(r"/opt/[\w/.-]+\w", said):
        if not mentioned.startswith(VENDORS) and not any(mentioned.startswith(made) or made.startswith(mentioned) for s in stages.values() for made in s["makes"]):
            problems.append(f"{path.name}: nothing makes {mentioned}")


for recipe in sorted((tree / "packaging").glob("Containerfile*")):
    check(recipe)
print(*problems, sep="\n")
sys.exit(bool(problems))
