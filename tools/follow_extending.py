#!/usr/bin/env python3
"""Follows docs/extending.md in a scratch copy of the tree, with the code as the page has it: adds the op, the key and the
verb, builds, and runs what the page says checks them. It fails if the page is out of date.

    python tools/follow_extending.py [BUILD_FOLDER]      (default: a temporary one; a few minutes without ccache)
    python tools/follow_extending.py --edits             only whether each place that the page names is there
"""
import pathlib, re, shutil, subprocess, sys, tempfile

root = pathlib.Path(__file__).resolve().parent.parent
work = pathlib.Path(tempfile.mkdtemp(prefix="drover-extending-"))
only_edits = sys.argv[1:] == ["--edits"]
build = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 and not only_edits else work / "build"


def copy_tree():
    for name in "CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md":
        shutil.copy2(root / name, work / name)
    for name in "src", "tests", "tools", "cmake", "docs", "examples":
        shutil.copytree(root / name, work / name)


def insert(file, anchor, text, after=False):
    """Puts text before (after) the first place in the file that reads `anchor`."""
    path = work / file
    old = path.read_text()
    if anchor not in old:
        sys.exit(f"{file} has no {anchor!r}: docs/extending.md is out of date")
    path.write_text(old.replace(anchor, anchor + text if after else text + anchor, 1))


def add_op(blocks):
    for file, block in zip(("graph", "attributes", "attributes"), blocks):  # a line that is there, and the new one after it
        old, new = block.splitlines(True)
        insert(f"src/ir/{file}.h", old, new, after=True)
    blocks = blocks[3:]
    (work / "src/ir/ops/scale.c").write_text(blocks[0])
    with open(work / "src/backend/cpu/run_rows.c", "a") as file:
        file.write("\n" + blocks[1])
    insert("src/kernels/kernels.h", "    // acc += x.\n", blocks[2])
    insert("src/kernels/ref/kernels_ref.c", "static void rope(dtype dt", blocks[3] + "\n")
    insert("src/kernels/ref/kernels_ref.c", "        .rope = rope,\n", "        .scale = scale,\n")
    insert("src/kernels/levels/elementwise.h", "INLINE void accumulate_as(", blocks[4] + "\n")
    with open(work / "src/backend/pjrt/stablehlo/lower_rows.c", "a") as file:
        file.write("\n" + blocks[5])
    insert("src/kernels/levels/level_table.h", "            .rope = rope,", "            .scale = scale, \\\n")


def add_key(blocks):
    insert("src/config/config.h", "    int64_t max_bad_steps;\n", blocks[0], after=True)
    insert("src/config/run_keys.c", '        {KEY("optimizer.lr"', blocks[1])
    insert("src/train/train.c", "    if (!made->skipped) {\n", blocks[2])


def add_verb(blocks):
    (work / "src/cli/verbs_presets.c").write_text(blocks[0])
    insert("src/cli/cli.h", "extern const verb verb_config", "extern const verb verb_presets;\n")
    insert("src/cli/main.c", "        &verb_doctor,\n", "        &verb_presets,\n", after=True)


def says(code, text, command):
    run = subprocess.run(command, shell=True, cwd=build, capture_output=True, text=True)
    out = run.stdout + run.stderr
    if run.returncode != code or text not in out:
        sys.exit(f"{command}: exit {run.returncode}, expected {code} and {text!r}\n{out[-3000:]}")
    print("ok:", command)


copy_tree()
sections = (root / "docs/extending.md").read_text().split("\n## ")[1:]
for section, add in zip(sections, (add_op, add_key, add_verb), strict=True):
    add(re.findall(r"```c\n(.*?)```", section, re.S))
if only_edits:
    shutil.rmtree(work)
    print("ok: every place that docs/extending.md names is there")
    sys.exit()
subprocess.check_call(["cmake", "-S", work, "-B", build], stdout=subprocess.DEVNULL)
subprocess.check_call(["cmake", "--build", build, "-j", "2", "--target", "drover", "test_ops", "test_graph"],
                      stdout=subprocess.DEVNULL)
says(0, "PASSED", "tests/test_ops")
says(0, "PASSED", "tests/test_graph")
says(0, "max_loss: 12.5", "./drover config --set model.preset=tiny --set training.max_loss=12.5")
says(2, 'did you mean "training.max_loss"', "./drover config --set model.preset=tiny --set training.max_los=12.5")
says(0, "`training.max_loss`", "./drover config --reference")
says(0, "llama-3.1-8b     8030261248 parameters", "./drover presets")
says(0, "list the built-in shapes", "./drover presets --help")
says(2, 'did you mean "presets"', "./drover preset")
says(0, "presets", "./drover help")
# The checks do check: a kernel that is wrong is found.
insert("src/kernels/levels/elementwise.h", "    const vec factor = v_set(alpha);", "    alpha *= 1.01f;\n")
subprocess.check_call(["cmake", "--build", build, "-j", "2", "--target", "test_ops"], stdout=subprocess.DEVNULL)
says(1, "scale, example 0, output 0, f32", "tests/test_ops")
shutil.rmtree(work)
