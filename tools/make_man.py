#!/usr/bin/env python3
"""Writes the man page from the program's own help. usage: make_man.py [EMULATOR] DROVER drover.1"""
import re, sys
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
for name, text in (("HF_TOKEN", "sent to the Hugging Face hub alone, by data get and model get"),
                   ("HF_ENDPOINT", "another hub"), ("COLUMNS", "width where the terminal does not tell its own"),
                   ("NO_COLOR", "no colours, where drover plot would use them"),
                   ("DROVER_CPU", "ref, plain, avx2, avx512 or avx512_bf16: the kernels to use"),
                   ("DROVER_GEMM", "fp32, bf16, amx or amx_twin: the arithmetic of bf16 products")):
    out += [".TP", f"\\fB{name}\\fR", escape(text)]
out += [".SH FILES", ".TP", "\\fIRUN_DIR/\\fR",
        escape("config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N of a run")]
open(sys.argv[-1], "w").write("\n".join(out) + "\n")
