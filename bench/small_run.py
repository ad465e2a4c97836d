"""A small run for the drivers of this folder: its data, its config, the environment of its ranks, and reading its files."""
import atexit, json, os, signal, subprocess, sys

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DROVER_THREADS": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "DROVER_PEAK_FLOPS": "1e11"}


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a driver that is ended ends what it has started


def start(*words, **more):
    """A process that does not outlive the driver."""
    process = subprocess.Popen(*words, **more)
    atexit.register(process.terminate)
    return process


def make(drover, config):
    """In the working folder: text, a tokenizer of 400 tokens, a data set, and run.yaml with `config` beside them."""
    with open("text.txt", "w") as f:
        for i in range(3000):
            f.write(f"Document {i} tells of the fox, the dog and {i * i % 97} lazy hens.\n\n")
    for words in (["tokenizer", "train", "--input", "text.txt", "--vocab-size", "400", "--out", "tok"],
                  ["data", "build", "--input", "text.txt", "--separator", "\n\n", "--tokenizer", "tok", "--out", "data/set",
                   "--append-eod"]):
        subprocess.run([drover, *words], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with open("run.yaml", "w") as f:
        f.write("tokenizer: tok\n" + config)


def train(drover, ranks, sets, errors):
    """The run under mpirun; `errors` takes its standard error."""
    words = ["mpirun", "--oversubscribe", "-n", str(ranks), drover, "train", "run.yaml"]
    for one in sets:
        words += ["--set", one]
    return start(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=errors)


def lines(name):
    """The whole lines of a file of JSON objects; none where there is no file yet."""
    try:
        with open(name) as f:
            return [json.loads(x) for x in f.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []
