#!/usr/bin/env python3
"""Runs a command whose standard error is a terminal, where progress is drawn at once: what it writes there goes to FILE as it
comes. SIGINT is passed on; the exit status is the command's.  on_terminal.py FILE COMMAND..."""
import os, pty, signal, subprocess, sys


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


with open(sys.argv[1], "wb", buffering=0) as copy:
    terminal, side = pty.openpty()
    command = subprocess.Popen(sys.argv[2:], stderr=side, env={**os.environ, "TERM": "xterm"})
    signal.signal(signal.SIGINT, lambda *_: command.send_signal(signal.SIGINT))
    os.close(side)
    copy_all(terminal, copy)
sys.exit(command.wait())
