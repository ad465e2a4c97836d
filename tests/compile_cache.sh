#!/bin/bash
# The compile cache as a user has it, on a CPU plugin: what --list says, what --evict and pjrt.cache_gib remove, damaged
# files, writers side by side, programs compiled side by side. Skipped where there is no plugin.
. "$(dirname "$0")"/pjrt.bash
make_data
sed -i 's/num_hidden_layers: 2/num_hidden_layers: 1/' run.yaml # a compiler takes as long as there are layers
kept=$dir/kept
compile() { "$drover" compile run.yaml --set backend=pjrt --set pjrt.cache="$kept" "$@"; }
list() { expect 0 "" "$drover" compile --list --cache "$kept"; }
n_kept() { ls "$kept" | grep -c 'pjrt$'; }

# --- nothing there is a list of nothing
list
says "0 programs" "in $kept"
expect 0 "removed 0 programs" "$drover" compile --evict --cache "$kept"
expect 2 "the compile cache is \"none\"" "$drover" compile run.yaml --list --set pjrt.cache=none
expect 2 'the compile cache "run.yaml" is not a folder' "$drover" compile --list --cache run.yaml
expect 2 "--set without CONFIG" "$drover" compile --list --set pjrt.cache="$kept"
expect 2 "CONFIG is missing" "$drover" compile
expect 2 "exclude each other" "$drover" compile --list --evict
expect 2 "--max-age needs --evict" "$drover" compile --list --max-age 3

# --- what is kept, the last used one first; the config's folder is the same
expect 0 "Total successful: 2" compile --explain
grep '^  ' out >made
says "fused attention: 0 calls, expected 0" "gradients of weights that are not matrix products: 0" "copies of whole weights: "
check "products: $(grep matrix made)" [ "$(grep -c 'matrix products: \([0-9]*\), written as \1; ' made)" = 2 ]
expect 0 "2 of 2 from the cache" compile --explain
check "what is kept says something else of the programs" cmp -s made <(grep '^  ' out)
check "a warning of a CPU" [ "$(grep -c warning: out)" = 0 ]
list
says "whole_step" "eval" "cpu, PJRT 0." "2 programs"
expect 0 "2 programs" "$drover" compile run.yaml --list --set pjrt.cache="$kept"
expect 0 "2 of 2 from the cache" compile --elastic --nodes 1
touch -d '3 days ago' "$kept"/*
expect 0 "3 days" "$drover" compile --list --cache "$kept"
expect 0 "Total successful: 2" compile
list
check "a warm start is no use" [ "$(grep -c '3 days' out)" = 0 ]
expect 0 '"program": "whole_step"' "$drover" compile --list --cache "$kept" --json
check "no JSON" python3 -c 'import json, sys; p = json.load(open("out"))["programs"]; sys.exit(len(p) != 2 or any(x["damage"] or x["compile_s"] <= 0 for x in p))'

# --- age, size, damage, what killed writers leave
expect 0 "Total successful: 2" compile --set data.sequence_length=32
touch -d '2 days ago' $(ls -t "$kept"/*.pjrt | tail -2)
expect 0 "removed 2 programs" "$drover" compile --evict --cache "$kept" --max-age 1
expect 0 "removed 0 programs" "$drover" compile --evict --cache "$kept" --max-age 1
smaller=$(stat -c %s "$kept"/*.pjrt | sort -n | head -1)
touch -d '1 hour ago' $(find "$kept" -size +"$smaller"c)
expect 0 "removed 1 program," "$drover" compile --evict --cache "$kept" --max-size "$smaller"
check "not the one used last was left" [ "$(stat -c %s "$kept"/*.pjrt)" = "$smaller" ]
printf x >>"$(ls "$kept"/*.pjrt)"
list
says "(damaged)" "expected"
touch -d '2 hours ago' "$kept"/0.pjrt.host.1.2.tmp
touch "$kept"/0.pjrt.host.3.4.tmp "$kept"/notes.txt
expect 0 "removed 1 program," "$drover" compile --evict --cache "$kept"
check "other files were removed, or old ones left" [ "$(ls "$kept" | tr '\n' ' ')" = "0.pjrt.host.3.4.tmp notes.txt " ]
rm -r "$kept"

# --- the folder stays within pjrt.cache_gib: the least recently used goes when another one is saved
expect 0 "Total successful: 2" compile
bytes=$(du -bc "$kept"/*.pjrt | tail -1 | cut -f1)
bound=$(awk "BEGIN { print ($bytes + 1000) / 2 ^ 30 }")
touch -d '1 hour ago' "$kept"/*
expect 0 "Total successful: 2" compile --set data.sequence_length=32 --set pjrt.cache_gib="$bound"
check "more than pjrt.cache_gib is kept" [ "$(du -bc "$kept"/*.pjrt | tail -1 | cut -f1)" -le $((bytes + 1000)) ]
list
check "the old ones were kept" [ "$(grep -c '1 h ' out)" = 0 ]
expect 0 "is larger than the cache may be" compile --set pjrt.cache_gib=1e-6
expect 0 "Total successful: 2" compile --set pjrt.cache_gib=0

# --- what the compiler is told by the environment makes other programs
before=$(n_kept)
XLA_FLAGS=--xla_cpu_enable_fast_math=false expect 0 "Total successful: 2" compile
check "XLA_FLAGS made no other programs" [ "$(n_kept)" = $((before + 2)) ]

# --- side by side, one after the other, and within little memory: the same programs
for how in "--jobs 4" "--jobs 1" "--memory 1M" "--jobs 3 --memory 200M"; do
    rm -rf "$kept"
    expect 0 "Total successful: 2" compile $how
    (cd "$kept" && ls) >names
    [ -e want ] || cp names want
    check "other programs with $how" cmp -s want names
done
expect 2 '--jobs is "0"' compile --jobs 0
expect 1 "Total failed: 2" compile --jobs 2 --set 'pjrt.flags=[xla_no_such_flag=1]'
says "whole_step  graph" "eval        graph" "2 of 2 graphs could not be compiled"
# Devices of one run share the work: each program is compiled once.
expect 0 "Total failed: 0" compile --devices 2
says "Total graphs: 3" "step" "update" "eval"
expect 0 "3 of 3 from the cache" compile --devices 2
expect 2 'compile: --devices 2, but `backend: cpu` has one, expected backend pjrt or --target' "$drover" compile run.yaml --devices 2

# --- a pipeline: every rank of it has programs of its own, which a run then finds, one of a stage that fails is counted
rm -rf "$kept"
stages="--set model.num_hidden_layers=2 --set parallel.pipeline=2 --set parallel.tensor=2 --set training.micro_batch_size=1"
expect 0 "Total graphs: 8" compile $stages
says "pipeline rank 0  stage0.forward " "pipeline rank 1  stage1.forward " "pipeline rank 1  update " "pipeline rank 1  Memory of a device: " "Total successful: 8"
expect 0 "8 of 8 from the cache" compile $stages
(cd "$kept" && ls) >names
expect 0 "step 1" "$drover" train run.yaml $stages --set backend=pjrt --set pjrt.cache="$kept" --set training.steps=1 --set run_dir=staged
check "a run on a pipeline compiles what drover compile had not" cmp -s names <(ls "$kept")
expect 1 "Total failed: 8" compile $stages --set 'pjrt.flags=[xla_no_such_flag=1]'
says "pipeline rank 1  update      graph" "8 of 8 graphs could not be compiled"
finish
