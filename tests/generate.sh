#!/bin/bash
# drover generate as a user sees it. usage: generate.sh DROVER
. "$(dirname "$0")"/story.bash
check() { # TEXT COMMAND...
    local text=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $text"; cat err; fi
}
same() { [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }; }
gen() { "$drover" generate "$@" 2>err; }
json() { python3 -c 'import json, sys; print(*[eval(sys.argv[1], {"o": json.loads(line)}) for line in sys.stdin])' "$1"; }
refused() { # CODE TEXT ARGUMENTS...: and nothing on standard output
    local code=$1 text=$2
    shift 2
    local out
    out=$(gen "$@" </dev/null)
    check "generate $* exits $code" same $? "$code"
    check "generate $* says: $text" grep -qF -- "$text" err
    check "generate $* prints nothing" same "$out" ""
}

awk 'BEGIN { for (i = 0; i < 400; i++) printf "Document %d tells of %d lazy hens.\n", i, i * i % 97 }' >text.txt
"$drover" tokenizer train --input text.txt --vocab-size 300 --out tok 2>/dev/null
"$drover" data build --input text.txt --separator '
' --tokenizer tok --out set --append-eod 2>/dev/null
cat >run.yaml <<YAML
model: {preset: tiny, vocab_size: 300, num_hidden_layers: 2, max_position_embeddings: 256}
tokenizer: tok
data: {train: set, sequence_length: 64}
training: {steps: 60, global_batch_size: 8, micro_batch_size: 8, eval_every: 0, precision: fp32}
optimizer: {lr: 2.0e-3}
run_dir: run
YAML
"$drover" train run.yaml 2>err || cat err
model=run/checkpoints/step-000060

# --- what is a model, and where a prompt comes from
greedy="--temperature 0 --max-tokens 12"
want=$(gen $model --prompt "Document 7" $greedy)
check "the text begins with the prompt" test "${want:0:10}" = "Document 7"
check "and continues" test ${#want} -gt 12
check "a run directory" same "$(gen run --prompt "Document 7" $greedy)" "$want"
check "a config" same "$(gen run.yaml --prompt "Document 7" $greedy)" "$want"
printf 'Document 7' >prompt.txt
check "--prompt-file" same "$(gen $model --prompt-file prompt.txt $greedy)" "$want"
check "--prompt-file -" same "$(gen $model --prompt-file - $greedy <prompt.txt)" "$want"
check "--prompt -" same "$(gen $model --prompt - $greedy <prompt.txt)" "$want"
check "one thread" same "$(gen $model --prompt "Document 7" $greedy --threads 1)" "$want"

# --- samples
first=$(gen $model --prompt Document --max-tokens 12 --seed 3)
three=$(gen $model --prompt Document --max-tokens 12 --seed 3 --n 3)
check "the first of three is that of one" same "$(sed '/^---$/,$d' <<<"$three")" "$first"
check "three samples" same "$(grep -c '^---$' <<<"$three")" 2
check "the same seed again" same "$(gen $model --prompt Document --max-tokens 12 --seed 3 --n 3)" "$three"
gen $model --prompt Document --max-tokens 12 --n 8 --json >lines
check "others differ" test "$(json '"-".join(map(str, o["ids"]))' <lines | tr ' ' '\n' | sort -u | wc -l)" -gt 1
check "one object per sample" same "$(wc -l <lines)" 8
check "with these keys" same "$(json 'sorted(o) == ["finish_reason", "ids", "prompt", "prompt_tokens", "prompt_tokens_per_s", "text", "tokens", "tokens_per_s"]' <lines)" "True True True True True True True True"
check "tokens are counted" same "$(json 'o["tokens"] == len(o["ids"])' <lines | tr ' ' '\n' | sort -u)" True
check "--top-k 1 is greedy" same "$(gen $model --prompt "Document 7" --max-tokens 12 --top-k 1)" "$want"

# --- ends
text=$(gen $model --prompt "Document 7" $greedy --json | json 'o["text"]')
reason=$(gen $model --prompt "Document 7" --temperature 0 --max-tokens 3 --json | json '(o["finish_reason"], o["tokens"])')
check "length" same "$reason" "('length', 3)"
cut=$(gen $model --prompt "Document 7" $greedy --stop "zzz" --stop "${text:4:3}" --json | json '(o["finish_reason"], o["text"])')
check "stop" same "$cut" "('stop', $(python3 -c 'import sys; print(repr(sys.argv[1].split(sys.argv[2])[0]))' "$text" "${text:4:3}"))"
check "a stop text is not printed" same "$(gen $model --prompt "Document 7" $greedy --stop "${text:4:3}")" "Document 7${text%%"${text:4:3}"*}"
check "one that never comes changes nothing" same "$(gen $model --prompt "Document 7" $greedy --stop "${text: -1}zzz")" "$want"

# --- precision
check "fp32 by default for a run in fp32" grep -q "fp32 weights" <(gen $model --prompt D --max-tokens 2 >/dev/null; cat err)
gen $model --prompt D --max-tokens 2 --precision bf16 >/dev/null
check "bf16 when asked for" grep -q "bf16 weights" err
cp -r $model half && rm half/manifest.json && sed -i 's/"float32"/"bfloat16"/' half/config.json
gen half --prompt D --max-tokens 2 >/dev/null
check "bf16 by config.json" grep -q "bf16 weights" err

# --- refused, before anything is printed
refused 2 "expected --max-tokens of at most" $model --prompt Document --max-tokens 300
refused 2 "the prompt has" $model --prompt "$(printf 'hens %.0s' $(seq 300))"
refused 2 "exclude each other" $model --prompt x --prompt-file prompt.txt
refused 2 "expected bf16, fp32 or blocks" $model --prompt x --precision int8
refused 2 "--stop is empty" $model --prompt x --stop ""
refused 2 "expected a whole number" $model --prompt x --top-k -1
refused 1 "nothing.txt" $model --prompt-file nothing.txt
refused 1 'could not read "tok": it is a folder' $model --prompt-file tok
cp -r $model huge && rm huge/manifest.json
sed -i 's/"hidden_size": [0-9]*/"hidden_size": 65536/; s/"intermediate_size": [0-9]*/"intermediate_size": 262144/; s/"num_hidden_layers": [0-9]*/"num_hidden_layers": 100/' huge/config.json
refused 1 "for keys and values" huge --prompt x
refused 1 "expected a Hugging Face folder" nowhere --prompt x
finish
