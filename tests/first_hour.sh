#!/bin/bash
# What a newcomer sees in the first hour: short commands are quiet, and no line is torn. usage: first_hour.sh DROVER
. "$(dirname "$0")"/story.bash
lacks() { # TEXT...: the output of the last `expect` has none of them
    local text
    for text in "$@"; do check "\"$text\" is said" [ "$(grep -cF -- "$text" out)" = 0 ]; done
}

# --- what is done within ten seconds shows no progress off a terminal
make_text >text.txt
expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok
lacks "counting words" "merges:" "warning"
expect 0 "3000 documents" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
lacks "eta" " 0 documents"

# --- fewer tokens than were asked for are explained
head -n 40 text.txt >small.txt
expect 0 "warning: --vocab-size is 5000" "$drover" tokenizer train --input small.txt --vocab-size 5000 --out small

# --- a run and what may be done with it
make_data
expect 0 "done: step 40 of 40" "$drover" train run.yaml --set run_dir=run --set training.eval_every=20
sanitized || lacks "evaluating:" # said where it takes long
expect 0 "loss " "$drover" eval run.yaml --set run_dir=run
lacks "absent" "bos_token_id"
cp -r run copied
expect 0 "model: copied/checkpoints/step-000040" "$drover" eval copied # and not run, which its config names

# --- the text of a model ends before the line of figures begins
expect 0 "prompt tokens" "$drover" generate run --prompt "The fox" --max-tokens 5
check "the figures begin a line" grep -qE '^[0-9]+ prompt tokens? in .* tokens/s' out
check "no empty line is left over" [ -n "$(tail -n 1 out)" ]

# --- a run stands for its newest checkpoint
expect 0 "model: run/checkpoints/step-000040" "$drover" ckpt show run
says "model.norm.weight"
expect 0 "a.svg: 1 run" "$drover" plot run --out a.svg
lacks "1 runs"

finish
