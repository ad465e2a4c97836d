#!/usr/bin/env python3
"""Writes tests/golden/chat/random.jsonl: random templates and what transformers makes of them.
Needs transformers and jinja2: tools/make_chat_golden.py SEED COUNT > tests/golden/chat/random.jsonl
A record: template, messages, add_generation_prompt, and expected (the text) or error (true: no text may come out)."""
import json, random, signal, sys

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

MESSAGES = [{"role": "system", "content": "You are."}, {"role": "user", "content": "Hi <there>"},
            {"role": "assistant", "content": "Ok\nyes \u00fcn\u00ef"}]
BEFORE = ("{% set ns = namespace(a=1) %}{% set lst = [3,1,2] %}{% set d = {'k': 'v', 'k2': [1,2], 'z': none} %}"
          "{% set x = 5 %}{% set s = 'str' %}{% set t = 'T t' %}")
STRINGS = ["''", "'a'", "'Hello World'", "'  pad  '", "'x,y,,z'", "'\u00c4\u00d6\u00df stra\u00dfe'", "'\u65e5\u672c text'",
           "'one\\ntwo\\r\\nthree'", "'it\\'s'", "'<b>&\"'", "'123'", "'-4.5e3'", "'aXbXc'", "'foo bar  baz'", "'\\t tab'"]
NUMBERS = ["0", "1", "-3", "7", "2.5", "1e20", "0.1", "1e-7", "100", "-0.0", "3.0"]
NAMES = ["messages", "messages[0]", "messages[0].content", "messages[1]['role']", "messages[-1].content", "x", "missing",
         "ns.a", "lst", "d", "d.k", "d['k2']", "d.nope", "bos_token", "tools", "messages|length", "s", "t"]
FILTERS = """trim upper lower title capitalize length first last list string int float tojson tojson(indent=2) sort
join(',') join default('D') d('E',true) replace('a','b') replace('','-') items|list dictsort
indent indent(2,true) escape map('upper')|list map(attribute='role')|list select|list reject('none')|list
selectattr('role','equalto','user')|list selectattr('role')|map(attribute='content')|list rejectattr('content')|list
count safe tojson(sort_keys=true) map('int')|list sort(reverse=true) select('string')|list trim('x') reverse|list
tojson(separators=(',',':'))""".split()
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "odd", "even",
         "true", "false", "equalto 3", "eq('a')", "in [1,'a']", "ne 1", "gt 2"]
