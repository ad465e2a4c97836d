#!/usr/bin/env python3
"""Fetches PJRT plugins from the Python package index, pinned by version and hash, with plain pip and no
installation: a wheel is a zip, and a plugin is one file in it.

    tools/fetch_pjrt.py              the CPU plugin: what the tests of backend pjrt run on
    tools/fetch_pjrt.py cuda         NVIDIA GPUs (CUDA 13), with its ptxas and libdevice
    tools/fetch_pjrt.py oldest       the oldest plugin that is supported (PJRT 0.81), as DIR/oldest/cpu
    tools/fetch_pjrt.py header       the header that tests/pjrt_abi.sh compares ours with
    tools/fetch_pjrt.py all          all of these

They go to $DROVER_PJRT_DIR, or drover/pjrt in the user's cache, where drover looks for them: DIR/NAME/*.so. What is
there already and has the right hash is left alone. --dir DIR: another folder."""
import argparse, hashlib, os, pathlib, platform, subprocess, sys, tarfile, tempfile, zipfile

# name: package, version, {processor: sha256 of the file}, file inside, place below the folder
PACKAGES = {
    "cpu": ("lammps-jax-pjrt-cpu", "0.11.2",
            {"x86_64": "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1"},
            "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "cpu/pjrt_c_api_cpu_plugin.so"),
    "oldest": ("xla-cpu-pjrt", "0.0.1",
               {"x86_64": "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc"},
               "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "oldest/cpu/xla_cpu_pjrt.so"),
    "cuda": ("jax-cuda13-pjrt", "0.12.0.1",
             {"x86_64": "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90"},
             "jax_plugins/xla_cuda13/xla_cuda_plugin.so", "cuda/xla_cuda_plugin.so"),
    "ptxas": ("nvidia-cuda-nvcc", "13.5.37",
              {"x86_64": "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7"},
              "nvidia/cu13/bin/ptxas", "cuda/tools/bin/ptxas"),
    "libdevice": ("nvidia-nvvm", "13.5.37",
                  {"x86_64": "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070"},
                  "nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "cuda/tools/nvvm/libdevice/libdevice.10.bc"),
    "header": ("pypjrt", "0.1.1", {"": "e85e8fd382801726f9b8d1348deeebe5fb3aab35e95147c09d693cc701190dec"},
               "vendor/xla/pjrt/c/pjrt_c_api.h", "include/xla/pjrt/c/pjrt_c_api.h"),
}


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(os.environ.get("DROVER_PJRT_DIR") or os.path.join(cache, "drover", "pjrt"))


def download(package, version, sha256, source, into):
    """The path of the package's file. pip shows its progress; another hash is its refusal. pip asks a source package for its
    metadata, and what that needs comes built: `--no-binary :all:` would compile that, too."""
    requirements = into / "requirements.txt"
    requirements.write_text(f"{package}=={version} --hash=sha256:{sha256}\n")
    kind = ["--no-binary", package] if source else [
        "--only-binary", ":all:",
        *(f"--platform=manylinux_{v}_{platform.machine()}" for v in ("2_28", "2_27", "2_17", "2_12"))]
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--require-hashes",
               *kind, "-r", str(requirements), "-d", str(into)]
    if subprocess.run(command, stdout=sys.stderr).returncode:
        sys.exit(f"{package} {version} could not be fetched")
    return next(p for p in into.iterdir() if p.name.endswith((".whl", ".tar.gz")))


def member(archive, name):
    """The bytes of a file in a wheel, or in the only folder of a source package."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as z:
            return z.read(name)
    with tarfile.open(archive) as t:
        found = next(m for m in t if m.name.split("/", 1)[-1] == name)
        return t.extractfile(found).read()


def fetch(name, root):
    package, version, hashes, inside, place = PACKAGES[name]
    target, note = root / place, root / (place + ".from")
    sha256 = hashes.get("") or hashes.get(platform.machine())
    if not sha256:
        sys.exit(f"{name}: {package} {version} is for {', '.join(hashes)}, not for {platform.machine()}")
    # What the file was made from, and the hash of the file itself: a damaged one is fetched again.
    if target.exists() and note.exists():
        have = hashlib.sha256(target.read_bytes()).hexdigest()
        if note.read_text() == f"{package}=={version} {sha256} {have}\n":
            print(f"{target} is there already ({package} {version})")
            return
    with tempfile.TemporaryDirectory() as work:
        data = member(download(package, version, sha256, "" in hashes, pathlib.Path(work)), inside)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(target.name + ".tmp")
    aside.write_bytes(data)
    aside.chmod(0o755)
    aside.rename(target)
    note.write_text(f"{package}=={version} {sha256} {hashlib.sha256(data).hexdigest()}\n")
    print(f"{target}  ({package} {version}, {len(data) / 2**20:.0f} MiB)")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", default=["cpu"], metavar="NAME", help="cpu (default), cuda, oldest, header, all")
parser.add_argument("--dir", type=pathlib.Path, default=folder(), help="folder, instead of %(default)s")
args = parser.parse_args()
for name in args.names:
    if name != "all" and name not in PACKAGES:
        parser.error(f'"{name}" is unknown, expected {", ".join(PACKAGES)} or all')
wanted = list(PACKAGES) if "all" in args.names else args.names
if "cuda" in wanted:
    wanted += [name for name in ("ptxas", "libdevice") if name not in wanted]
for name in wanted:
    fetch(name, args.dir)
