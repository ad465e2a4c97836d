#!/usr/bin/env python3
"""Runs the full tier of tests, part by part, as tests/parts.ini lists them: what `make full` does.

    tools/run_full.py                     all parts that have not passed on this commit
    tools/run_full.py PART...             these parts, whatever was recorded
    tools/run_full.py --changed COMMIT    the parts that concern a path changed since COMMIT
    tools/run_full.py --list              the parts and what is recorded of them

Each part ends with a line `N passed, N failed, N skipped` and is recorded in build/full/PART.json with the commit, the date, the
processor and the seconds it took; its output is in build/full/PART.log. A part that was interrupted is not recorded, so the next call
runs it again. The program and the tests are expected in build/ (make full builds them first)."""
import configparser, datetime, json, os, pathlib, re, subprocess, sys, time

root = pathlib.Path(__file__).resolve().parent.parent
folder = root / "build/full"
SKIPPED = 77


def git(*words):
    got = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return got.stdout.strip() if got.returncode == 0 else None


def this_commit():
    """The commit of the tree; of a tarball, the one that `git archive` wrote into it."""
    commit = git("rev-parse", "HEAD")
    if commit is None:
        return (root / "cmake/commit.txt").read_text().strip()
    return commit + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")


def processor():
    names = re.findall(r"^(?:model name|vendor_id|cpu family|model)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return ", ".join(names[:4]) + f", {os.cpu_count()} cores"


def lines_of(text):
    return [line for line in text.strip().splitlines() if line.strip()]


def prepare(part):
    """Installs and fetches what a part needs. What cannot be had is not fatal: its tests say so and are skipped."""
    packages = part.get("install", "").split()
    if packages and subprocess.run(["tools/install_deps.sh", *packages], cwd=root).returncode:
        print(f"not all packages are installed: {' '.join(packages)}")
    for command in lines_of(part.get("fetch", "")):
        if subprocess.run(command, shell=True, cwd=root).returncode:
            print(f"failed, so tests may be skipped: {command}")


def run_command(command, log):
    """Runs one command; its output goes to the terminal and the log. Returns the numbers passed, failed and skipped."""
    is_ctest = command.startswith("ctest ")
    if is_ctest:
        command += " --output-on-failure -j " + os.environ.get("TEST_JOBS", str(2 * (os.cpu_count() or 1) + 2))
    command = re.sub(r"\^\S+\$", lambda m: f"'{m[0]}'", command)
    print(f"--- {command}", flush=True)
    output = []
    process = subprocess.Popen(["bash", "-c", command], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    for line in process.stdout:
        output.append(line)
        log.write(line)
        print(line, end="", flush=True)
    status = process.wait()
    if not is_ctest:
        return (int(status == 0), int(status not in (0, SKIPPED)), int(status == SKIPPED))
    ends = (re.match(r"\s*\d+/\d+ Test +#\d+: \S+ \.+ *(\S+)", line) for line in output)
    words = [end[1] for end in ends if end]
    passed = words.count("Passed")
    skipped = sum(word.startswith("***Skipped") for word in words)
    failed = len(words) - passed - skipped
    if status != 0 and failed == 0 or not words:
        failed += 1  # ctest itself, or a label that no test has
    return passed, failed, skipped


def run_part(name, part, commit):
    begin = time.monotonic()
    prepare(part)
    counts = (0, 0, 0)
    with open(folder / f"{name}.log", "w") as log:
        for command in lines_of(part["run"]):
            counts = tuple(a + b for a, b in zip(counts, run_command(command, log)))
    passed, failed, skipped = counts
    record = {"part": name, "commit": commit, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "processor": processor(), "passed": passed, "failed": failed, "skipped": skipped, "seconds": round(time.monotonic() - begin)}
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"part {name}: {record['seconds']} s on {commit}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return failed == 0


def recorded(name):
    try:
        return json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None


def has_passed(name, commit):
    record = recorded(name)
    return record is not None and record["commit"] == commit and record["failed"] == 0


def concerned(parts, since):
    paths = git("diff", "--name-only", since)
    if paths is None:
        sys.exit(f'run_full: "{since}" is not a commit of this checkout')
    return [name for name in parts.sections()
            if any(re.match(parts[name]["concerns"], path) for path in paths.splitlines())]


def main(words):
    if words in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    parts = configparser.ConfigParser(interpolation=None)
    parts.read(root / "tests/parts.ini")
    folder.mkdir(parents=True, exist_ok=True)
    commit = this_commit()
    if words == ["--list"]:
        for name in parts.sections():
            record = recorded(name)
            print(f"{name:14}", "not run" if record is None else
                  f"{record['passed']} passed, {record['failed']} failed, {record['skipped']} skipped in {record['seconds']} s, {record['date']}, {record['commit'][:12]}")
        return 0
    if words[:1] == ["--changed"]:
        if len(words) != 2:
            sys.exit(__doc__)
        names = concerned(parts, words[1])
        print(f"changed since {words[1]}: {' '.join(names) or 'nothing that a part concerns'}")
        names = [name for name in names if not has_passed(name, commit)]
    elif words:
        names = words
    else:
        names = [name for name in parts.sections() if not has_passed(name, commit)]
    unknown = [name for name in names if name not in parts]
    if unknown:
        sys.exit(f"run_full: no part {', '.join(unknown)}; there are {', '.join(parts.sections())}")
    failed = [name for name in names if not run_part(name, parts[name], commit)]
    if failed:
        print(f"parts that failed: {' '.join(failed)} (build/full/PART.log)")
    return bool(failed)


sys.exit(main(sys.argv[1:]))
