#!/usr/bin/env python3
"""Two runs of two ranks with a page and posts of progress; rank 1 is stopped, continued, killed: page_ranks.py DROVER, in a
folder with run.yaml, ca.pem, server.pem and server.key. Exit status 0: all is as it should be."""
import http.client, json, os, re, signal, sys
from started_run import PATIENCE, StartedRun
from tls_server import Server

DROVER = sys.argv[1]


class Run(StartedRun):
    def __init__(self, name, *sets):
        self.server = Server(200)
        with open(f"{name}.token", "w") as f:
            f.write("token\n")
        env = dict(os.environ, KUBEFLOW_TRAINER_SERVER_URL=f"https://localhost:{self.server.port}/status",
                   KUBEFLOW_TRAINER_SERVER_CA_CERT="ca.pem", KUBEFLOW_TRAINER_SERVER_TOKEN=f"{name}.token")
        super().__init__(name, ["mpirun", "--oversubscribe", "-n", "2", DROVER],
                         ("training.http=0", "training.http_ranks=true", *sets), env)

    def ask(self, path):
        keys = self.keys()
        host, port = keys["address"].rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {keys['token']}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def began(self):
        self.wait(self.keys, "http.json")
        self.wait(lambda: self.ask("/readyz")[0] == 200, "/readyz")
        self.wait(lambda: json.loads(self.ask("/api/status")[1])["last_step"]["step"], "a step on the page")
        self.wait(lambda: self.server.posts, "the first post")
        return [rank["pid"] for rank in json.loads(self.ask("/api/status")[1])["ranks"]]

    def ended(self, before, cause):
        """By a failure of the other rank: the exit status, and a post that says what the last step was."""
        code = self.process.wait(PATIENCE)
        assert code in (75, 128 + signal.SIGKILL), (code, self.said())  # the latter is mpirun's word
        with open(f"{self.name}/status.json") as f:
            status = json.load(f)
        assert (status["end"], status["cause"], status["failed_rank"]) == ("failed", cause, 1), status
        assert len(self.server.posts) > before, f"{self.name}: nothing was posted at the end"
        last = json.loads(self.server.posts[-1][-1])["trainerStatus"]
        assert "estimatedRemainingSeconds" not in last, last  # nobody knows any more
        assert int({m["name"]: m["value"] for m in last["metrics"]}["step"]) == status["step"], (last, status)


run = Run("run", "parallel.give_up_s=8")
pids = run.began()
assert len(pids) == 2 and pids[0] != pids[1], pids
assert run.ask("/healthz") == (200, "ok\n"), run.ask("/healthz")
figures = run.ask("/metrics")[1]
for rank in 0, 1:
    for figure in "compute_seconds", "wait_seconds", "data_seconds", "save_seconds", "resident_bytes":
        assert re.search(rf'^drover_rank_{figure}{{rank="{rank}"}} [0-9.e+-]+$', figures, re.M), (figure, figures)
assert "\ndrover_ranks 2\n" in figures, figures
page = run.ask("/")[1]
assert re.search(r"<tr><td>0</td><td>.*\n?.*<tr><td>1</td><td>", page, re.S), page

# --- a rank that stands still is told of, and of no more once it goes on
os.kill(pids[1], signal.SIGSTOP)
run.wait(lambda: run.ask("/healthz")[0] == 503, "/healthz of a rank that stands still")
status, words = run.ask("/healthz")
assert (status, words) == (503, "the watchdog has fired: the others wait for rank 1\n"), words
assert run.ask("/readyz")[0] == 200
os.kill(pids[1], signal.SIGCONT)
run.wait(lambda: run.ask("/healthz")[0] == 200, "/healthz of a rank that goes on")

# --- until it is given up
before = len(run.server.posts)
os.kill(pids[1], signal.SIGSTOP)
run.ended(before, "hang")  # mpirun kills the one that stands still

# --- one that is killed at the beginning of a long step: the other one is computing, and does not look
killed = Run("killed", "data.sequence_length=512", "training.global_batch_size=64", "training.micro_batch_size=32")
pids = killed.began()
steps = lambda: open("killed/metrics.jsonl").read().count("\n")
now = steps()
killed.wait(lambda: steps() > now, "a step")
before = len(killed.server.posts)
os.kill(pids[1], signal.SIGKILL)
killed.ended(before, "peer")
