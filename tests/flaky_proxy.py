#!/usr/bin/env python3
"""Carries connections to HOST:PORT and prints the port of 127.0.0.1 where it takes them; cuts all of them at SIGUSR1.
usage: flaky_proxy.py HOST PORT"""
import selectors
import signal
import socket
import sys

where = (sys.argv[1], int(sys.argv[2]))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
chosen = selectors.DefaultSelector()
chosen.register(listener, selectors.EVENT_READ)
other = {}


def cut(*_):
    for end in list(other):
        drop(end)


def drop(end):
    for one in (end, other.pop(end, None)):
        if one is not None and one.fileno() >= 0:
            chosen.unregister(one)
            one.close()
        other.pop(one, None)


def accept():
    caller, _ = listener.accept()
    try:
        to = socket.create_connection(where)
    except OSError:
        caller.close()
        return
    other[caller], other[to] = to, caller
    for end in (caller, to):
        chosen.register(end, selectors.EVENT_READ)


signal.signal(signal.SIGUSR1, cut)
while True:
    for key, _ in chosen.select():
        end = key.fileobj
        if end is listener:
            accept()
        elif end in other:
            try:
                data = end.recv(65536)
                if data:
                    other[end].sendall(data)
            except OSError:
                data = b""
            if not data:
                drop(end)
