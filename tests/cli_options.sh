#!/bin/bash
# Every option of every verb, as its help lists them, with values that mean nothing: exit status 2 and one line that
# names the option, the value and what was expected; no option is ignored. usage: cli_options.sh DROVER
. "$(dirname "$0")"/story.bash
make_data
expect 0 "step-000001" "$drover" train run.yaml --set training.steps=1 --set run_dir=run
model=run/checkpoints/step-000001
make_adapter $model
expect 0 "tensors" "$drover" ckpt export $model --gguf model.gguf --no-verify
echo '[{"role": "user", "content": "hi"}]' >messages.json
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}' >template
echo 1 2 3 >ids

# arguments VERB OPTION: what the verb needs beside the option
arguments() {
    case "$1 $2" in
    "compile --max-"*) echo --evict; return ;;
    "bench device --from") echo; return ;;
    "doctor --seconds" | "doctor --hosts") echo --node; return ;;
    "plan --nodes" | "compile --nodes") echo run.yaml --elastic; return ;;
    "plan --ranks-per-node" | "compile --ranks-per-node") echo run.yaml --elastic --nodes 2; return ;;
    "config --ranks") echo run.yaml --from nxdt; return ;;
    esac
    case $1 in
    plan) echo run.yaml --ranks 2 --search ;;
    train | config | graph | compile | "launch node" | "bench gemm" | "bench step" | "bench device") echo run.yaml ;;
    eval) echo $model --data data/set ;;
    generate) echo $model --max-tokens 1 ;;
    chat) echo $model --template template ;;
    plot | top | report | audit | page | "ckpt list") echo run ;;
    "tokenizer train") echo --input text.txt --vocab-size 300 --out out ;;
    "tokenizer encode" | "bench tokenizer" | "bench data") echo --tokenizer tok --input text.txt ;;
    "tokenizer decode") echo --tokenizer tok --input ids ;;
    "tokenizer convert") echo --tokenizer tok --out out ;;
    "data get") echo http://127.0.0.1:9/x --out out ;;
    "data build") echo --input text.txt --tokenizer tok --out out ;;
    "data info" | "data show" | "data verify") echo data/set ;;
    "model get") echo hf:org/name --out out ;;
    "model push") echo $model hf:org/name ;;
    "ckpt import") echo model.gguf --out out ;;
    "ckpt show" | "ckpt verify") echo $model ;;
    "ckpt export") echo $model --out out ;;
    "ckpt merge") echo $model tuned --out out ;;
    "ckpt consolidate") echo $model --out out ;;
    "launch status" | "launch logs" | "launch stop" | "launch clean") echo job ;;
    "launch slurm") echo run.yaml --instance cpu --out job ;;
    "launch "*) echo run.yaml --instance cpu --image x --pvc y --out job ;;
    doctor) ;;
    *) bad "no arguments are known for $1: a verb is new" ;;
    esac
}
# refused WORDS...: exit status 2 and one line on standard error, left in `out`
refused() {
    "$drover" "$@" >/dev/null 2>out </dev/null
    local got=$? lines
    mapfile lines <out
    if [ $got != 2 ]; then bad "exit $got, expected 2: $*" out
    elif [ ${#lines[@]} != 1 ]; then bad "one line was expected: $*" out
    else ok; fi
}
# without NAME WORDS...: the words without that option and its value, in `rest`
without() {
    local name=$1
    shift
    rest=()
    while [ $# -gt 0 ]; do
        if [ "$1" = "$name" ]; then shift; else rest+=("$1"); fi
        shift
    done
}
names() { sed -n "/^$1:/,/^\$/s/^  \([a-z-]*\) .*/\1/p"; }
try_option() { # VERB NAME VALUE: the value as the help calls it, empty for a switch
    local verb=$1 name=$2 value=$3 wrong
    without "$name" $(arguments "$verb" $name)
    [ -n "$value" ] || { refused $verb "${rest[@]}" "$name=x"; says "$name takes no value"; return; }
    refused $verb "${rest[@]}" "$name"
    says "$verb: $name needs a value: $value"
    refused $verb "${rest[@]}" "$name" "$another"
    says "$verb: $name needs a value: $value, but \"$another\" follows"
    another=$name
    case $value in
    N | X | SIZE)
        for wrong in "" nonsense -1 1e400 nan 99999999999999999999999 $'1\n2' 1.5.5; do
            refused $verb "${rest[@]}" "$name" "$wrong"
            says "$verb: $name is \"${wrong//$'\n'/?}\", expected"
        done ;;
    *)
        case "$verb $name" in
        "generate --prompt" | "chat --system" | "chat --bos" | "chat --eos" | *" --set") return ;; # "" is a value
        esac
        refused $verb "${rest[@]}" "$name" ""
        says "$verb: $name is empty, expected $value" ;;
    esac
}
for verb in $("$drover" help | names verbs); do
    subverbs=$("$drover" help $verb | names subverbs)
    for sub in ${subverbs:-none}; do
        [ $sub = none ] && whole=$verb || whole="$verb $sub"
        "$drover" help $whole | sed -n '/^options:/,$s/^  \(--[a-z-]*\) \([^ ]*\)  *.*/\1 \2/p' >options
        another=--help
        while read -r name value; do
            try_option "$whole" $name "$value"
        done <options
    done
