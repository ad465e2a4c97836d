#!/usr/bin/env python3
"""Runs a command whose standard error is a terminal, where progress is drawn at once. What it writes there goes to FILE as it
comes, and it gets SIGINT as soon as that matches PATTERN, a regular expression. The exit status is the command's. Without
arguments: whether a terminal is to be had, 0 or 1.
on_terminal.py [PATTERN FILE COMMAND...]"""
import os, pty, re, signal, subprocess, sys


def has_terminal():
    """Whether a pseudo-terminal is to be had, not so in a chroot without /dev/pts; says so where it is not."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print(f"no pseudo-terminal to be had here: {error}: what wants one is left out")
        return False
    return True


def interrupt_at(pattern, running, terminal, copy):
    """Copies what comes until the command has closed its end."""
    seen = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return
        if not data:
            return
        copy.write(data)
        if seen is not None and re.search(pattern, seen := seen + data):
            running.send_signal(signal.SIGINT)
            seen = None


def run(pattern, path, command):
    with open(path, "wb", buffering=0) as copy:
        terminal, side = pty.openpty()
        running = subprocess.Popen(command, stderr=side, env={**os.environ, "TERM": "xterm"})
        os.close(side)
        interrupt_at(pattern.encode(), running, terminal, copy)
    return running.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]) if len(sys.argv) > 1 else not has_terminal())
