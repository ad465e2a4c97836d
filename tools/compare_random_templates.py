#!/usr/bin/env python3
"""Draws random chat templates (expressions of strings, numbers, lists and mappings with their filters, methods and tests, loops, macros,
namespaces, blocks, {% generation %}, white space control; the idioms of the templates of 2025) and compares what drover and transformers render of one conversation. A template may fail
in both; one that transformers renders may be refused by drover by name ("is not supported"), and one that fails there by a TypeError may
be rendered here. Prints differences; exit 1 if there is one.

    python tools/compare_random_templates.py build/drover [--n 500] [--seed 1]
"""
import argparse, json, pathlib, random, subprocess, sys, tempfile

from transformers.utils.chat_template_utils import _compile_jinja_template

MESSAGES = [dict(role="system", content=" Be\nbrief. "), dict(role="user", content="Hé <b>\"it's\"</b> ß ǆ 日本 \U0001f600", n=3, parts=[dict(type="text", text="a"), dict(type="image")]),
            dict(role="assistant", content="x\r\ny\tz", calls=[dict(name="f", arguments=dict(b=[1, 2.5, True], a="é"))])]
STRINGS = ["''", "'a'", "'Ab c'", "'  x y '", "'a,b,,c'", "'aXbXc'", "'é ß ǆ Σ'", "'<b>&'", "'10'", "' 3.5 '", "'日本'", "'x\\n y\\n'", "'-1_0'", "m.content", "m['role']", "messages[0]['content']"]
NUMBERS = ["0", "1", "-1", "2", "7", "3.5", "-0.5", "10 ** 3", "true", "messages | length", "2.0"]
LISTS = ["[]", "[1, 2, 3]", "['b', 'a', 'B']", "[3, 1, 2, 1]", "('x', 'y')", "messages", "m.get('parts', [])", "'a b c'.split()", "[[1, 'x'], [2, 'y']]", "range(4)", "[true, none, 1.0]"]
DICTS = ["{}", "{'a': 1}", "{'b': 2, 'a': 'x', 'C': none}", "m", "messages[2].calls[0]", "dict(z=1, y=[2])"]
# Expressions of the templates of Llama 4, Qwen3, gpt-oss, DeepSeek-V3.1, Mistral Small 3, SmolLM3, Gemma 3, Phi-4, GLM-4.5, Kimi-K2.
IDIOMS = ["messages[-1].role", "messages[:-1]", "messages[1:]", "messages[::-1]", "loop is defined", "m.calls is defined and m.calls", "m.get('n', 0)", "m.calls[0].arguments | tojson(ensure_ascii=False)",
          "m.content.split('x')[-1].lstrip('\\n')", "m.content.split('b')[0].rstrip('\\n').split('e')[-1]", "(m.calls or [])[0:1]", "m.content | trim | length", "m['content'] if m['content'] is string else ''",
          "strftime_now('%Y') | length", "strftime_now('%d %b %Y') is string", "messages | map(attribute='role') | join(', ')", "messages | selectattr('role', 'equalto', 'user') | list | length",
          "(messages | selectattr('calls', 'defined') | first).role", "m.calls | map(attribute='name') | join('|')", "(m.parts or []) | map(attribute='type') | list", "m is mapping and 'calls' in m",
          "m.content is iterable and m.content is not string", "m.parts is sequence and m.parts is not mapping", "m.calls[0].arguments.items() | list", "m.calls[0].arguments | items | list", "m.content[:3]", "m.content[-1:]",
          "m.content[::-1]", "messages[-2:][::-1] | length", "not m.calls", "m.n is defined and m.n is not none and m.n is number", "1 < (messages | length) <= 3", "m.role in ['user', 'tool'] and not loop", "m.missing.x is defined",
          "m.nope | default('d', true)", "(m.nope or {}).get('a')", "m | length", "m | items | first | last", "'%s' | format(m.role)", "messages | last | tojson", "m.content | replace('\\n', ' ') | upper", "m == messages[0]",
          "raise_exception('no') if m.role == 'zz' else 'ok'", "m.role is in ['system', 'user']", "m.role is eq('user') or m.role is ne('x')", "none is sameas none", "m.n is defined if m.n else 1", "m.role is string in [true]",
          "tools is none", "tools | length if tools else 0", "documents is not defined or not documents", "add_generation_prompt is defined and add_generation_prompt", "bos_token ~ eos_token", "{'a': {'b': [1, {'c': none}]}} | tojson(indent=2)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false"]


