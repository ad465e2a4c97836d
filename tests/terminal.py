#!/usr/bin/env python3
"""Runs drover train on pseudo-terminals and looks at the screen as a person would: no line is wrapped,
doubled or left behind at 60, 80 and 200 columns, nor when the window is resized.
usage: terminal.py DROVER, in a folder with at_event.so"""
import codecs, fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time, unicodedata
from on_terminal import has_terminal
from story import check, drover, finish, make_data

CLEAR = "\r\033[J"
MARK = "\0"
# events.bash has made at_event.so, which stops a run once it has drawn: it has not looked at the width for another line then.
STOPS = {"LD_PRELOAD": os.path.abspath("at_event.so"), "AT_EVENT": "pause after every write /dev/pts/*",
         "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background with it ignored


def columns(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Screen:
    """Rows of a terminal without end. With `reflow` (VTE, kitty) a narrower window wraps its rows anew
    and the cursor keeps its character; without (xterm) rows are cut."""

    def __init__(self, width, reflow):
        self.width, self.reflow = width, reflow
        self.lines, self.row, self.col = [""], 0, 0
        self.wrapped = []  # lines that did not fit when they were written
        self.pending = ""

    def resize(self, width):
        self.width = width
        if not self.reflow:
            self.lines = [line[:width] for line in self.lines]
            self.col = min(self.col, width - 1)

    def feed(self, text):
        text = self.pending + text
        while text:
            if text.startswith("\033"):
                m = re.match(r"\033\[([0-9;]*)([A-Za-z])", text)
                if not m:
                    break
                assert m[1] == "" and m[2] in "JK", f"unknown command {m[0]!r}"
                self.lines[self.row] = self.lines[self.row][:self.col]
                if m[2] == "J":
                    del self.lines[self.row + 1:]
                text = text[m.end():]
                continue
            self.put(text[0])
            text = text[1:]
        self.pending = text

    def put(self, c):
        if c == "\r":
            self.col = self.col // self.width * self.width
        elif c == "\n":
            self.row, self.col = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            line = self.lines[self.row]
            self.lines[self.row] = line[:self.col] + c + line[self.col + 1:]
            self.col += 1
            if columns(self.lines[self.row]) > self.width - 1 and self.row not in self.wrapped:
                self.wrapped.append(self.row)


def drawn_in(raw):
    drawn = [s.replace("\r\n", "\n").split("\r")[0].split("\n")[-1] for s in raw.split(CLEAR)[1:]]
    return [s for s in drawn if s]


class Run:
    """A drover on a terminal. stops: it stands still after each write there, until next_write() lets it go on."""

    def __init__(self, args, width, reflow=True, env={}, stops=False):
        self.fd, self.side = pty.openpty()
        self.screen, self.raw = Screen(width or 80, reflow), ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.stops, self.stands, self.code = stops, False, None
        self.set_size(width)
        env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **(STOPS if stops else {}), **env}
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.side, termios.TIOCSCTTY, 0)
            for standard in range(3):
                os.dup2(self.side, standard)
            os.execve(drover, [drover, *args], env)
        self.end = os.pidfd_open(self.pid)

    def set_size(self, width):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    def resize(self, width):
        """Of one that stands still. It hears of the size before it does anything else."""
        self.screen.resize(width)
        self.set_size(width)

    def take(self):
        """Takes what has arrived."""
        text = self.decoder.decode(os.read(self.fd, 65536))
        self.raw += text
        self.screen.feed(text.replace(MARK, ""))

    def take_all(self):
        """Takes all that it wrote: a mark follows that."""
        while select.select([self.fd], [], [], 0)[0]:
            self.take()
        os.write(self.side, MARK.encode())
        while not self.raw.endswith(MARK):
            self.take()
        self.raw = self.raw[:-1]

    def next_write(self):
        """Lets it go on until it has written something more; false at its end."""
        if self.stands:
            os.kill(self.pid, signal.SIGCONT)
        status = os.waitpid(self.pid, os.WUNTRACED)[1]
        self.stands = os.WIFSTOPPED(status)
        self.take_all()
        if not self.stands:
            self.code = os.waitstatus_to_exitcode(status)
        return self.stands

    def wait(self, text):
        """Until it has written the text, or has ended."""
        while text not in self.raw and self.fd in select.select([self.fd, self.end], [], [])[0]:
            self.take()

    def finish(self):
        while self.stops and self.code is None and self.next_write():
            pass
        while self.code is None and self.fd in select.select([self.fd, self.end], [], [])[0]:
            self.take()
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.take_all()
        for one in (self.fd, self.side, self.end):
            os.close(one)
        return self.code

    def statuses(self):
        """The status lines drawn so far."""
        return drawn_in(self.raw)


