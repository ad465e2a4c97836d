#!/usr/bin/env python3
"""Goes through packaging/Containerfile where no container may be built: each stage is a folder with a root, each RUN a chroot.

    packaging/build_in_chroot.py BASE.tar OUT

BASE.tar is a Debian 12 (mmdebstrap), OUT a folder that must not be there: OUT/node and OUT/mpi become roots of the two variants.
Needs root. The Containerfile's own words are all that it knows: ARG, FROM, RUN, COPY, ENV, WORKDIR, USER.
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

tree = pathlib.Path(__file__).resolve().parent.parent
LEFT_OUT = ("build", "build-sanitized", "build-arm64", "run", "runs")  # as .containerignore has it


def instructions(text):
    """(WORD, REST) of each instruction, continued lines joined, comments dropped."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


class Stage:
    def __init__(self, root, parent=None):
        self.root, self.cwd, self.user = root, "/", "0:0"
        self.environment = dict(parent.environment) if parent else {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        if parent:
            self.cwd, self.user = parent.cwd, parent.user

    def run(self, command):
        uid, gid = self.user.split(":")
        words = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec",
                 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; cp -L /etc/resolv.conf "$0/etc/resolv.conf" 2>/dev/null || :;'
                 ' exec env -i "$@"', str(self.root), *(f"{name}={value}" for name, value in self.environment.items()),
                 shutil.which("chroot") or "/usr/sbin/chroot", f"--userspec={uid}:{gid}", str(self.root),
                 "/bin/sh", "-ec", f"cd {shlex.quote(self.cwd)}; {command}"]
        subprocess.run(words, check=True, timeout=7200)

    def copy(self, sources, to, source_root):
        target = self.root / to.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        for source in sources:
            base = source_root / source.lstrip("/")
            if base.is_dir():
                exclude = [f"--exclude=./{name}" for name in LEFT_OUT] if source_root == tree else []
                packed = subprocess.Popen(["tar", "-C", str(base), *exclude, "-c", "."], stdout=subprocess.PIPE)
                subprocess.run(["tar", "-C", str(target), "--keep-directory-symlink", "--no-same-owner", "-x"], stdin=packed.stdout, check=True)
                if packed.wait():
                    raise SystemExit(f"could not copy {base}")
            else:
                shutil.copy2(base, target)


def build(text, base, out):
    stages, stage, arguments = {}, None, {}
    for word, rest in instructions(text):
        if word == "ARG":
            name, _, value = rest.partition("=")
            arguments[name] = value
        elif word == "FROM":
            source, _, name = rest.partition(" AS ")
            if not name:
                break  # the default target, a stage that is there
            stage = Stage(out / name, stages.get(source))
            stage.root.mkdir(parents=True)
            if source in stages:
                subprocess.run(["cp", "-a", f"{stages[source].root}/.", str(stage.root)], check=True)
            else:
                subprocess.run(["tar", "-C", str(stage.root), "--exclude=./dev/*", "-xf", str(base)], check=True)
            stages[name] = stage
        elif word == "RUN":
            print(f"RUN {rest}", flush=True)
            stage.run(rest)
        elif word == "COPY":
            words, source_root = rest.split(), tree
            if words[0].startswith("--from="):
                source_root = stages[words.pop(0).partition("=")[2]].root
            *sources, to = words
            stage.copy(sources, to, source_root)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.environment[name] = value
        elif word == "WORKDIR":
            stage.cwd = rest
        elif word == "USER":
            stage.user = rest
        elif word not in ("ENTRYPOINT", "CMD"):
            raise SystemExit(f"Containerfile: {word} is not known here")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    build((tree / "packaging/Containerfile").read_text(), pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