done
check "no option is lost" [ $passed -gt 700 ]
check "nothing was written" [ ! -e out.bin ]

# --- values that are names of a list
for case in "generate $model --precision fp64" "graph run.yaml --program forward" "plot run --out a.png" "plot run --keys nothing" \
    "tokenizer train --input text.txt --out x --pattern gpt4" "ckpt export $model --out x --dtype f8" \
    "ckpt export $model --gguf x.gguf --type q3" "ckpt export $model --dcp x --names nobody" "ckpt import model.gguf --out x --dtype int8" \
    "data build --input text.txt --tokenizer tok --out x --eod nothing" "config --set training.precision=fp16"; do
    refused $case
    says "${case##*[ =]}"
done

# --- beside others
both() { says "exclude each other"; }
refused chat --template template --messages messages.json --print --temperature 0
both
refused chat --template template --messages messages.json --print --min-p 0.1
both
refused chat $model --template template --messages messages.json --print --system x
both
refused chat $model --template template --generation-prompt
says "chat: --generation-prompt needs --print"
refused plot run --out a.svg --ascii
both
refused generate $model --prompt x --prompt-file text.txt
both
refused eval $model --data data/set --no-bos
says "eval: --no-bos needs --text or --choices"
refused data build --sft --input text.txt --tokenizer tok --out x --append-eod
both
refused data build --input text.txt --tokenizer tok --out x --template alpaca
says "data build: --template needs --sft or --preference"
refused data verify data/set --tokenizer tok --vocab-size 400
both
refused ckpt export $model --gguf x.gguf --dtype f16
both
refused ckpt export $model --dcp x --out y
both
refused data build --input text.txt --tokenizer tok --out data/
says "a folder, expected a prefix for the names of the files"
refused data build --input text.txt --tokenizer tok --out data/..
says "a folder, expected a prefix for the names of the files"

# --- the adapter of --print: its template goes before the model's
tuned=$(newest tuned)
printf 'of the adapter' >"$tuned"/chat_template.jinja
printf 'of the model' >$model/chat_template.jinja
printed() { "$drover" chat "$@" --messages messages.json --print 2>err; }
check "the model's" [ "$(printed $model)" = "of the model" ]
check "a run's" [ "$(printed run)" = "of the model" ]
check "the adapter's" [ "$(printed $model --adapter "$tuned")" = "of the adapter" ]
check "an adapter in the place of the model" [ "$(printed "$tuned")" = "of the adapter" ]
rm "$tuned"/chat_template.jinja
check "the model's under an adapter without one" [ "$(printed $model --adapter "$tuned")" = "of the model" ]
expect 1 "nowhere" "$drover" chat $model --adapter nowhere --messages messages.json --print

# --- the command to try a model with: chat where there is a template
expect 0 "try it: drover chat exported" "$drover" ckpt export $model --out exported --no-verify
rm $model/chat_template.jinja
expect 0 "try it: drover generate plain --prompt" "$drover" ckpt export $model --out plain --no-verify
cp -r tok chatty
printf '{{ messages }}' >chatty/chat_template.jinja
expect 0 "try it: drover chat chat/checkpoints/step-000001" "$drover" train run.yaml --set training.steps=1 --set run_dir=chat --set tokenizer=chatty

# --- a run knows its data; a folder without checkpoints says so
expect 0 "loss " "$drover" eval run
expect 0 "\"loss\"" "$drover" eval run --json
expect 2 "has no validation pairs; give the config and pairs (drover eval run/config.yaml --data PREFIX)" \
    "$drover" eval run --set training.objective=dpo --set data.valid=[] --set data.split=[1,0,0]
cp -r run bare
rm bare/config.yaml
expect 2 "eval: nothing to evaluate; give --data PREFIX" "$drover" eval bare
mkdir -p none/checkpoints
expect 0 "none/checkpoints holds no checkpoint" "$drover" ckpt list none

# --- what is one line, and what a long value leaves of it
refused generate $model --seed $'1\n2\033[2J'
says 'is "1?2?[2J", expected a whole number'
refused generate $model --seed "$(head -c 5000 /dev/zero | tr '\0' 7)"
says 'generate: --seed is "777' '777", expected a whole number from 0 to'
refused ckpt verify
says "usage: drover ckpt verify CHECKPOINT|RUN_DIR [--json], or drover ckpt verify A B [--json]"

finish
