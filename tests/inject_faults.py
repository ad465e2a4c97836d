#!/usr/bin/env python3
"""Faults of the system, in short runs of the verbs. strace has the N-th call of each thread fail, as on a disk that is full
or broken, with a table of descriptors that is full, or by a signal; short_calls.c has reads and writes move a part. A run
then ends well with the bytes of an undisturbed one, or says in a warning what it did without, or fails with a line that gives
the reason. It harms no input, and the same command then ends well, with the same files and no others.

usage: inject_faults.py DROVER TEMPLATE [--draw N] [--seed S] [--verbs A,B] [--each N]
TEMPLATE: a folder that inject_faults.sh has filled. --each N: of each call of each verb N occurrences, instead of a draw.
"""
import argparse, hashlib, json, os, random, re, shutil, signal, subprocess, sys, tempfile

parser = argparse.ArgumentParser()
parser.add_argument("drover")
parser.add_argument("template")
parser.add_argument("--draw", type=int, default=40)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--verbs")
parser.add_argument("--each", type=int, default=0)
args = parser.parse_args()

LIMIT = 120  # seconds for what takes one
STEP = "run/checkpoints/step-000002"
VERBS = {name: line.split() for name, line in {
    "train": "train run.yaml --set run_dir=new",
    "resume": "train run.yaml --set run_dir=run --set training.steps=3",
    "tokenizer": "tokenizer train --input text.txt --vocab-size 300 --out tok2",
    "encode": "tokenizer encode --tokenizer tok --input text.txt",
    "build": "data build --input text.txt --tokenizer tok --out data/new",
    "rebuild": "data build --input text.txt --tokenizer tok --out data/set",
    "data_verify": "data verify data/set",
    "verify": f"ckpt verify {STEP}",
    "export": "ckpt export run --out exported --dtype bf16 --max-shard-size 100KB",
    "gguf": "ckpt export run --gguf exported.gguf --no-verify",
    "dcp": "ckpt export run --dcp dcp",
    "import": "ckpt import model.gguf --out imported",
    "merge": f"ckpt merge {STEP} tuned --out merged --no-verify",
    "consolidate": "ckpt consolidate run --out copy",
    "eval": f"eval {STEP} --data data/set --json",
    "generate": f"generate {STEP} --prompt fox --max-tokens 3 --seed 1",
    "plan": "plan run.yaml",
    "config": "config run.yaml",
    "report": "report run",
    "plot": "plot run",
    "top": "top run --once",
    "slurm": "launch slurm run.yaml --name job --nodes 2 --instance cpu --out job",
    "audit": "audit run --steps 1:2",
    "chat": "chat --template chat.jinja --messages messages.json --print",
    "get": "model get old --out got",
    "get_data": "data get hf:good/set --out got",
}.items()}
# What a system may answer. Not here: calls that cannot fail so, those that only libraries make, and unlink: a file that cannot be
# removed stays.
ERRORS = {name: line.split() for name, line in {
    "openat": "EACCES EMFILE ENFILE EIO ENOSPC ESTALE EROFS ENOMEM", "read": "EIO EINTR ESTALE", "pread64": "EIO EINTR ESTALE",
    "write": "ENOSPC EIO EINTR EDQUOT", "pwrite64": "ENOSPC EIO EINTR EDQUOT", "fsync": "EIO ENOSPC EDQUOT", "fdatasync": "EIO",
    "ftruncate": "EIO ENOSPC EINTR", "rename": "ENOSPC EXDEV EACCES EIO", "renameat": "ENOSPC EIO", "mkdir": "ENOSPC EACCES EROFS",
    "access": "EIO EACCES ESTALE", "faccessat2": "EIO", "newfstatat": "EIO EACCES ESTALE ENOMEM",
    "getdents64": "EIO ESTALE", "mmap": "ENOMEM", "madvise": "EAGAIN EINVAL", "close": "EIO EINTR ENOSPC EDQUOT",
    "flock": "EAGAIN EINTR ENOLCK", "clone3": "EAGAIN ENOMEM", "pipe2": "EMFILE", "socket": "EMFILE EACCES",
    "connect": "ECONNREFUSED ETIMEDOUT", "recvfrom": "ECONNRESET EINTR", "sendto": "EPIPE ECONNRESET EINTR", "poll": "EINTR ENOMEM",
    "sched_getaffinity": "EINVAL", "statfs": "EIO ENOSYS",
}.items()}
# Files that say when, where and by which process something ran; what a run keeps of an attempt that failed; a lock that stays is
# taken by the next.
VOLATILE = re.compile(r"(^|/)(log\.txt|events\.jsonl|status\.json|ranks/status|owner\.json)$|tensorboard/")
KEPT = re.compile(r"metrics\.lost\.jsonl$|/audit/before-|\.lock$")
CLOCK = re.compile(r"\d+(\.\d+)?( ?(ms|us|s|min|h|tok/s|tokens/s|MB/s|GB/s|GFLOPS|GFLOP/s|%|[KMG]iB)\b|:\d\d)")


def losses(path):
    records = [json.loads(line) for line in open(path)]
    return str({record["step"]: record["loss"] for record in records if "loss" in record})


def tree(folder):
    """{path: hash}; of metrics the losses, of what is volatile that it is there."""
    out = {}
    for base, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(base, name)
            path = re.sub(r"tfevents\..*", "tfevents", os.path.relpath(full, folder))
            out[path] = ("" if VOLATILE.search(path) else losses(full) if name == "metrics.jsonl"
                         else hashlib.sha256(open(full, "rb").read()).hexdigest())
    return out


