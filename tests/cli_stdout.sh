#!/bin/bash
# Results that could not be written are an error of every verb that prints: on a full disk, on a
# descriptor that is closed. usage: cli_stdout.sh DROVER
. "$(dirname "$0")"/story.bash
expect() { # TEXT CODE: of the last command, whose messages are in err
    local got=$?
    if [ $got = "$2" ] && { [ -z "$1" ] || grep -qF "$1" err; }; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    echo "FAILED: exit $got: $command"
    sed 's/^/    /' err
}
refused() { # ARGUMENTS...: works on a good descriptor, fails on a full one and on a closed one
    command="drover $*"
    "$drover" "$@" >good 2>err </dev/null
    expect "" 0
    [ -s good ]
    expect "" 0
    "$drover" "$@" >/dev/full 2>err </dev/null
    expect "drover: could not write to standard output: No space left on device" 1
    "$drover" "$@" >&- 2>err </dev/null
    expect "drover: could not write to standard output: Bad file descriptor" 1
}

awk 'BEGIN { for (i = 0; i < 400; i++) printf "Document %d tells of %d lazy hens.\n", i, i * i % 97 }' >text.txt
"$drover" tokenizer train --input text.txt --vocab-size 300 --out tok 2>/dev/null
"$drover" data build --input text.txt --separator '
' --tokenizer tok --out set --append-eod 2>/dev/null
"$drover" tokenizer encode --tokenizer tok --input text.txt >ids
cat >run.yaml <<YAML
model: {preset: tiny, vocab_size: 300, num_hidden_layers: 1}
tokenizer: tok
data: {train: set, sequence_length: 32}
training: {steps: 2, global_batch_size: 2, micro_batch_size: 2, eval_every: 0}
run_dir: run
YAML
"$drover" train run.yaml 2>err
expect "" 0
model=run/checkpoints/step-000002
printf '{%% for m in messages %%}{{ m.content }}{%% endfor %%}' >template
printf '[{"role": "user", "content": "hens"}]' >messages.json
printf '{"context": "Document 3 tells", "choices": [" of", " hens"], "gold": 0}\n' >choices.jsonl

refused help
refused help data build
refused --version
refused config run.yaml
refused graph run.yaml
refused plan run.yaml
refused plan run.yaml --json
refused tokenizer encode --tokenizer tok --input text.txt
refused tokenizer decode --tokenizer tok --input ids
refused data info set
refused data show set
refused data verify set
refused plot run --keys lr
refused ckpt list run
refused ckpt show $model
refused ckpt verify $model
refused ckpt list run --json
refused ckpt show $model --json
refused ckpt verify $model --json
refused ckpt verify $model $model --json
refused eval $model --data set
refused eval $model --data set --json
refused eval $model --choices choices.jsonl --json
refused generate $model --prompt Document --max-tokens 3
refused generate $model --prompt Document --max-tokens 3 --json
refused config --reference
refused data info set --json
refused data show set --document 3 --tokenizer tok
refused bench tokenizer --tokenizer tok --input text.txt --json
refused bench data --tokenizer tok --input text.txt --json
refused chat $model --template template --messages messages.json --print
small="--repeats 1 --set model.preset=tiny --set data.sequence_length=64"
for verb in doctor "bench gemm $small" "bench step $small"; do
    command="$verb, which measures first" # once: it takes a moment
    "$drover" $verb >/dev/full 2>err
    expect "No space left on device" 1
done

# A descriptor that is closed is not given to the run's first file.
command="train with all three closed"
"$drover" train run.yaml --set run_dir=closed >&- 2>&- <&-
expect "" 0
"$drover" ckpt verify closed/checkpoints/step-000002 >good 2>err
expect "" 0
for closed in '0<&-' '1>&-' '2>&-'; do
    rm -rf closed
    eval "\"$drover\" train run.yaml --set run_dir=closed $closed" 2>err
    command="train $closed leaves its files alone"
    [ "$(grep -c '^{.*}$' closed/metrics.jsonl)" = 2 ] && [ "$(grep -vc '^{.*}$' closed/metrics.jsonl)" = 0 ] &&
        [ ! -s closed/.lock ] # the first file that stays open
    expect "" 0
done

command="bench data without a folder for temporary files"
TMPDIR=$dir/nothing "$drover" bench data --tokenizer tok --input text.txt >good 2>err
expect ": No such file or directory" 1

# So is standard input.
for verb in "config -" "tokenizer decode --tokenizer tok"; do
    command="drover $verb without standard input"
    "$drover" $verb >good 2>err <&-
    expect "standard input" 1
done

command="devices with a long name"
"$drover" devices /nothing/here.so >good 2>err
expect "is not there" 1
grep -q "^/nothing/here.so plugin" good
expect "" 0

# JSON stays valid where the name of a file has bytes that are not UTF-8, or a quote.
for odd in $'odd\344' 'od"d'; do
    cp -r run "$odd"
    cp -r tok "$odd/tok"
    for verb in "ckpt list $odd" "ckpt show $odd/${model#run/}" "ckpt verify $odd" "ckpt verify $odd/${model#run/}" \
        "ckpt verify $model $odd/${model#run/}" "compile --list --cache $odd" \
        "bench tokenizer --tokenizer $odd/tok --input text.txt --repeats 1"; do
        command="drover $verb --json"
        "$drover" $verb --json >good 2>err
        expect "" 0
        python3 -c 'import json, sys; assert json.load(sys.stdin) != []' <good 2>err
        expect "" 0
    done
done
finish