class Maker:
    def __init__(self, rng):
        self.rng, self.names = rng, 0

    def pick(self, *choices):
        return self.rng.choice(choices)

    def string(self, d):
        if d <= 0 or self.rng.random() < .25:
            return self.rng.choice(STRINGS)
        s, n, items = (lambda: self.string(d - 1)), (lambda: self.number(d - 1)), (lambda: self.list(d - 1))
        return self.pick(
            lambda: f"({s()} + {s()})", lambda: f"({s()} ~ {self.any(d - 1)})", lambda: f"({s()} | {self.pick('upper', 'lower', 'title', 'capitalize', 'trim', 'string')})",
            lambda: f"{s()}.{self.pick('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip')}()", lambda: f"{s()}.{self.pick('strip', 'lstrip', 'rstrip')}({s()})",
            lambda: f"{s()}.replace({s()}, {s()}{self.pick('', ', 1', ', 2', ', 0')})", lambda: f"({s()} | replace({s()}, {s()}{self.pick('', ', 1')}))", lambda: f"({s()} | trim({s()}))",
            lambda: f"{s()}[{self.pick('', '1', '-2', '0')}:{self.pick('', '3', '-1')}{self.pick('', ':2', ':-1')}]", lambda: f"{s()}.{self.pick('removeprefix', 'removesuffix')}({s()})",
            lambda: f"({self.any(d - 1)} | tojson{self.pick('', '(indent=2)', '(ensure_ascii=true)', '(separators=(chr, chr))'.replace('chr', repr(';')), '(sort_keys=true)')})",
            lambda: f"({items()} | join({s()}))", lambda: f"({s()}.join({items()} | map('string')))", lambda: f"({self.any(d - 1)} | string)", lambda: f"('%s|%5s|%-4s|' % ({s()}, {s()}, {s()}))",
            lambda: f"('%d %05d %.2f' % ({n()}, {n()}, {n()}))", lambda: f"'<{{}}{{}}>'.format({s()}, {n()})", lambda: f"({s()} | indent({self.pick('2', '4, true', '1, false, true', 'width=3')}))",
            lambda: f"({s()} if {self.any(d - 1)} else {s()})", lambda: f"({s()} * {self.pick('0', '2', '3')})", lambda: f"({self.any(d - 1)} | default({s()}{self.pick('', ', true')}))", lambda: f"({s()} | reverse)",
            lambda: f"({items()} | {self.pick('first', 'last')} | string)")()

    def number(self, d):
        if d <= 0 or self.rng.random() < .3:
            return self.rng.choice(NUMBERS)
        s, n = (lambda: self.string(d - 1)), (lambda: self.number(d - 1))
        return self.pick(
            lambda: f"({n()} {self.pick('+', '-', '*', '/', '//', '%')} {n()})", lambda: f"(-{n()})", lambda: f"({s()} | length)", lambda: f"({self.list(d - 1)} | {self.pick('length', 'count')})", lambda: f"({s()} | int)",
            lambda: f"({s()} | float)", lambda: f"({n()} | {self.pick('int', 'float')})", lambda: f"{s()}.{self.pick('find', 'count', 'rfind')}({s()})", lambda: f"({s()} | int({n()}, {self.pick('10', '16', '2')}))")()

    def list(self, d):
        if d <= 0 or self.rng.random() < .3:
            return self.rng.choice(LISTS)
        s, items = (lambda: self.string(d - 1)), (lambda: self.list(d - 1))
        return self.pick(
            lambda: f"({items()} | {self.pick('list', 'sort', 'unique | list', 'reverse | list', 'sort(reverse=true)')})", lambda: f"{s()}.split({self.pick('', repr(','), repr('X'), repr(' '), 'none, 1', repr('X') + ', 1')})", lambda: f"{s()}.rsplit({self.pick('', repr(','), 'none, 1', repr('b') + ', 1')})",
            lambda: f"{s()}.splitlines({self.pick('', 'true')})", lambda: f"({items()} | map('{self.pick('upper', 'string', 'length', 'trim')}') | list)", lambda: f"({items()} | {self.pick('select', 'reject')}({self.pick('', repr('string'), repr('number'), repr('odd'), repr('in') + ', [1, 2]')}) | list)",
            lambda: f"(messages | {self.pick('selectattr', 'rejectattr')}('{self.pick('role', 'calls', 'n')}', {self.pick(repr('defined'), repr('equalto') + ', ' + repr('user'))}) | list)", lambda: f"(messages | map(attribute='{self.pick('role', 'content', 'n')}'{self.pick('', ', default=0')}) | list)",
            lambda: f"{items()}[{self.pick('', '1', '-2')}:{self.pick('', '2', '-1')}{self.pick('', ':-1')}]", lambda: f"({self.dict(d - 1)} | {self.pick('list', 'items | list', 'dictsort', 'dictsort(by=' + repr('value') + ')')})", lambda: f"({self.dict(d - 1)}.{self.pick('items', 'keys', 'values')}() | list)", lambda: f"[{s()}, {self.any(d - 1)}]", lambda: f"({s()} | list)",
            lambda: f"(messages | sort(attribute='{self.pick('role', 'content')}') | map(attribute='role') | list)")()

    def dict(self, d):
        return self.rng.choice(DICTS) if d <= 0 or self.rng.random() < .7 else f"{{{self.string(d - 1)}: {self.any(d - 1)}, 'k': {self.any(d - 1)}}}"

    def truth(self, d):
        x = lambda: self.any(d - 1)
        return self.pick(
            lambda: f"({x()} is {self.pick('', 'not ')}{self.rng.choice(TESTS)})", lambda: f"({self.number(d - 1)} {self.pick('<', '>', '<=', '>=', '==', '!=')} {self.number(d - 1)})", lambda: f"({self.string(d - 1)} {self.pick('<', '==', '!=', 'in', 'not in')} {self.string(d - 1)})", lambda: f"({x()} {self.pick('==', '!=')} {x()})",
            lambda: f"({x()} {self.pick('and', 'or')} {x()})", lambda: f"(not {x()})", lambda: f"({x()} in {self.list(d - 1)})", lambda: f"{self.string(d - 1)}.{self.pick('startswith', 'endswith')}({self.string(d - 1)})", lambda: f"{self.string(d - 1)}.{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace')}()", lambda: f"({self.number(d - 1)} is {self.pick('odd', 'even', 'eq 1', 'lt(2)', 'ge 1')})",
            lambda: f"('{self.pick('a', 'role', 'k')}' in {self.dict(d - 1)})", lambda: "missing is defined", lambda: "(m.missing is not none)")()

    def any(self, d):
        if self.rng.random() < .2:
            return f"({self.rng.choice(IDIOMS)})"
        return self.pick(self.string, self.string, self.number, self.list, self.dict, self.truth)(d)

    def dash(self):
        return self.pick("", "", "-")

    def tag(self, text):
        return "{%" + self.pick("", "", "-", "+") + " " + text + " " + self.dash() + "%}"

    def statements(self, d, n):
        return "".join(self.statement(d) for _ in range(n))

    def statement(self, d):
        gap = self.pick("", "", " ", "\n", "\n  ", "t\n", "  u ")
        body = lambda: self.statements(d - 1, self.rng.randrange(1, 3)) if d > 0 else "b"
        self.names += 1
        v = f"v{self.names}"
        x = self.rng.random()
        if d <= 0 or x < .55:
            return gap + "{{" + self.dash() + " " + self.any(2) + " " + self.dash() + "}}" + self.pick("", "\n", " ")
        return gap + self.pick(
            lambda: self.tag(f"if {self.truth(2)}") + body() + self.pick("", self.tag(f"elif {self.truth(1)}") + body(), self.tag("else") + body()) + self.tag("endif"),
            lambda: self.tag(f"for {v} in {self.list(2)}{self.pick('', '', f' if {v} is string', f' if {v}')}") + gap + "{{ " + self.pick(v, "loop.index", "loop.last", "loop.first ~ loop.revindex", f"{v} | string | upper", "loop.nextitem is defined") + " }}" + self.pick("", body(), self.tag("if loop.index > 1") + self.tag("break") + self.tag("endif")) + self.pick("", self.tag("else") + body()) + self.tag("endfor"),
            lambda: self.tag(f"set {v} = {self.any(2)}") + "[{{ " + v + " }}]", lambda: self.tag(f"set {v}{self.pick('', ' | upper', ' | trim')}") + body() + self.tag("endset") + "[{{ " + v + " }}]",
            lambda: self.tag(f"set ns{v} = namespace(a={self.any(1)})") + self.tag(f"for i in range({self.pick('0', '2', '3')})") + self.tag(f"set ns{v}.a = {self.any(1)}") + self.tag("endfor") + "{{ ns" + v + ".a }}",
            lambda: self.tag(f"macro f{v}(a, b={self.any(1)})") + "<{{ a }}{{ b | string }}>" + body() + self.tag("endmacro") + "{{ f" + v + f"({self.any(1)}{self.pick('', ', b=1')}) }}}}",
            lambda: self.tag(f"for k, {v} in {self.dict(1)}.items()") + "{{ k }}={{ " + v + " }};" + self.tag("endfor"), lambda: "{#" + self.dash() + " note " + self.dash() + "#}", lambda: self.tag("raw") + "{{ x }} " + self.tag("endraw").replace("+ ", " "),
            lambda: self.tag("generation") + body() + self.tag("endgeneration"),
            lambda: self.tag(f"for {v} in messages{self.pick('', '[1:]', '[::-1]')}{self.pick('', f' if {v}.role != ' + repr('user'))}") + self.tag("if " + self.pick("loop.previtem is defined and loop.previtem.role == 'user'", "loop.nextitem and not loop.last", "loop.index0 % 2 == 0", f"{v}.calls is defined")) + "{{ " + self.pick(f"{v}.role", "loop.previtem.role", f"{v}.content | trim", "loop.length - loop.index") + " }}" + self.pick("", self.tag("continue")) + self.tag("endif") + body() + self.tag("endfor"),
            lambda: self.tag(f"set {v}, w{v} = {self.any(1)}, {self.any(1)}") + "{{ " + v + " }}/{{ w" + v + " }}", lambda: self.tag(f"set ns{v} = namespace({{'a': {self.any(1)}}}, b={self.any(1)})") + self.tag(f"set ns{v}.b = ns{v}.a") + "{{ ns" + v + ".b }}{{ ns" + v + ".c is defined }}",
            lambda: self.tag(f"macro f{v}(x, depth=0, *, end='')".replace(", *", "")) + self.tag("if x is mapping") + self.tag("for k, w in x | dictsort") + "{{ k }}:{{ f" + v + "(w, depth + 1) }};" + self.tag("endfor") + self.tag("elif x is iterable and x is not string and depth < 3") + self.tag("for w in x") + "{{ f" + v + "(w, depth=depth + 1, end=',') }}" + self.tag("endfor") + self.tag("else") + "{{ x }}{{ end }}" + self.tag("endif") + self.tag("endmacro") + "{{ f" + v + f"({self.any(1)}) }}}}",
            lambda: self.tag("filter " + self.pick("upper", "trim", "indent(2)")) + body() + self.tag("endfilter"))()


