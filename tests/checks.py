#!/usr/bin/env python3
"""Each check of `make check` passes on a small tree of sources, and refuses it with a planted fault, by a line that names the fault.
usage: checks.py"""
import pathlib, re, shutil, subprocess, sys, tempfile

tools = pathlib.Path(__file__).resolve().parent.parent / "tools"
passed = failed = 0
BODY = "    x++;\n"
GOOD_C = "// Counts things, for a test of checks.\n#include \"base/good.h\"\n\nint good_count(int n) {\n    return n + 1;\n}\n"
PATH = "| file | function |\n|---|---|\n| `src/base/good.c` | `good_count` |\n"
GOOD_H = "// Counts things, for a test of checks.\n#pragma once\n\nint good_count(int n);\n"


def small_tree(root):
    """What the checks want to see: two folders of sources, a glossary, tests with their times."""
    words = re.search(r"WITH_A_FILE = \[(.*)\]", (tools / "check_glossary.py").read_text())[1].replace('"', "").split(", ")
    files = {
        "src/base/README.md": "base\n", "src/ir/README.md": "ir\n", "src/base/good.c": GOOD_C, "src/base/good.h": GOOD_H,
        "src/base/words.h": "// Names here: " + ", ".join(words) + ".\n",
        "src/ir/program_inputs.c": "// Inputs of programs, for a test of checks.\nstatic const row rows[] = {{.name = \"tokens\"}};\n",
        "docs/glossary.md": "| word | meaning |\n|---|---|\n" + "".join(f"| {w} | a word (`src/base/words.h`) |\n" for w in words),
        "ARCHITECTURE.md": PATH, "docs/how-it-works.md": PATH,
        "tests/test_good.c": "// A test.\n", "tests/times.txt": "good 1.0\nstory 2.0\n", "tests/story.sh": "",
        "docs/what-holds.md": "| promise | test |\n|---|---|\n| good | `tests/test_good.c` |\n",
        "tests/CMakeLists.txt": "set(TIER_quick )\nset(TIER_gate story)\n", "tests/parts.ini": "[asan]\nrun = ctest -L ^gate$ -E ^story$\n",
    }
    for name, text in files.items():  # the checks are in build/, which none of them looks at
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(tools, root / "build", ignore=lambda _, names: [n for n in names if not n.startswith(("check_", "wrap_"))])
    for name in ("layers.txt", ".clang-format"):
        shutil.copy(tools.parent / name, root / name)


# (command, file, its text, or what is put behind the text that is there, and what is said of it)
FAULTS = [
    ("check_layers.py", "src/base/bad.c", "#include \"ir/graph.h\"\n", "base may not include ir"),
    ("check_layers.py", "src/base/bad.c", "#include <mpi.h>\n", "may see <mpi.h>"),
    ("check_layers.py", "src/base/bad.c", "#include <nobody.h>\n", "of a library that has no line"),
    ("check_layers.py", "src/ir/bad.c", "#include \"base/x_internal.h\"\n", "private to base"),
    ("check_layers.py", "src/attic/bad.c", "\n", "its folder has no line"),
    ("check_layers.py", "layers.txt", "+base: ir\n", "base includes itself through others"),
    ("check_layers.py", "src/base/bad.c", "int x = OP_matmul;\n", "names an op"),
    ("check_layers.py", "src/model/bad.c", "const char *x = \"tokens\";\n", "names an input of a program"),
    ("check_layers.py", "src/train/bad.c", "const char *x = \"pjrt\";\n", "names a back end"),
    ("check_sizes.py", "src/base/bad.c", "\n" * 601, "601 lines, at most 600"),
    ("check_sizes.py", "tests/test_good.c", "void f(int x) {\n" + BODY * 59 + "}\n", "function f has 61 lines, at most 60"),
    ("check_sizes.py", "src/ir/good.c", GOOD_C, "one name, several files"),
    ("check_headers.py", "src/base/bad.c", "int x;\n", "no comment that says what this file is for"),
    ("check_headers.py", "src/base/good.c", "+// What it counts.\n", "a comment that begins with \"What\""),
    ("check_headers.py", "src/attic/bad.c", "// A file of a new folder.\n", "src/attic/: no README.md"),
    ("check_names.py", "src/base/good.c", "+void f(void) {\n    int x = 0;\n" + BODY * 21 + "}\n", "int x lives for"),
    ("check_names.py", "src/base/good.h", GOOD_H.replace("int n", "int count"), "good_count"),
    ("check_initialisers.py", "src/base/good.c", "+static point x = {1, 2, 3, 4, 5};\n", "5 values without their fields' names"),
    ("check_glossary.py", "src/base/words.h", "// Nothing but that.\n", "src/base/words.h does not have the word \"at\""),
    ("check_glossary.py", "docs/glossary.md", "+| spare | a word (`src/base/none.h`) |\n", "src/base/none.h is not there"),
    ("check_glossary.py", "docs/glossary.md", "| word | meaning |\n", "\"at\" has no row with a file"),
    ("check_glossary.py", "ARCHITECTURE.md", "| `src/base/good.c` | `bad_count` |\n", "src/base/good.c has no function bad_count"),
    ("check_glossary.py", "src/base/good.c", "+int x(char *at) {\n    return *at;\n}\n", "at: expected a number"),
    ("check_pages.py", "docs/bad.md", "[a page](none.md)\n", "docs/bad.md:1: none.md leads nowhere"),
    ("check_pages.py", "docs/bad.md", "A file, src/base/none.h, and more.\n", "src/base/none.h is not there"),
    ("check_pages.py", "src/base/good.c", "+// As ADR 99 says.\n", "ADR 99 is not there"),
    ("check_pages.py", "src/base/README.md", "`no_such_name`\n", "no_such_name is no name in the code"),
    ("check_tiers.py", "tests/test_new.c", "// A test.\n", "\"new\" has no time"),
    ("check_tiers.py", "tests/times.txt", "+gone 1.0\n", "\"gone\" is in tests/times.txt or in a tier"),
    ("check_tiers.py", "tests/times.txt", "good 1000.0\nstory 2.0\n", "tier quick: its tests take 1000 s"),
    ("check_tiers.py", "tests/parts.ini", "[asan]\nrun = ctest -L ^gate$ -E ^(good|story)$\n", "part asan leaves out \"good\""),
    ("check_tiers.py", "docs/what-holds.md", "| promise | test |\n|---|---|\n| bits | none |\n", '"bits" names no test'),
    ("check_tiers.py", "docs/what-holds.md", "| promise | test |\n|---|---|\n| bits | `tests/test_good.c` (full) |\n", '"test_good" is in quick or gate'),
    ("wrap_docs.py --check", "docs/bad.md", "A word. " * 20 + "\n", "columns, expected 120"),
    ("wrap_docs.py --check", "docs/bad.md", "<<<<<<< HEAD\n", "the mark of a conflict"),
    ("check_format.sh", "src/base/good.c", "+int  x ;\n", "clang-formatted"),
]


