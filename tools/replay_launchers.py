#!/usr/bin/env python3
"""Replays recorded environments of launchers and prints which process of the job drover takes itself for.
usage: replay_launchers.py DROVER [FILE...]      replays tests/launchers/*.env, or the files that are named
       replay_launchers.py --record TEXT         prints the environment of this process as such a file

A recording has a line "# TEXT" that names the launcher and the place in its job, "# launch: ..." and "# train: ..." with what
drover has to answer, and the launcher's variables. `launch` is `drover launch node`, where mpirun cannot be found and nobody
else comes: the nodes and which of them this one is, or the refusal. `train` is `drover train` of a config without data: "trains
alone", "joins the ranks of MPI", or the refusal."""
import concurrent.futures, os, pathlib, re, subprocess, sys, tempfile

LAUNCHERS = re.compile(r"(SLURM|PMI|PMIX|OMPI|PRTE|MPI|PET|VC|RAY|JAX|JOB_COMPLETION|TORCHELASTIC|DROVER)_\w+|"
                       r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURMD_NODENAME")


def record(text):
    print(f"# {text}")
    for name in sorted(os.environ):
        # Paths, addresses and keys of this machine are of no use elsewhere.
        if LAUNCHERS.fullmatch(name) and not re.search(r"[\n/@]|\d\.\d+\.\d", os.environ[name]) and "SECURITY" not in name:
            print(f"{name}={os.environ[name]}")


def answer(drover, folder, environment, words):
    """What drover takes itself for, in a few words, or its last line."""
    done = subprocess.run([drover, *words], cwd=folder, env={"PATH": "/nonexistent", "HOME": folder, **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    place = re.search(r"launch: (.*; this is node \d+)", done.stderr)
    if place:
        return place[1]
    if "no data.train" in done.stderr:
        return "trains alone"
    if "MPI_INIT" in done.stderr.upper() or "but MPI sees" in done.stderr:  # nobody is there to meet
        return "joins the ranks of MPI"
    return (done.stderr.strip().splitlines() or ["nothing"])[-1].removeprefix("drover: ")


def replay(drover, file):
    """(the lines that tell of a recording, how many answers are wrong)"""
    lines = file.read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    words = {"launch": ["launch", "node", "run.yaml", "--wait", "1", "--master", "127.0.0.1:1"], "train": ["train", "run.yaml"]}
    told, wrong = [f"{file.name}: {lines[0][2:]}"], 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "run.yaml").write_text("model: {preset: tiny}\nrun_dir: run\n")
        for verb in words:
            said = answer(drover, folder, environment, words[verb])
            wanted = next((line for line in lines if line.startswith(f"# {verb}: ")), "").removeprefix(f"# {verb}: ")
            told.append(f"  {verb}: {said}")
            if not wanted or wanted not in said:
                told.append(f"  expected {verb}: {wanted or 'an answer in the recording'}")
                wrong += 1
    return told, wrong


def main():
    if sys.argv[1] == "--record":
        return record(sys.argv[2])
    root, drover = pathlib.Path(__file__).resolve().parent.parent, os.path.abspath(sys.argv[1])
    files = [pathlib.Path(name) for name in sys.argv[2:]] or sorted((root / "tests/launchers").glob("*.env"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # most of the time goes by waiting
        done = list(pool.map(lambda file: replay(drover, file), files))
    for told, _ in done:
        print("\n".join(told))
    wrong = sum(n for _, n in done)
    print(f"{len(files)} environments, {wrong} wrong answers")
    sys.exit(wrong > 0)


main()
