#!/usr/bin/env python3
"""Writes the man page from the program's own help. usage: make_man.py [EMULATOR] DROVER drover.1"""
import os, re, subprocess, sys
from program_help import ask, read_verbs


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def lines(text):
    """A block that reads as it prints."""
    return [".nf", escape(text), ".fi"]


def prose(text):
    """Paragraphs of full lines are filled to the terminal's width; lists and examples stay as they read."""
    out = []
    for block in text.split("\n\n"):
        full = [len(line) >= 50 and not line.startswith(" ") for line in block.splitlines()]
        filled = escape(block).replace("\nExample: ", "\n.br\nExample: ")
        out += [".PP", *([filled] if all(full[:-1]) and not block.startswith(" ") else lines(block))]
    return out


def page(verb):
    out = [f'.SS "drover {escape(verb.name)}"', escape(verb.summary[0].upper() + verb.summary[1:]) + "."]
    if not verb.subverbs:
        out += [".PP", *lines("\n".join(verb.usage))]
    if verb.text:
        out += prose(verb.text)
    for name, value, text in verb.options:
        out += [".TP", f"\\fB{escape(name)}\\fR" + (f" \\fI{escape(value)}\\fR" if value else ""), escape(text)]
    for sub in verb.subverbs:
        out += page(sub)
    return out


def choices(variable):
    """The values of a variable, as the program itself lists them when it refuses another one."""
    asked = {name: value for name, value in os.environ.items() if name not in ("DROVER_CPU", "DROVER_GEMM")} | {variable: "?"}
    said = subprocess.run([*program, "bench", "gemm", "--repeats", "1"], capture_output=True, text=True, env=asked).stderr
    listed = re.search(rf'{variable} is "\?", expected (.+)', said)
    if not listed:
        raise SystemExit(f"make_man.py: {variable}=? should be refused with a list of its values, but the program says: {said}")
    return listed[1]


program = sys.argv[1:-1]
general, verbs = read_verbs(program)
version = ask(program, "--version").split()[1]
tail = general.split("\n\n")[-1].strip()
out = [f'.TH DROVER 1 "" "drover {version}" "User Commands"', ".nh", ".ad l", ".SH NAME",
       "drover \\- " + escape(general.splitlines()[0].split(": ", 1)[1]), ".SH SYNOPSIS",
       "\\fBdrover\\fR \\fIVERB\\fR [\\fISUBVERB\\fR] ...", ".SH DESCRIPTION", *prose(tail), ".SH VERBS"]
for verb in verbs:
    out += page(verb)
out += [".SH ENVIRONMENT"]
for name, text in (
        ("HF_TOKEN", "sent to the Hugging Face hub alone, by data get, model get and model push"),
        ("HF_TOKEN_PATH", "file with the token for model push, where HF_TOKEN is not set; else token in HF_HOME"),
        ("HF_ENDPOINT", "another hub"),
        ("COLUMNS", "width where the terminal does not tell its own"),
        ("NO_COLOR", "no colours, where drover plot would use them"),
        ("DROVER_THREADS", "threads of a process, where training.threads does not say it; else OMP_NUM_THREADS, else all cores that it may use"),
        ("DROVER_CPU", f"{choices('DROVER_CPU')}: the kernels to use, by default the highest that the processor has"),
        ("DROVER_GEMM", f"{choices('DROVER_GEMM')}: the arithmetic of bf16 products"),
        ("DROVER_PEAK_FLOPS", "the peak of one rank in FLOP/s, instead of measuring it: for mfu and the times of plans"),
        ("DROVER_RETRY_STATUS", "exit status in place of 75"),
        ("DROVER_EXPECT_RANKS", "refuse another number of ranks"),
        ("DROVER_EXPECT_NODES", "refuse another number of hosts"),
        ("DROVER_NODE_RANK", "which node this is, for launch node"),
        ("DROVER_NODES", "how many nodes there are, for launch node"),
        ("DROVER_RANKS_PER_NODE", "how many ranks each has, for launch node"),
        ("DROVER_MASTER", "HOST:PORT of node 0, for launch node"),
        ("DROVER_INTERFACE", "network interface or IPv4 address by which ranks reach each other"),
        ("DROVER_JOB_SECRET_FILE", "file of mode 0600 with the same random bytes on all nodes of a job"),
        ("DROVER_JOB_ID", "name of the job, in the run's records"),
        ("DROVER_RESTART_COUNT", "how often the job was started again, in the run's records"),
        ("DROVER_PJRT_PLUGIN", "what pjrt.plugin says by default"),
        ("DROVER_PJRT_DIR", "folder of plugins, in place of ~/.cache/drover/pjrt"),
        ("DROVER_COMPILE_CACHE", "folder of compiled programs, in place of ~/.cache/drover/compiled"),
        ("DROVER_PJRT_DUMP", "folder to which the StableHLO of each program is written"),
        ("DROVER_PJRT_ATTENTION", "blocks: attention without cuDNN; mask, segments: what cuDNN is told of documents")):
    out += [".TP", f"\\fB{name}\\fR", escape(text)]
out += [".SH FILES", ".TP", "\\fIRUN_DIR/\\fR",
        escape("config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N of a run")]
open(sys.argv[-1], "w").write("\n".join(out) + "\n")
