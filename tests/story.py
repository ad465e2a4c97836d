"""What tests in Python share, as story.bash does for those of the shell: counts of checks, and a small data set."""
import os, subprocess, sys

drover = os.path.realpath(sys.argv[1])
passed = failed = 0


def check(text, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED: {text}", *([f"    {detail if isinstance(detail, str) else repr(detail)}"] if detail != "" else []), sep="\n")


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


def make_data(config):
    """A tokenizer in tok/ (300 tokens), a data set in set and `config` in run.yaml."""
    with open("text.txt", "w") as f:
        f.writelines(f"Document {i} tells of the fox, the dog and {i * i % 97} lazy hens.\n" for i in range(2000))
    for words in (["tokenizer", "train", "--vocab-size", "300", "--out", "tok"],
                  ["data", "build", "--separator", "\n", "--tokenizer", "tok", "--out", "set", "--append-eod"]):
        subprocess.run([drover, *words, "--input", "text.txt"], stderr=subprocess.DEVNULL, check=True)
    with open("run.yaml", "w") as f:
        f.write(config)
