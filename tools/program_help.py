"""Reads the verbs of drover from its own help, for the man page and the completion."""
import re, subprocess
from dataclasses import dataclass, field


@dataclass
class Verb:
    name: str                 # "data build"
    summary: str = ""
    usage: list = field(default_factory=list)
    text: str = ""            # paragraphs
    options: list = field(default_factory=list)  # (name, value or "", help)
    subverbs: list = field(default_factory=list)


def ask(program, *args):
    """What the program says; `program` is the list of words that start it."""
    return subprocess.run([*program, *args], capture_output=True, text=True, check=True).stdout


def listed(text, title):
    """[(name, summary)] of the indented lines below "title:"."""
    block = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
    return [tuple(line.split(None, 1)) for line in block[1].splitlines()] if block else []


def read_verb(program, name):
    text = ask(program, "help", *name.split())
    verb = Verb(name, summary=text.splitlines()[0].split(": ", 1)[1])
    verb.usage = [re.sub(r"\n +", " ", u) for u in re.findall(r"^(?:usage:|      ) (drover .*(?:\n {11}.*)*)$", text, re.M)]
    body = re.split(r"^(?:options|subverbs):\n", text, maxsplit=1, flags=re.M)
    verb.text = "\n\n".join(body[0].split("\n\n")[2:]).strip()
    for line in (body[1].splitlines() if len(body) > 1 and "\noptions:\n" in text else []):
        m = re.match(r"  (--[a-z-]+)(?: ([^ ]+))? +(.*)$", line)
        if m:
            verb.options.append((m[1], m[2] or "", m[3]))
        elif line.startswith("   "):  # goes on
            name, value, help = verb.options.pop()
            verb.options.append((name, value, f"{help} {line.strip()}"))
    for sub, _ in listed(text, "subverbs"):
        verb.subverbs.append(read_verb(program, f"{name} {sub}"))
    if verb.subverbs:
        verb.text = "\n\n".join(p for p in body[1].split("\n\n")[1:] if not p.startswith("drover help")).strip()
    return verb


def read_verbs(program):
    text = ask(program, "help")
    return text, [read_verb(program, name) for name, _ in listed(text, "verbs")]
