#!/usr/bin/env python3
"""Runs a command whose standard error is a terminal, where progress is drawn at once: what it writes there goes to FILE as it
comes. SIGINT is passed on; the exit status is the command's. Without a command: whether a terminal is to be had, 0 or 1.
on_terminal.py [FILE COMMAND...]"""
import os, pty, signal, subprocess, sys


def has_terminal():
    """Whether a pseudo-terminal is to be had, not so in a chroot without /dev/pts; says so where it is not."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print(f"no pseudo-terminal to be had here: {error}: what wants one is left out")
        return False
    return True


def copy_all(terminal, copy):
    """Until the command has closed its end."""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return
        if not data:
            return
        copy.write(data)


def run(path, command):
    with open(path, "wb", buffering=0) as copy:
        terminal, side = pty.openpty()
        running = subprocess.Popen(command, stderr=side, env={**os.environ, "TERM": "xterm"})
        signal.signal(signal.SIGINT, lambda *_: running.send_signal(signal.SIGINT))
        os.close(side)
        copy_all(terminal, copy)
    return running.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else not has_terminal())
