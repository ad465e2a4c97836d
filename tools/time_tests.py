#!/usr/bin/env python3
"""Measures the processor time of tests and records it in tests/times.txt, which tools/check_tiers.py adds up.

    tools/time_tests.py [-j N] [ctest options, as -L quick or -R '^ops$']

The time of a test is that of all its processes, also of those that outlive it for a while. It hardly depends on what else the machine
does, so several tests may run at the same time. Only tests that pass are recorded; a test that takes another machine twice as
long is recorded by the machine that the first line of the file names."""
import concurrent.futures, ctypes, json, os, pathlib, subprocess, sys, time

root = pathlib.Path(__file__).resolve().parent.parent
build = root / os.environ.get("BUILD", "build")
record = root / "tests/times.txt"
PR_SET_CHILD_SUBREAPER = 36


def measure(test):
    """(name, exit status, processor seconds, wall seconds). A process of its own adopts what the test leaves behind, so that it is counted."""
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    begin = time.monotonic()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.environ.update(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
        log = open(build / "Testing" / f"time_{test['name']}.log", "w")
        child = subprocess.Popen(test["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=build / "tests")
        status = None
        while True:
            try:
                pid, code, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            if pid == child.pid:
                status = os.waitstatus_to_exitcode(code)
        t = os.times()
        os.write(write, json.dumps([status, t.children_user + t.children_system]).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    status, seconds = json.loads(os.read(read, 1000))
    os.close(read)
    return test["name"], status, seconds, time.monotonic() - begin


def main(words):
    jobs = 1
    if words[:1] == ["-j"]:
        jobs, words = int(words[1]), words[2:]
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *words], capture_output=True, text=True, check=True)
    tests = json.loads(listing.stdout)["tests"]
    lines = record.read_text().splitlines() if record.exists() else []
    times = dict(line.split() for line in lines if line and line[0] != "#")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, status, seconds, wall in pool.map(measure, tests):
            print(f"{name:28} {'passed' if status == 0 else 'skipped' if status == 77 else f'FAILED ({status})'} {seconds:7.1f} s of processor time, {wall:6.1f} s", flush=True)
            if status == 0:
                times[name] = f"{seconds:.1f}"
    head = [line for line in lines if line.startswith("#")]
    record.write_text("\n".join(head + [f"{name} {times[name]}" for name in sorted(times)]) + "\n")


main(sys.argv[1:])