def differences(got, want):
    return [f"{path} is {'missing' if path not in got else 'left' if path not in want else 'another'}"
            for path in sorted(set(got) | set(want)) if got.get(path) != want.get(path) and not KEPT.search(path)]


class Bench:
    def __init__(self, root):
        self.root, self.folder = root, root + "/w"  # the same name for all: outputs have it in them
        self.env = {**os.environ, "HOME": root, "XDG_CACHE_HOME": root + "/cache", "TMPDIR": root}

    def fresh(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(args.template, self.folder)

    def run(self, verb, before=()):
        paths = self.root + "/out", self.root + "/err"
        with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
            process = subprocess.Popen([*before, args.drover, *VERBS[verb]], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, env=self.env, start_new_session=True)
            try:
                code = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = "none: it hangs"
        return code, *(open(path, errors="replace").read() for path in paths)

    def undisturbed(self, verb):
        """Exit status, outputs, files and calls: {call: {N: its text}}, those after the dynamic linker's."""
        self.fresh()
        log = self.root + "/calls"
        code, out, err = self.run(verb, ["strace", "-f", "-y", "-s", "0", "-o", log, "-e", "trace=munmap," + ",".join("?" + c for c in ERRORS)])
        counts, calls, linked = {}, {}, None
        for line in open(log, errors="replace"):
            found = re.match(r"(\d+) +(\w+)\((.*)", line)
            if not found: continue
            thread, call, text = found.groups()
            n = counts[thread, call] = counts.get((thread, call), 0) + 1
            if linked is None and call == "munmap":  # the linker's cache
                linked = {name: k for (_, name), k in counts.items()}
            elif linked is not None and call in ERRORS and n > linked.get(call, 0):
                calls.setdefault(call, {}).setdefault(n, text[:120])
        return code, out, err, tree(self.folder), calls

    def judge(self, verb, want, before, may_fail):
        """What is wrong with a disturbed run, and what it said."""
        self.fresh()
        code, out, err = self.run(verb, before)
        got, wrong = tree(self.folder), []
        said = [line for line in err.split("\n") if line.startswith("drover: ")]
        warned = err.count("warning: ") > want[2].count("warning: ") or "could not" in out
        wrong += [f"{path} is harmed" for path, was in template.items() if want[3].get(path) == was != got.get(path) and not warned]
        if code == 0 and not warned:
            if verb != "plan" and CLOCK.sub("#", out) != CLOCK.sub("#", want[1]): wrong.append("another result on standard output")
            wrong += differences(got, want[3])
        elif code != 0:
            if code not in (1, 2, 3, 75): wrong.append(f"exit status {code}")
            if not may_fail: wrong.append("it fails")
            if not said: wrong.append("it fails without a line of drover")
            if "internal error" in err: wrong.append("an assertion fails")
            placed = [path for path in got if path not in template and got[path] == want[3].get(path)]
            code, out, err2 = self.run(verb)
            # What was complete before the fault stays, and is not replaced without --force.
            refused = code == 2 and placed and re.search(r"is there already|has files in it|would be lost", err2)
            if code != 0 and not refused: wrong.append(f"then, undisturbed, exit status {code}: {err2.strip()[-300:]}")
            elif code == 0: wrong += [f"then {text}" for text in differences(tree(self.folder), want[3])]
        return wrong, (said or err.strip().split("\n"))[-1]


def cases_of(verb, calls):
    for call, numbers in sorted(calls.items()):
        chosen = sorted(rng.sample(sorted(numbers), min(args.each or len(numbers), len(numbers))))
        for n in chosen:
            error = rng.choice(ERRORS[call])
            trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e"]
            yield verb, f"{call} {error} at {n} ({numbers[n]})", [*trace, f"inject={call}:error={error}:when={n}"], True
    for seed in range(args.each or 3):
        preload = [f"LD_PRELOAD={os.environ['SHORT_CALLS_LIBRARY']}", f"SHORT_CALLS={args.seed + seed}"]
        yield verb, " ".join(preload), ["env", *preload], False


template, rng = tree(args.template), random.Random(args.seed)
root = tempfile.mkdtemp(prefix="drover-faults-")
wants, cases, n_failed = {}, {}, 0
try:
    bench = Bench(root)
    for verb in args.verbs.split(",") if args.verbs else VERBS:
        *wants[verb], calls = bench.undisturbed(verb)
        if wants[verb][0] != 0: sys.exit(f"{verb}, undisturbed: exit status {wants[verb][0]}: {wants[verb][2]}")
        for case in cases_of(verb, calls): cases.setdefault((verb, case[1].split(" ")[0]), []).append(case)
    if args.each: drawn = [case for group in cases.values() for case in group]
    else: drawn = [rng.choice(cases[key]) for key in rng.sample(sorted(cases), min(args.draw, len(cases)))]  # calls alike, not occurrences
    for verb, what, before, may_fail in drawn:
        wrong, said = bench.judge(verb, wants[verb], before, may_fail)
        n_failed += bool(wrong)
        if wrong: print(f"FAILED: {verb}: {what}: {'; '.join(wrong)}\n    said: {said}", flush=True)
finally:
    shutil.rmtree(root, ignore_errors=True)
print(f"{len(drawn)} faults of seed {args.seed}: {n_failed} failed")
sys.exit(n_failed != 0)