METHODS = """strip() upper() lower() split() split(',') split(',',1) rsplit('\x20',1) startswith('a') endswith(('x','d')) replace('a','Q')
title() capitalize() lstrip('aH') rstrip('d') find('o') rfind('o') count('a') splitlines() isdigit() isalpha() join(['a','b'])
removeprefix('He') removesuffix('ld') get('k') get('zz','def') items()|list keys()|list values()|list nope append(1)
isspace()""".split("\n")
METHODS = [m for line in METHODS for m in line.split(" ") if m]
PARTS = ["[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "['k']", "[1:3]", "[::2]", "[-3:-1]", "[10]", "['role']", ".role", ".content"]

rnd = random.Random(int(sys.argv[1]))


def pick(*lists):
    return rnd.choice([x for some in lists for x in some])


def atom(depth):
    kind = rnd.random()
    if kind < .7:
        return pick(STRINGS, NUMBERS, NAMES)
    if kind < .8:
        return pick(["true", "false", "none", "True", "None"])
    if kind < .9:
        return "[" + ", ".join(expression(depth - 1) for _ in range(rnd.randint(0, 3))) + "]"
    return "(" + expression(depth - 1) + ")"


def expression(depth):
    if depth <= 0:
        return pick(STRINGS, NUMBERS, NAMES)
    kind = rnd.random()
    if kind < .2:
        return atom(depth)
    if kind < .42:
        return atom(depth) + "|" + pick(FILTERS)
    if kind < .54:
        return "(" + atom(depth) + ")." + pick(METHODS)
    if kind < .62:
        return "(" + atom(depth) + ")" + pick(PARTS)
    if kind < .7:
        return atom(depth) + " is " + pick(["", "not "]) + pick(TESTS)
    if kind < .82:
        return expression(depth - 1) + " " + pick("+ - * / // % ~ ~ **".split()) + " " + atom(depth)
    if kind < .9:
        return expression(depth - 1) + " " + pick(["==", "!=", "<", ">", "<=", ">=", "in", "not in"]) + " " + atom(depth)
    if kind < .95:
        return expression(depth - 1) + " " + pick(["and", "or"]) + " " + expression(depth - 1)
    return expression(depth - 1) + " if " + expression(depth - 1) + " else " + expression(depth - 1)


def tag(inside, printed=False):
    signs = ["", "", "-"] if printed else ["", "", "-", "+"]
    return ("{{" if printed else "{%") + pick(signs) + f" {inside} " + pick(signs) + ("}}" if printed else "%}")


def text():
    return pick(["a", "\n", " \n ", "  x\n", "\n\n", "", "[", "]", "  ", "end\n  "])


def loop(depth):
    over = pick(["m in messages", "c in 'abc'", "i in range(3)", "k, v in d.items()", "y in lst", "m in messages if m.role == 'user'"])
    shown = pick(["loop.index", "loop.first", "loop.last", "loop.length", "loop.previtem", "m.content",
                  "y", "loop.revindex0"])
    inside = pick(["", tag("set x = " + expression(1)), tag("set ns.a = " + expression(1)),
                   tag("if loop.index == 2") + tag(pick(["break", "continue"])) + tag("endif")])
    return tag("for " + over) + text() + tag(shown, True) + inside + body(depth - 1) + pick(["", tag("else") + text()]) + tag("endfor")


def statement(depth):
    kind = rnd.random()
    if kind < .3:
        other = pick(["", tag("else") + body(depth - 1), tag("elif " + expression(1)) + body(depth - 1)])
        return tag("if " + expression(2)) + body(depth - 1) + other + tag("endif")
    if kind < .6:
        return loop(depth)
    if kind < .75:
        return tag("set " + pick(["x", "s", "t", "ns.a", "x, s"]) + " = " + expression(2))
    if kind < .82:
        return tag("set t") + body(depth - 1) + tag("endset")
    if kind < .9:
        call = "f(" + expression(1) + pick([")", ", b=" + expression(1) + ")"])
        return tag("macro f(a, b=2)") + tag("a ~ '|' ~ b", True) + body(0) + tag("endmacro") + tag(call, True)
    if kind < .95:
        return tag("filter upper") + body(0) + tag("endfilter")
    return "{#" + pick(["", "-"]) + " c " + pick(["", "-"]) + "#}"


def body(depth):
    parts = [text() + (tag(expression(2), True) if depth <= 0 or rnd.random() < .55 else statement(depth)) for _ in range(rnd.randint(1, 4))]
    return "".join(parts) + text()


tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), bos_token="<s>",
                                    eos_token="</s>")
written = 0
while written < int(sys.argv[2]):
    record = {"template": BEFORE + body(2), "messages": MESSAGES, "add_generation_prompt": rnd.random() < .5}
    signal.alarm(5)
    try:
        record["expected"] = tokenizer.apply_chat_template(MESSAGES, chat_template=record["template"], tokenize=False,
                                                           add_generation_prompt=record["add_generation_prompt"])
        if " at 0x" in record["expected"]:
            continue
    except Exception as e:
        # Half of the failures are Python's own strictness about types, where printing nothing would do as well.
        if type(e).__name__ not in ("UndefinedError", "ZeroDivisionError", "SecurityError"):
            continue
        record["error"] = True
    signal.alarm(0)
    print(json.dumps(record))
    written += 1
