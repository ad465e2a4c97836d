#!/bin/bash
# Runs that begin on one layout and go on on another, and perhaps on a third: random ones of those of grid.sh, stopped after a
# random step. Hashes of every step and all files of the last checkpoint are held against those of one rank that was never
# stopped. Ends with 1 if anything differs.
# usage: resumes.sh PROGRAM [PAIRS [SEED]]     20 pairs; the seed is printed
bench=$(realpath "$(dirname "$0")")
. "$bench"/../tests/ranks.bash
. "$bench"/grid.bash
pairs=${2:-20} seed=${3:-$RANDOM} differ=0
RANDOM=$seed
echo "seed $seed"
# Tensor ranks that share a key-value head have another number of leaves, and beside context ranks only nearly the same bits.
mapfile -t cases < <("$grid" all --list | grep -v "tensor=4.*context_leaves=2")
model_of() { echo "$1" | tr ' ' '\n' | grep -E '^model|precision|context_leaves' | tr '\n' ' '; }
layout_of() { echo "$1" | sed -E 's/(parallel|model|training)\.//g; s/(tie_word_embeddings|precision|context_leaves)=[a-z0-9]*//g; s/ +/ /g'; }
for k in $(seq "$pairs"); do
    a=${cases[RANDOM % ${#cases[@]}]}
    mapfile -t others < <(printf '%s\n' "${cases[@]}" | grep -F -- "$(echo "$a" | grep -o 'model.*precision=[a-z0-9]*')" | grep -F -- "$(echo "$a" | grep -o 'parallel.context_leaves=.*')")
    b=${others[RANDOM % ${#others[@]}]} step=$((RANDOM % 9 + 1))
    one=$(one_rank "${a#* }") || exit 1
    rm -rf run
    what=
    train "${a%% *}" run ${a#* } training.steps=$step training.eval_every=0 >log.txt 2>&1 || what="failed: $(grep -m 1 drover: log.txt)"
    train "${b%% *}" run ${b#* } >log2.txt 2>&1 || what="$what failed: $(grep -m 1 drover: log2.txt)"
    grep -q "resumed from run/checkpoints/step-0000" log2.txt || what="$what did not resume"
    what=${what:-$(compare run "$one")}
    [ -z "$what" ] || differ=1
    echo "$k: $(layout_of "$a") until step $step, then $(layout_of "$b") | $(model_of "$a")| ${what:-same}"
done
exit $differ