def look_at_end(name, run, steps, every):
    lines = [line for line in run.screen.lines if line]
    logged = [line for line in lines if re.match(r"step \d+/", line)]
    want = [f"step {i}/{steps}" for i in range(every, steps + 1, every)]
    check(f"{name}: each logged step once, nothing else left", [s.split("  ")[0] for s in logged] == want, logged)
    check(f"{name}: no bars left behind", not any("▁" in line for line in logged), logged)
    check(f"{name}: no colour", "m" not in re.findall(r"\033\[[0-9;]*([a-zA-Z])", run.raw))
    check(f"{name}: a summary", any(re.match(r"done: step \d+ of \d+, .* tokens/s$", line) for line in lines), lines)
    check(f"{name}: the summary ends the screen", lines and lines[-1].startswith("curves: "), lines)
    return lines


def train(extra=()):
    return ["train", "run.yaml", "--set", f"run_dir=run{time.monotonic_ns()}",
            "--set", "training.global_batch_size=1", "--set", "training.micro_batch_size=1", *extra]


def fixed_widths():
    for width in (60, 80, 200):
        run = Run(train(), width)
        check(f"{width}: exit", run.finish() == 0, run.raw[-300:])
        look_at_end(f"{width}", run, 300, 50)
        short = [s for s in run.statuses() if s.startswith("step")]
        check(f"{width}: a status line was drawn", len(short) > 2)
        check(f"{width}: none is wider", max(map(columns, short), default=0) < width, short[-1:])
        check(f"{width}: bars where they fit", ("▁" in short[-1]) == (width == 200), short[-1:])
        check(f"{width}: step and loss always", all("loss" in s for s in short))
        too_long = [run.screen.lines[i] for i in run.screen.wrapped]
        check(f"{width}: step lines are not wrapped", not any(s.startswith("step") for s in too_long), too_long)


def resized():
    """A resize draws the same status again at the new width, before anything else: no step has to end for that."""
    for reflow in (True, False):
        name = "reflowing" if reflow else "cutting"
        run, widths, wide = Run(train(), 200, reflow, stops=True), [60, 120, 50, 200, 30, 80], []
        before = []
        while run.next_write():
            drawn, before = run.statuses()[len(before):], run.statuses()
            wide += [s for s in drawn if columns(s) >= run.screen.width]
            if drawn and widths:
                at = len(run.raw)
                run.resize(widths.pop(0))
                run.next_write()
                after = run.raw[at:]
                check(f"{name}: redrawn at once at {run.screen.width} columns",
                      after.startswith(CLEAR + drawn[-1].split("  ")[0][:12]) and "\n" not in after, (drawn, after))
        check(f"{name}: exit", run.finish() == 0, run.raw[-300:])
        check(f"{name}: every width", not widths, widths)
        check(f"{name}: none is wider", not wide, wide)
        if reflow:  # cutting loses what stood there, by the terminal
            look_at_end(name, run, 300, 50)


def no_terminal():
    def plain(name, run_env, **kw):
        out = subprocess.run([drover, *train()], env={**os.environ, **run_env}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, **kw).stdout.decode()
        check(f"{name}: plain lines", "\033" not in out and "\r" not in out, out[:200])
        steps = re.findall(r"^step \d+/300  loss .*  grad norm .* tokens/s.*  eta ", out, re.M)
        check(f"{name}: whole lines of the logged steps", len(steps) == 6, out)

    plain("no terminal", {"TERM": "xterm", "COLUMNS": "40"})
    run = Run(train(["--set", "training.steps=60"]), 80, env={"TERM": "dumb"})
    run.finish()
    check("a dumb terminal gets no commands", "\033" not in run.raw)
    run = Run(train(["--set", "training.steps=150"]), 0, env={"COLUMNS": "50"})
    run.finish()
    drawn = [columns(s) for s in run.statuses()]
    check("COLUMNS counts where the terminal has no size", drawn and max(drawn) < 50, drawn)
    run = Run(train(["--set", "training.steps=150"]), 200, env={"LC_ALL": "C"})
    run.finish()
    check("ASCII alone in the C locale", run.raw.isascii(), run.raw[-300:])


def interrupted():
    """A verb without a handler of its own, ended by Control-C while its status line stands."""
    with open("long.txt", "w") as f:
        f.write(open("text.txt").read() * 100)
    run = Run(["bench", "tokenizer", "--tokenizer", "tok", "--input", "long.txt", "--repeats", "1000"], 80)
    run.wait("of 1001:")
    os.write(run.fd, b"\x03")
    code = run.finish()
    check("Control-C ends it", code == -signal.SIGINT, code)
    check("an interrupt leaves no status line", "of 1001" not in "".join(run.screen.lines), run.screen.lines)


if not has_terminal():
    sys.exit(77)

make_data("""model: {preset: tiny, vocab_size: 300, num_hidden_layers: 2}
tokenizer: tok
data: {train: set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 300, log_every: 50, eval_every: 100, eval_batches: 2, threads: 1}
""")
fixed_widths()
resized()
no_terminal()
interrupted()
finish()
