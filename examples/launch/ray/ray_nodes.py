#!/usr/bin/env python3
"""Starts one `drover launch node` on each of several nodes of a Ray cluster, all or none, and ends with the status of
the first that fails. Ray has no interface to C for this.

    ray_nodes.py JOB.json

JOB.json: "nodes"; "bundle", what Ray is to reserve on each; "command", a list of words; "tries", how often a world that
ends with 75 (another try may succeed) is started again; "wait_s", for the nodes; "grace_s", for a save.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

RETRY = 75
stop_asked = False


@ray.remote(num_cpus=0, max_restarts=0, max_concurrency=2)  # 2: it can be asked to stop while it runs
class Node:
    child = None

    def address(self):
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, command, environment):
        self.child = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True)
        status = self.child.wait()
        return status if status >= 0 else 128 - status

    def stop(self):
        if self.child:
            self.child.terminate()  # the ranks save; a second one changes nothing


def ask_stop(*_):
    global stop_asked
    stop_asked = True


def watch(nodes, running, grace_s):
    """The status of the first that fails; 0: none has."""
    first, told = 0, None
    while running and (told is None or time.monotonic() < told + grace_s):
        for future in ray.wait(list(running), num_returns=1, timeout=1)[0]:
            rank = running.pop(future)
            try:
                status = ray.get(future)
            except ray.exceptions.RayError as error:
                print(f"ray_nodes: node {rank} is lost: {error}", file=sys.stderr)
                status = RETRY
            first = first or status
        if told is None and (stop_asked or first):
            told = time.monotonic()
            for node in (nodes[rank] for rank in running.values()):
                node.stop.remote()
    return first or (RETRY if running else 0)


def run_world(job):
    group = placement_group([job["bundle"]] * job["nodes"], strategy="STRICT_SPREAD")
    nodes = []
    try:
        ray.get(group.ready(), timeout=job["wait_s"])
        for rank in range(job["nodes"]):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            nodes.append(Node.options(scheduling_strategy=place).remote())
        host, port = ray.get(nodes[0].address.remote(), timeout=job["wait_s"])
        world = {"DROVER_NODES": str(job["nodes"]), "DROVER_MASTER": f"{host}:{port}"}
        running = {node.run.remote(job["command"], {**world, "DROVER_NODE_RANK": str(rank)}): rank
                   for rank, node in enumerate(nodes)}
        return watch(nodes, running, job["grace_s"])
    except ray.exceptions.RayError as error:
        print(f"ray_nodes: {job['nodes']} nodes with {job['bundle']} did not come: {error}", file=sys.stderr)
        return RETRY
    finally:
        for node in nodes:
            ray.kill(node)
        remove_placement_group(group)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    ray.init()
    signal.signal(signal.SIGTERM, ask_stop)  # after init, which sets one that ends this process and with it all actors
    for _ in range(job["tries"] + 1):
        status = run_world(job)
        if status != RETRY or stop_asked:
            break
    sys.exit(status)


if __name__ == "__main__":
    main()
