#!/bin/bash
# Every layout against one rank, bit for bit: each mesh of tensor 1, 2, 4 x pipeline 1, 2, 4 x context 1, 2 x data 1, 2, 4 that
# fits in 8 ranks, ZeRO 0 and 1, sequence parallel or not, 1f1b, gpipe, interleaved and zb-h1, tied and not, bf16 and fp32,
# what each family adds ("*qk_norm=true*", ...) and every optimizer: 6040 cases, 604 of each family and optimizer; 10
# steps of a model with 2 key-value heads and a vocabulary of 263; losses, norms, gradients before clipping and weights of
# each step. First all of them on threads of one process (tests/test_grid.c), then, by `mpirun drover train`, so many that
# each pair of values of two of these is among them, as far as they match, their checkpoints too; a model whose tied table spans
# several blocks of its files as they are, of 8 MiB; and LoRA upon that model. Ends with 1 if anything differs.
# usage: grid.sh PROGRAM [GLOB]     GLOB chooses by name, as "8 *parallel.tensor=2 *bf16*"; the name is what is printed
#        GRID_DONE=FILE: cases noted there are not run again; those that are run are added. MODE=threads|mpirun: only that.
#        GRID_SAMPLE=N [GRID_SEED=N]: on threads one in N of the cases that match, those with each pair among them; the seed is printed
bench=$(realpath "$(dirname "$0")")
. "$bench"/../tests/ranks.bash
. "$bench"/grid.bash
match=${2:-*} done_file=${GRID_DONE:-$dir/done} differ=0
if [ "$MODE" != mpirun ]; then
    "$grid" all --match "$match" --done "$done_file" --sample "${GRID_SAMPLE:-1}" --seed "${GRID_SEED:-$RANDOM}" || differ=1
fi
[ "$MODE" = threads ] && exit $differ

mapfile -t cases < <("$grid" pairs --list --match "$match")
large="model.vocab_size=49152 model.hidden_size=128 model.tie_word_embeddings=true training.precision=fp32"
for layout in "3 parallel.pipeline=3" "4 parallel.pipeline=4 parallel.schedule=zb-h1" "6 parallel.pipeline=3 parallel.data=2" \
    "8 parallel.pipeline=4 parallel.tensor=2" "4 parallel.tensor=4" "4 parallel.data=4 parallel.pipeline=1"; do
    for kind in "$large" "lora.rank=8 training.precision=bf16"; do
        # shellcheck disable=SC2053  # a pattern
        [[ "$layout $kind" == $match ]] && cases+=("$layout $kind")
    done
done
tried=0 from=$SECONDS
for case in "${cases[@]}"; do
    read -r n keys <<<"$case"
    grep -qF "mpirun $case|" "$done_file" 2>/dev/null && continue
    export DROVER_CKPT_BLOCK_BYTES=$([[ $keys == *vocab_size* ]] && echo $((8 << 20)) || echo 8192)
    config=run.yaml
    if [[ $keys == *lora* ]]; then
        [ -e base ] || base=$(one_rank "$large") && ln -sfn "$base/checkpoints/step-000010" base || exit 1
        config=lora.yaml
    fi
    one=$(one_rank "$keys") || exit 1
    rm -rf run
    if train "$n" run $keys >log.txt 2>&1; then what=$(compare run "$one"); else what="failed: $(grep -m 1 drover: log.txt || tail -n 3 log.txt)"; fi
    echo "mpirun $case|${what:-same}" >>"$done_file"
    tried=$((tried + 1))
    [ -z "$what" ] || { differ=1; echo "DIFFERS mpirun $case: $what"; }
    echo "mpirun: $tried of ${#cases[@]} cases; $(((SECONDS - from) * (${#cases[@]} - tried) / tried)) s to go"
done
exit $differ
