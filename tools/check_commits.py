#!/usr/bin/env python3
"""Checks commits by two rules: a subject has at most 110 columns, and a commit that adds over 100 lines has a body that says why.
Merges themselves are skipped. The rules are younger than the project: they apply to commits from FIRST on.

    tools/check_commits.py [REVISION]       REVISION: up to there; HEAD
"""
import pathlib, shutil, subprocess, sys

FIRST = "daa1000"  # base: tell what another try may heal by exit status 75
MOST = 100
root = pathlib.Path(__file__).resolve().parent.parent


def git(*args):
    return subprocess.run(["git", *args], cwd=root, capture_output=True, text=True)


if not shutil.which("git") or not (root / ".git").exists():
    print("commits: not looked at, since there is no git or no history here")
    sys.exit(0)
if git("cat-file", "-e", f"{FIRST}^").returncode != 0:
    print("commits: not looked at, since the history is not here")
    sys.exit(0)
log = git("log", "--no-merges", "--numstat", "--format=%x00%h%x01%s%x01%b%x01", f"{FIRST}^..{sys.argv[1] if len(sys.argv) > 1 else 'HEAD'}")
bad = n = 0
for entry in log.stdout.split("\0")[1:]:
    commit, subject, body, numbers = entry.split("\1")
    added = sum(int(line.split("\t")[0]) for line in numbers.strip().splitlines() if line[0] != "-")
    n += 1
    if added > MOST and not body.strip():
        print(f"{commit} \"{subject}\": {added} lines added, expected a body that says why")
        bad += 1
    if len(subject) > 110:
        print(f"{commit} \"{subject}\": {len(subject)} columns, expected at most 110")
        bad += 1
print(f"commits: {n} since the rule, {bad} problems")
sys.exit(bad > 0)
