#!/usr/bin/env python3
"""Makes tests/golden/pairs.jsonl: records of preference pairs, and what TRL's maybe_extract_prompt makes of each: its
prompt and its two responses. Records whose prompt is a list of messages that the responses repeat are marked "twice": TRL
takes both as they are, so that its ids have the prompt two times, and drover refuses them. The test needs no Python.

    python tools/golden_pairs.py tests/golden/pairs.jsonl      (with trl, and torch, transformers and datasets, which it imports)
"""
import copy, json, pathlib, random, sys
from trl.data_utils import maybe_extract_prompt

rng = random.Random(5)
WORDS = "the quick brown fox größe 日本語 sees no lazy dog".split(" ")


def say(role):
    return dict(role=role, content=" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6))))


def prompt():
    turns = [say("system")] if rng.random() < .4 else []
    for _ in range(rng.randrange(3)):
        turns += [say("user"), say("assistant")]
    return turns + [say("user")]


def response(first):
    return [dict(role="assistant", content=first + say("")["content"])] + ([say("user"), say("assistant")] if rng.random() < .3 else [])


def record(kind):
    """A record, and whether a response repeats messages of its prompt."""
    asked, good, bad = prompt(), response("yes "), response("no ")
    whole = dict(chosen=asked + good, rejected=asked + bad)
    if kind == "implicit":
        return whole, False
    if kind == "explicit":
        return dict(prompt=asked, chosen=good, rejected=bad), False
    if kind == "text beside whole":
        return dict(prompt=asked[-1]["content"], **whole), False
    if kind == "list beside whole":
        return dict(prompt=asked, **whole), True
    if kind == "list beside one whole":
        return dict(prompt=asked, chosen=good, rejected=asked + bad), True
    if kind == "list beside its last":
        return dict(prompt=asked, chosen=asked[-1:] + good, rejected=asked[-1:] + bad), True
    assert kind == "list beside other system"
    users = [x for x in asked if x["role"] != "system"]
    other = [say("system")]
    return dict(prompt=users, chosen=other + users + good, rejected=other + users + bad), True


def main(out):
    kinds = ["implicit", "explicit", "text beside whole", "list beside whole", "list beside one whole", "list beside its last",
             "list beside other system"]
    lines = []
    for i in range(28):
        made, twice = record(kinds[i % len(kinds)])
        got = maybe_extract_prompt(copy.deepcopy(made))
        want = dict(twice=True) if twice else {k: got[k] for k in ("prompt", "chosen", "rejected")}
        if twice:  # what makes it one: TRL has the last message of the prompt again before the first response
            texts = [x for side in ("chosen", "rejected") for x in got[side] if x == got["prompt"][-1]]
            assert texts, made
        lines.append(json.dumps(dict(record=made, **want), ensure_ascii=False) + "\n")
    out.write_text("".join(lines))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
