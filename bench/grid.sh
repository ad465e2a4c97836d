#!/bin/bash
# Every layout against one rank, bit for bit: each mesh of tensor 1, 2, 4 x pipeline 1, 2, 4 x context 1, 2 x data 1, 2, 4 that
# fits in 8 ranks, ZeRO 0 and 1, sequence parallel or not, 1f1b, gpipe, interleaved and zb-h1, tied and not, bf16 and fp32: 10
# steps of a model with 2 key-value heads and a vocabulary of 263; losses, norms, gradients before clipping and weights of
# each step. First all of them on threads of one process (tests/test_grid.c), then, by `mpirun drover train`, so many that
# each pair of values of two of these is among them, their checkpoints too. Ends with 1 if anything differs.
# usage: grid.sh PROGRAM [GLOB]     GLOB chooses by name, as "8 *parallel.tensor=2 *bf16*"; the name is what is printed
#        GRID_DONE=FILE: cases noted there are not run again; those that are run are added. MODE=threads|mpirun: only that.
. "$(dirname "$0")"/../tests/ranks.bash
grid=$(dirname "$drover")/tests/test_grid
match=${2:-*} done_file=${GRID_DONE:-$dir/done} differ=0
if [ "$MODE" != mpirun ]; then
    "$grid" all --match "$match" --done "$done_file" || differ=1
fi
[ "$MODE" = threads ] && exit $differ

make_text >text.txt
{
    "$drover" tokenizer train --input text.txt --vocab-size 263 --out tok &&
        "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
} >setup.log 2>&1 || { cat setup.log; exit 1; }
cat >run.yaml <<'YAML'
model: {vocab_size: 263, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 8, num_attention_heads: 8,
  num_key_value_heads: 2}
tokenizer: tok
data: {train: data/set, split: [90, 10, 0], sequence_length: 32}
training: {steps: 10, global_batch_size: 8, micro_batch_size: 1, eval_every: 10, eval_batches: 2, hash_every: 1}
optimizer: {lr: 1.0e-2, clip_grad_norm: 0.5}
schedule: {type: constant, warmup_steps: 2}
checkpoint: {every: 0}
parallel: {lanes: 4}
YAML
files="hashes.jsonl checkpoints/step-000010/model.safetensors checkpoints/step-000010/optimizer.safetensors checkpoints/step-000010/trainer.json checkpoints/step-000010/manifest.json"
compare() { # RUN ONE: the first file that differs, with the step of a line
    local file
    for file in $files; do
        cmp "$2/$file" "$1/$file" >differs.txt 2>&1 || { sed "s|$1/||; s|$2/||" differs.txt | tail -1; return; }
    done
}
mapfile -t cases < <("$grid" pairs --list --match "$match")
tried=0 from=$SECONDS
for case in "${cases[@]}"; do
    read -r n keys <<<"$case"
    grep -qF "mpirun $case|" "$done_file" 2>/dev/null && continue
    # The one rank of this model; its layout is what has no key here.
    one=one.$(echo "$keys" | grep -oE '(tie_word_embeddings|precision|context_leaves)=[a-z0-9]*' | tr '\n=' '._')
    model=$(echo "$keys" | tr ' ' '\n' | grep -E '^model|precision|context_leaves')
    [ -d "$one" ] || train 1 "$one" $model >log.txt 2>&1 || { tail -2 log.txt; exit 1; }
    rm -rf run
    if train "$n" run $keys >log.txt 2>&1; then what=$(compare run "$one"); else what="failed: $(grep -m 1 drover: log.txt)"; fi
    echo "mpirun $case|${what:-same}" >>"$done_file"
    tried=$((tried + 1))
    [ -z "$what" ] || { differ=1; echo "DIFFERS mpirun $case: $what"; }
    echo "mpirun: $tried of ${#cases[@]} cases; $(((SECONDS - from) * (${#cases[@]} - tried) / tried)) s to go"
done
exit $differ
