#!/bin/bash
# Data that goes wrong on one rank alone, here on rank 1 of two: all end with that rank's message, printed once, and the last
# finished step is saved and resumed from. (A disk that is full for one rank: train_tensor.sh.) Needs mpirun and drover_mpi.so.
foreign=$(realpath "$(dirname "$0")")/golden/foreign/midrun
. "$(dirname "$0")"/ranks.bash
make_data
both=(--set training.global_batch_size=64 --set training.steps=100000 --set checkpoint.every=0)
pair() { # RUN COMMAND OF RANK 1...
    local run=$1
    shift
    ranks_and_last 2 "$drover" train run.yaml "${both[@]}" --set run_dir="$run" : "$@" >out 2>&1
}
ends_well() { # RUN TEXT
    check "$1: exit $code, not 1" [ $code = 1 ]
    says "$2"
    check "$1: the message is printed once" test "$(grep -c "$2" out)" = 1
    local newest
    newest=$(newest "$1")
    check "$1: a step is saved" [ -d "$newest" ]
    check "$1: nothing half-saved is left" [ -z "$(ls -d "$1"/checkpoints/*.drover-tmp 2>/dev/null)" ]
    expect 0 ": ok" "$drover" ckpt verify "$newest"
    expect 0 "resumed from $newest" train 2 "$1" training.global_batch_size=64 training.steps=$((10#${newest##*-} + 1))
}

# --- its copy of the data is cut short while it reads
mkdir other && cp data/set.bin data/set.idx other/
pair cut "$drover" train run.yaml "${both[@]}" --set run_dir=cut --set data.train=other/set &
pid=$!
wait_for grep -q '"step":3,' cut/metrics.jsonl
truncate -s 20 other/set.bin
wait_end $pid
code=$?
says "rank 1 (" "is saved"
ends_well cut "shorter"

# --- what it begins with lacks a file there
mkdir there && cp -r "$foreign"/own begun && cp -r "$foreign"/own there/begun && rm there/begun/trainer.json
begun="train $PWD/begun.yaml --set model.from=begun --set model.weights=resume --set run_dir=$PWD/alone"
cat >begun.yaml <<END
data: {train: $foreign/data, sequence_length: 8, pack: stream, split: [1, 0, 0]}
training: {steps: 9, global_batch_size: 4, micro_batch_size: 2, precision: fp32, eval_every: 0}
END
ranks_and_last 2 "$drover" $begun : env -C there "$drover" $begun >out 2>&1
code=$?
check "a checkpoint that one rank cannot read: exit $code, not 1" [ $code = 1 ]
says "rank 1 (" "but no trainer.json"

finish
