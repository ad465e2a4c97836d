"""A drover that trains in the background while a test looks on: page.py, page_ranks.py, progress.py."""
import atexit, contextlib, json, subprocess, time

PATIENCE = 240  # seconds; other tests run beside this one


class StartedRun:
    """It runs in the folder `name`, without end; what it says goes to NAME.out."""

    def __init__(self, name, words, sets, env=None):
        self.name = name
        words = [*words, "train", "run.yaml"]
        for one in (f"run_dir={name}", "training.steps=1000000", *sets):
            words += ["--set", one]
        out = open(f"{name}.out", "w")
        self.process = subprocess.Popen(words, env=env, stdout=out, stderr=out)
        atexit.register(self.process.kill)  # of an assertion that fails

    def said(self):
        with open(f"{self.name}.out") as f:
            return f.read()

    def wait(self, what, why):
        until = time.time() + PATIENCE
        while time.time() < until:
            found = what()
            if found:
                return found
            assert self.process.poll() is None, f"{self.name}: {why}: the run has ended: {self.said()}"
            time.sleep(0.03)
        raise AssertionError(f"{self.name}: waited in vain: {why}: {self.said()}")

    def steps(self):
        with contextlib.suppress(OSError):
            with open(f"{self.name}/metrics.jsonl", "rb") as f:
                return f.read().count(b"\n")
        return 0

    def keys(self):
        """Address and token of its page, once there is one."""
        with contextlib.suppress(OSError, ValueError):
            with open(f"{self.name}/http.json") as f:
                return json.load(f)
