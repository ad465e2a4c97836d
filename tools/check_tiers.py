#!/usr/bin/env python3
"""Checks the tiers of tests against their budgets: adds up the times in tests/times.txt for the tests of a tier
(tests/CMakeLists.txt says which those are), and refuses a tier that is over its budget, a test of it without a time, and a time
without a test. A test that would push a tier over its budget has to displace another one, or goes to a part of the full tier.
`tools/time_tests.py -R '^NAME$'` records a time. A part of tests/parts.ini that leaves out a test which it would not run is
refused, too, and so is a promise of docs/what-holds.md without a test, or with a test whose tier is another than the page says:
"(full)" behind it, or nothing for quick and gate."""
import configparser, fnmatch, pathlib, re, sys

# Seconds of processor time on the machine that tests/times.txt names. All tests and the build take 7 minutes on two cores of it, and took
# 20 on two cores of Zen 3: there quick should end within two minutes, and gate with the build within ten.
BUDGET = {"quick": 90, "gate": 270}

root = pathlib.Path(__file__).resolve().parent.parent
tests = root / "tests"
lists = {name: words.split() for name, words in re.findall(r"^set\(TIER_(\w+) ([^)]*)\)", (tests / "CMakeLists.txt").read_text(), re.M)}
tier_of = {test: tier for tier, names in lists.items() for test in names}
units = [p.stem.removeprefix("test_") for p in tests.glob("test_*.c")]
replays = [p.stem for p in tests.glob("fuzz/fuzz_*.c")]
members = {"quick": [t for t in units + replays if t not in tier_of] + lists["quick"]}
members["gate"] = members["quick"] + lists["gate"]  # whoever runs the gate runs quick too

times = {}
for line in (tests / "times.txt").read_text().splitlines():
    if line and line[0] != "#":
        name, seconds = line.split()
        times[name] = float(seconds)
bad = 0
for name in members["gate"]:
    if name not in times:
        print(f'tests/times.txt: "{name}" has no time, expected one for a test of quick or gate (tools/time_tests.py -R \'^{name}$\')')
        bad += 1
known = set(units) | set(replays) | {p.stem for p in tests.glob("*.sh")} | set(tier_of)
known |= {f"workflow_{p.stem}" for p in tests.glob("workflows/*.sh")} | {f"cluster_{p.stem}" for p in tests.glob("clusters/*.sh")}
for name in sorted((set(times) | set(tier_of)) - known):
    print(f'"{name}" is in tests/times.txt or in a tier, but there is no such test')
    bad += 1
parts = configparser.RawConfigParser()
parts.read(tests / "parts.ini")
for part in parts.sections():  # what a part leaves out of its labels has one of them
    for labels, left_out in re.findall(r"-L (\S+) -E \^\(?([\w|]+)\)?\$", parts[part]["run"]):
        for name in left_out.split("|"):
            if not re.search(labels, tier_of.get(name, "quick")) or name not in known:
                print(f'tests/parts.ini: part {part} leaves out "{name}", which is no test of {labels}')
                bad += 1
page = (root / "docs/what-holds.md").read_text().split("\n## Where it has run")[0]
for promise in re.findall(r"^\| (?!promise|---)(.*)", page, re.M):
    named = re.findall(r"`tests/(?:clusters/)?([\w*]*)(?:\.c|\.sh)?`( \(full\))?", promise)
    if not named:
        print(f'docs/what-holds.md: "{promise.split(" |")[0]}" names no test')
        bad += 1
    for stem, marked in named:
        fitting = fnmatch.filter(members["gate"], stem.removeprefix("test_"))
        if bool(fitting) == bool(marked):
            print(f'docs/what-holds.md: "{stem}" is {"in" if fitting else "not in"} quick or gate, expected {"no " if marked else ""}"(full)" behind it')
            bad += 1
sums = {tier: sum(times.get(name, 0) for name in members[tier]) for tier in BUDGET}
for tier, budget in BUDGET.items():
    if sums[tier] > budget:
        print(f"tier {tier}: its tests take {sums[tier]:.0f} s of processor time, expected at most {budget}")
        bad += 1
print("tiers: " + ", ".join(f"{tier} {sums[tier]:.0f} of {BUDGET[tier]} s" for tier in BUDGET) + f", {bad} problems")
sys.exit(bad > 0)
