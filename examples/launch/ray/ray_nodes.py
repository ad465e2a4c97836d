#!/usr/bin/env python3
"""Starts one `drover launch node` on each of several nodes of a Ray cluster, all or none, and ends with the status of
the first that fails. Ray has no interface to C for this.

    ray_nodes.py JOB.json

JOB.json: "nodes"; "bundle", what Ray is to reserve on each; "command", a list of words; "tries", how often an attempt that
ends with 75 (another try may succeed) is started again; "wait_s", for the nodes; "grace_s", for a save; "restarts": the
command goes on without a node by itself, and node 0 decides how it ends. On a cluster that stays (runtime_env's
working_dir) also "folder", where the command runs, and "sent", a word of it that names a file of the working_dir.
"""
import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

RETRY = 75
AFTER_NODE_0_S = 30  # for the others, which it has told
stop_asked = False


def of_sent(job):
    """The command of a job whose files Ray has brought to the folder of this process, and the folder in which it runs."""
    own = os.path.abspath(os.path.basename(job["sent"]))
    return [own if word == job["sent"] else word for word in job["command"]], job["folder"]


@ray.remote(num_cpus=0, max_restarts=0, max_concurrency=2)  # 2: it can be asked to stop while it runs
class Node:
    child, stop_asked = None, False

    def address(self):
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, job, environment):
        if "sent" in job:
            with tempfile.NamedTemporaryFile("w") as file:  # of mode 0600
                file.write(environment.pop("DROVER_JOB_SECRET"))
                file.flush()
                return self.run_here(*of_sent(job), {**environment, "DROVER_JOB_SECRET_FILE": file.name})
        return self.run_here(job["command"], None, environment)

    def run_here(self, command, folder, environment):
        # A raylet that takes over children (RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper) ignores SIGCHLD, and so
        # does all that it starts: every child would seem to have ended with 0. Python sets signals on its main thread alone.
        ctypes.CDLL(None).signal(int(signal.SIGCHLD), None)
        self.child = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, start_new_session=True)
        if self.stop_asked:
            self.stop()
        status = self.child.wait()
        return status if status >= 0 else 128 - status

    def stop(self):
        self.stop_asked = True
        if self.child:
            self.child.terminate()  # the ranks save; a second one changes nothing


def ask_stop(*_):
    global stop_asked
    stop_asked = True


class Attempt:
    def __init__(self, job, group):
        self.job, self.group, self.nodes, self.running = job, group, {}, {}

    def place(self, rank):
        where = PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=rank)
        self.nodes[rank] = Node.options(scheduling_strategy=where).remote()

    def start(self, rank):
        future = self.nodes[rank].run.remote(self.job, {**self.variables, "DROVER_NODE_RANK": str(rank)})
        self.running[future] = rank

    def begin(self):
        for rank in range(self.job["nodes"]):
            self.place(rank)
        host, port = ray.get(self.nodes[0].address.remote(), timeout=self.job["wait_s"])
        self.variables = {"DROVER_NODES": str(self.job["nodes"]), "DROVER_MASTER": f"{host}:{port}"}
        if "sent" in self.job:
            self.variables["DROVER_JOB_SECRET"] = secrets.token_hex(32)
        for rank in self.nodes:
            self.start(rank)

    def end_of(self, future, rank):
        """Its status, and whether its actor was lost."""
        try:
            return ray.get(future), False
        except ray.exceptions.RayError as error:
            print(f"ray_nodes: node {rank} is lost: {error}", file=sys.stderr)
            return RETRY, isinstance(error, ray.exceptions.RayActorError)

    def goes_on(self):
        return 0 in self.running.values() if self.job["restarts"] else bool(self.running)

    def watch(self):
        """The status of the first that fails; 0: none has."""
        first, told = 0, None
        while self.goes_on() and (told is None or time.monotonic() < told + self.job["grace_s"]):
            for future in ray.wait(list(self.running), num_returns=1, timeout=1)[0]:
                rank = self.running.pop(future)
                status, lost = self.end_of(future, rank)
                if rank == 0 or not self.job["restarts"]:
                    first = first or status
                elif told is None and (lost or status >= 128):  # it may come back, when Ray has a place for it
                    if lost:
                        self.place(rank)
                    self.start(rank)
            if told is None and (stop_asked or first):
                told = time.monotonic()
                for rank in self.running.values():
                    self.nodes[rank].stop.remote()
        if self.job["restarts"] and self.running and not self.goes_on():
            ray.wait(list(self.running), num_returns=len(self.running), timeout=AFTER_NODE_0_S)
            return first
        return first or (RETRY if self.running else 0)


def run_attempt(job):
    group = placement_group([job["bundle"]] * job["nodes"], strategy="STRICT_SPREAD")
    attempt = Attempt(job, group)
    try:
        ray.get(group.ready(), timeout=job["wait_s"])
        attempt.begin()
        return attempt.watch()
    except ray.exceptions.RayError as error:
        print(f"ray_nodes: {job['nodes']} nodes with {job['bundle']} did not come: {error}", file=sys.stderr)
        return RETRY
    finally:
        for node in attempt.nodes.values():
            ray.kill(node)
        remove_placement_group(group)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    ray.init()
    signal.signal(signal.SIGTERM, ask_stop)  # after init, which sets one that ends this process and with it all actors
    for _ in range(job["tries"] + 1):
        status = run_attempt(job)
        if status != RETRY or stop_asked:
            break
    sys.exit(status)


if __name__ == "__main__":
    main()