def run(root, command):
    script, *words = command.split()
    program = [sys.executable, "-B"] if script.endswith(".py") else []
    done = subprocess.run([*program, root / "build" / script, *words], cwd=root, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check(what, good, said):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED: {what}", *("    " + line for line in said.splitlines()), sep="\n")


def plant(root, command, name, text, expected):
    path = root / name
    before = path.read_text() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text((before or "") + text[1:] if text.startswith("+") else text)
    status, said = run(root, command)
    check(f"{command}: {name}: exit {status}, expected 1 and \"{expected}\"", status != 0 and expected in said, said)
    if before is not None:
        path.write_text(before)
        return
    path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()


def commits(root):
    """The history of a repository whose first commit the check is told of."""
    def git(*words):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=root, capture_output=True, text=True,
                              check=True).stdout.strip()

    def commit(message, lines):
        (root / "text").write_text("x\n" * lines)
        git("add", "text")
        git("commit", "-qm", message)
        return run(root, "check_commits.py")

    git("init", "-q")
    commit("begin", 1)
    commit("first", 2)
    script = root / "build/check_commits.py"
    script.write_text(re.sub(r'FIRST = "\w+"', f'FIRST = "{git("rev-parse", "HEAD")}"', script.read_text()))
    for message, lines, expected in (("small", 100, "0 problems"), ("large", 202, "102 lines added, expected a body"),
                                     ("large\n\nWhy.", 400, "1 problems"), ("x" * 111, 401, "111 columns")):
        status, said = commit(message, lines)
        check(f"check_commits.py: {message[:20]!r}: exit {status}", expected in said and (status == 0) == (message == "small"), said)


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    small_tree(root)
    has_format = "not checked" not in run(root, "check_format.sh")[1]
    faults = [f for f in FAULTS if has_format or f[0] != "check_format.sh"]
    for command in dict.fromkeys(f[0] for f in faults):
        status, said = run(root, command)
        check(f"{command}: exit {status} without a fault", status == 0, said)
    for fault in faults:
        plant(root, *fault)
    if shutil.which("git"):
        commits(root)
    held = {c.split()[0] for c, *_ in FAULTS} | {"check_commits.py"}
    for script in re.findall(r"\bcheck_\w+\.\w+|wrap_docs\.py", re.search(r"^check:.*\n((?:\t.*\n)*)", (tools.parent / "Makefile").read_text(), re.M)[1]):
        check(f"no fault is planted for {script}", script in held, "")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