def theirs(template):
    try:
        return _compile_jinja_template(template).render(messages=MESSAGES, tools=None, documents=None, add_generation_prompt=False, bos_token="<s>", eos_token="</s>")
    except Exception as e:
        return e


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("--n", type=int, default=500)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    bad = failed = refused = lenient = 0
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        (folder / "m.json").write_text(json.dumps(MESSAGES))
        for seed in range(a.seed, a.seed + a.n):
            rng = random.Random(seed)
            maker = Maker(rng)
            template = "{% set m = messages[" + str(rng.randrange(3)) + "] %}" + maker.statements(2, rng.randrange(1, 4))
            want = theirs(template)
            (folder / "t.jinja").write_bytes(template.encode())
            run = subprocess.run([a.drover, "chat", "--template", folder / "t.jinja", "--messages", folder / "m.json", "--print", "--bos", "<s>", "--eos", "</s>"], capture_output=True, timeout=60)
            got, err = run.stdout.decode(), run.stderr.decode().strip()
            failed += isinstance(want, Exception)
            if run.returncode and not isinstance(want, Exception) and any(x in err for x in ("not supported", "a generator is printed", 'expected "]", found ","')):
                refused += 1
            elif isinstance(want, TypeError) and run.returncode == 0:
                lenient += 1
            elif isinstance(want, Exception) != (run.returncode != 0) or (run.returncode == 0 and want != got):
                bad += 1
                print(f"--seed {seed}\n  template {template!r}\n  theirs   {want!r}\n  ours     {(err if run.returncode else got)!r}", flush=True)
    print(f"{a.n} templates: {failed} fail in both, {refused} refused by name, {lenient} fail in transformers by a type, {bad} differences")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
