#!/usr/bin/env python3
"""Who should not be at the port of `drover launch node`, for tests/launch_intruders.sh; AT and TO are ADDRESS:PORT:

    intruder.py silent AT N          N connections that say nothing, held until this process ends
    intruder.py drip AT N            N that say a byte every 0.2 s, also when they are dropped: others come
    intruder.py flood AT             connections as fast as they come, some with a wrong proof, until this process ends
    intruder.py relay AT TO FILE     listens, passes one connection on to TO, and keeps what the caller says in FILE
    intruder.py replay AT FILE       says that again; exit 0: all that comes back is a challenge
    intruder.py pretend AT FILE      listens, and answers as node 0 without the secret would
    intruder.py known AT SECRET      who knows the secret and speaks out of turn; exit 0: each was turned away

Those that stay print "there" once they are, and those that listen the port behind it; at port 0 they take one that is free.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys
import time

HELLO, WELCOME, REFUSED, COMMAND, RESULT, LEAVE, END, BEAT = range(1, 9)


def place(text):
    address, port = text.split(":")
    return address, int(port)


def call(at):
    return socket.create_connection(place(at), timeout=30)


def listen(at):
    listener = socket.create_server(place(at))
    print("there", listener.getsockname()[1], flush=True)
    return listener


def exactly(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def until_closed(s):
    got = b""
    try:
        while part := s.recv(4096):
            got += part
    except ConnectionResetError:
        pass
    return got


def silent(at, n):
    held = [call(at) for _ in range(int(n))]
    print("there", flush=True)
    time.sleep(600)
    return len(held)


def drip(at, n):
    held = [call(at) for _ in range(int(n))]
    print("there", flush=True)
    while True:
        for i, s in enumerate(held):
            try:
                s.send(b"x")
            except OSError:
                held[i] = call(at)
        time.sleep(0.2)


def flood(at):
    print("there", flush=True)
    held = []
    while True:
        s = call(at)
        if len(held) % 2:
            s.send(os.urandom(48))
        held.append(s)
        if len(held) > 300:
            held.pop(0).close()


def relay(at, to, path):
    listener = listen(at)
    caller = listener.accept()[0]
    listener.close()
    node_0 = call(to)
    said = b""
    caller.settimeout(0.02)
    node_0.settimeout(0.02)
    while True:
        for a, b in ((caller, node_0), (node_0, caller)):
            try:
                part = a.recv(65536)
            except TimeoutError:
                continue
            except ConnectionResetError:
                return
            if not part:
                return
            b.sendall(part)
            if a is caller:
                said += part
                with open(path, "wb") as file:
                    file.write(said)


def replay(at, path):
    with open(path, "rb") as file:
        said = file.read()
    s = call(at)
    s.sendall(said)
    got = until_closed(s)
    sys.exit(f"{len(said)} bytes again, {len(got)} came back" if len(said) < 100 or len(got) != 16 else 0)


def pretend(at, path):
    """Asks for a proof, and gives that proof back: a mirror. Keeps whatever a caller says beyond its proof."""
    listener = listen(at)
    while True:
        caller = listener.accept()[0]
        try:
            caller.sendall(os.urandom(16))
            caller.sendall(exactly(caller, 48)[16:])
            more = until_closed(caller)
        except (EOFError, OSError):
            more = b""
        with open(path, "ab") as file:
            file.write(more)


class Line:
    """A connection that has proven the secret."""

    def __init__(self, at, path):
        with open(path, "rb") as file:
            secret = hmac.new(b"drover job secret", file.read(), hashlib.sha256).digest()
        self.s = call(at)
        theirs, mine = exactly(self.s, 16), os.urandom(16)

        def derive(use):
            text = use.ljust(16, b"\0") + b"drover launch node".ljust(64, b"\0") + theirs + mine
            return hmac.new(secret, text, hashlib.sha256).digest()

        self.s.sendall(mine + derive(b"caller"))
        if exactly(self.s, 32) != derive(b"listener"):
            raise ValueError("node 0 has not proven the secret")
        self.key, self.n = derive(b"session"), 0

    def frame(self, kind, fields, number=None, length=None):
        text = b"".join(f.encode() + b"\0" for f in fields)
        head = struct.pack("<II", kind, len(text) if length is None else length)
        number = self.n if number is None else number
        self.n += 1
        code = hmac.new(self.key, b"c" + struct.pack("<Q", number) + head + text, hashlib.sha256).digest()
        return head + text + code

    def say(self, *frames):
        for frame in frames:
            self.s.sendall(frame)
        return self

    def kinds(self):
        """Of the messages that come until node 0 hangs up."""
        got, kinds = until_closed(self.s), []
        while len(got) >= 8:
            kind, n = struct.unpack("<II", got[:8])
            if kind != BEAT:
                kinds.append(kind)
            got = got[8 + n + 32:]
        return kinds


def known(at, path):
    version = os.environ["VERSION"]

    def hello(node=1, **but):
        fields = {"version": version, "node": str(node), "nodes": "3", "ranks": "1", "host": "h", "process": "7", **but}
        return list(fields.values())

    cases = {
        "no hello": ([(RESULT, ["1 0 1"], {})], [REFUSED]),
        "a hello of four words": ([(HELLO, hello()[:4], {})], [REFUSED]),
        "another version": ([(HELLO, hello(version="0.0.1"), {})], [REFUSED]),
        "node 0": ([(HELLO, hello(0), {})], [REFUSED]),
        "node 3 of 3": ([(HELLO, hello(3), {})], [REFUSED]),
        "node -1": ([(HELLO, hello(-1), {})], [REFUSED]),
        "node 4294967297": ([(HELLO, hello(4294967297), {})], [REFUSED]),
        "four nodes": ([(HELLO, hello(nodes="4"), {})], [REFUSED]),
        "a kind that is none": ([(99, [], {})], []),
        "kind 0": ([(0, [], {})], []),
        "more than a message may have": ([(HELLO, [], {"length": 1 << 20 | 1})], []),
        "all of 32 bits": ([(HELLO, [], {"length": 0xffffffff})], []),
        "a hello with the next number": ([(HELLO, hello(), {"number": 1})], []),
        "a result before there was a command": ([(HELLO, hello(), {}), (RESULT, ["1 0 1"], {})], [WELCOME]),
        "hello twice": ([(HELLO, hello(), {}), (HELLO, hello(), {})], [WELCOME]),
        "the same number twice": ([(HELLO, hello(), {}), (BEAT, [], {"number": 0})], [WELCOME]),
        "a command to node 0": ([(HELLO, hello(), {}), (COMMAND, ["0", "/bin/sh", "-c", "id"], {})], [WELCOME]),
    }
    wrong = 0
    for name, (says, expected) in cases.items():
        line = Line(at, path)
        for kind, fields, how in says:
            line.say(line.frame(kind, fields, **how))
        got = line.kinds()
        if got != expected:
            print(f"{name}: {got}, expected {expected}")
            wrong += 1
    sys.exit(wrong)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
