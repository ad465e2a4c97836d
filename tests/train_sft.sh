#!/bin/bash
# SFT from JSON lines to a trained model: which tokens are answers, what the loss counts, whole examples in rows,
# long ones cut or left out and counted, runs resumed to the bit, damaged roles refused.
golden=$(realpath "$(dirname "$0")"/golden)
. "$(dirname "$0")"/story.bash
make_data
awk 'BEGIN { for (i = 0; i < 120; i++) printf "{\"messages\": [{\"role\": \"user\", \"content\": \"Where is fox %d?\"}, {\"role\": \"assistant\", \"content\": \"By hen %d.\"}, {\"role\": \"user\", \"content\": \"And dog %d?\"}, {\"role\": \"assistant\", \"content\": \"With hen %d.\"}]}\n", i, i * 7 % 31, i, i * 5 % 13 }' >chat.jsonl
cat >chat.jinja <<'JINJA'
{% for m in messages %}<{{ m.role }}>{{ m.content }}</>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}
JINJA
build=("$drover" data build --sft --tokenizer tok --template chat.jinja)
expect 0 "120 documents" "${build[@]}" --input chat.jsonl --out data/chat
says "tokens of answers" "of last answers"
expect 0 "" "$drover" data show data/chat --tokenizer tok
says "<user>Where is fox 0?</>" "<assistant>[[By hen 0.</>" "<assistant>[[*With hen 0.</>"
check "a question counts" eval '! grep -qF "[[Where" out'

# what a set says of itself
expect 0 "" "$drover" data info data/chat --sequence-length 32
says "of last answers" "0 of 120 examples have none" "120 of 120 examples for rows of 32 tokens" "chat.jinja"
expect 0 '"examples_without_answer":0' "$drover" data info data/chat --json
expect 0 "data/chat.roles: ok" "$drover" data verify data/chat
says "in 120 of 120 examples"
expect 2 "has no .roles" "$drover" data info data/set --sequence-length 32

# a template that asks for the date is told today's, the one that is given, or that of the environment
echo '{{ strftime_now("%d %b %Y") }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}' >dated.jinja
dated=("$drover" data build --sft --tokenizer tok --template dated.jinja --input chat.jsonl)
shown() { "$drover" data show "$1" --tokenizer tok | head -c 11; }
expect 0 "dated.jinja reads the date, which is set to $(date +%F)" "${dated[@]}" --out data/today
expect 0 "which is set to 2024-02-29" "${dated[@]}" --date 2024-02-29 --out data/leap
check "the date given" [ "$(shown data/leap)" = "29 Feb 2024" ]
expect 0 "which is set to 2001-09-09" env SOURCE_DATE_EPOCH=1000000000 "${dated[@]}" --out data/epoch
check "the date of SOURCE_DATE_EPOCH" [ "$(shown data/epoch)" = "09 Sep 2001" ]
expect 2 'the date is "2023-02-29", expected one as 2026-11-22' "${dated[@]}" --date 2023-02-29 --out data/no
expect 2 "SOURCE_DATE_EPOCH" env SOURCE_DATE_EPOCH=soon "${dated[@]}" --out data/no

# texts that went through a template have BOS already: it is put there once, and a line says so
printf '{"text": "<s>Who are you?"}\n{"text": "Hi"}\n' >begun.jsonl
expect 0 "texts begin with <s> already" "$drover" data build --input begun.jsonl --tokenizer $golden/sft --out data/begun
check "BOS once" [ "$("$drover" data show data/begun --document 0 --tokenizer $golden/sft | head -c 6)" = "<s>Who" ]

# one array of objects, as Alpaca is published, gives the same set
{ echo '['; sed '$!s/$/,/' chat.jsonl; echo ']'; } >chat.json
expect 0 "120 documents" "${build[@]}" --input chat.json --out data/array
check "an array gives other tokens" cmp data/array.bin data/chat.bin
check "an array gives other roles" cmp data/array.roles data/chat.roles
{ echo '['; sed 's/$/,/' chat.jsonl; } >cut.json
expect 2 "cut.json: a broken JSON array: after element 120: the file ends within the array" "${build[@]}" --input cut.json --out data/cut

# Parquet with the usual columns, recognised by its first bytes too
parquet=$golden/parquet
cp "$parquet"/alpaca.parquet alpaca
expect 0 "2 documents" "${build[@]}" --input alpaca --out data/alpaca
expect 0 "" "$drover" data show data/alpaca --tokenizer tok
says "<user>a</>" "<assistant>[[*c</>"
expect 0 "documents" "${build[@]}" --input "$parquet"/chat2.parquet --out data/nested
expect 2 'no text column with a known name' "${build[@]}" --input "$parquet"/numbers.parquet --out data/none

cat >sft.yaml <<YAML
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: data/chat, valid: data/chat, sequence_length: 128}
training: {steps: 12, global_batch_size: 4, micro_batch_size: 2, precision: bf16}
schedule: {warmup_steps: 2, type: constant}
checkpoint: {every: 3, keep: 4}
YAML
first_loss() { grep -m 1 '"step":1,' "$1/metrics.jsonl" | grep -o '"loss":[0-9.]*'; }
answers=$(awk '{ n += $1 } END { print n }' <<<"$("${build[@]}" --input chat.jsonl --out data/again 2>&1 | grep -o '[0-9]* tokens of answers')")

# --- what counts
expect 0 "step-000012" "$drover" train sft.yaml --set run_dir=straight
says "120 examples in"
expect 0 "tokens $answers" "$drover" eval straight --data data/chat
expect 0 "step-000012" "$drover" train sft.yaml --set run_dir=last --set data.loss=last
expect 0 "step-000012" "$drover" train sft.yaml --set run_dir=all --set data.loss=all
check "data.loss changes nothing" [ "$(first_loss straight)" != "$(first_loss last)" -a "$(first_loss straight)" != "$(first_loss all)" ]

# A step over all rows, in micro-batches of one, has the loss that eval gives the model before it: the
# mean over the tokens that count, of each example alone.
rows=$(grep -m 1 -o 'examples in [0-9]* rows of 128' straight/log.txt | grep -o '[0-9]*' | head -n 1)
for loss in responses last all; do
    expect 0 "done" "$drover" train /dev/stdin --set run_dir=whole-$loss --set data.loss=$loss <<YAML
model: {from: straight/checkpoints/step-000012}
data: {train: data/chat, sequence_length: 128}
training: {steps: 1, global_batch_size: $rows, micro_batch_size: 1, precision: fp32, eval_every: 0}
YAML
    expect 0 '"loss":' "$drover" eval straight --data data/chat --set data.loss=$loss --precision fp32 --json
    check "data.loss $loss: eval says $(grep -o '"loss": *[0-9.]*' out)" \
        [ "$(grep -o '"loss": *[0-9.]*' out | grep -o '[0-9]\.[0-9]\{5\}')" = "$(first_loss whole-$loss | grep -o '[0-9]\.[0-9]\{5\}')" ]
done

# --- stopped and resumed
sums straight 000012 >want
expect 0 "step-000006" "$drover" train sft.yaml --set run_dir=resumed --set training.steps=6
expect 0 "resumed from resumed/checkpoints/step-000006" "$drover" train sft.yaml --set run_dir=resumed
check "a resumed run gives other bits" eval 'sums resumed 000012 | cmp -s - want'
expect 0 "data.loss" "$drover" train sft.yaml --set run_dir=resumed --set training.steps=14 --set data.loss=last

# --- examples longer than a row
expect 0 "120 examples in" "$drover" train sft.yaml --set run_dir=cut --set data.sequence_length=32 --set training.steps=2
says "cut"
expect 1 "nothing to predict in 120 examples (data.loss: responses); 120 longer than 33 tokens are left out" "$drover" train sft.yaml --set run_dir=drop --set data.sequence_length=32 --set data.too_long=drop --set training.steps=2
# counts of what is packed, not of what the set has: the second answer begins after 32 tokens, the third ends there
long=$(printf 'word %.0s' {1..60})
printf '{"prompt": "%s", "response": "%s"}\n' a b "$long" c d "$long" >mixed.jsonl
expect 0 "3 documents" "${build[@]}" --input mixed.jsonl --out data/mixed
mixed=("$drover" train sft.yaml --set data.train=data/mixed --set data.valid=data/mixed --set data.sequence_length=32 --set training.steps=1)
expect 0 "data/mixed: 2 of 3 examples in 2 rows" "${mixed[@]}" --set run_dir=mixed
says "2 longer than 33 tokens are cut off there" "1 without a token to learn are left out"
expect 0 "data/mixed: 1 of 3 examples in 1 row" "${mixed[@]}" --set run_dir=fewer --set data.too_long=drop

# --- a template that ends turns with a token that is not the model's end of a text: answers end there, too
expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --special '<|endoftext|>' --special '<|im_start|>' \
    --special '<|im_end|>' --out turns
cat >turns/chat_template.jinja <<'JINJA'
{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
JINJA
yes '{"prompt": "Say", "response": "fox"}' | head -40 >say.jsonl
expect 0 "40 documents" "$drover" data build --sft --input say.jsonl --tokenizer turns --out data/turns
turns=("$drover" train sft.yaml --set tokenizer=turns --set data.train=data/turns --set data.sequence_length=64 --set training.eval_every=0
    --set 'data.valid=[]' --set optimizer.lr=1e-2 --set checkpoint.every=60)
expect 0 'answers of "data/turns" end with <|im_end|> (2)' "${turns[@]}" --set run_dir=turned --set training.steps=60
eos=$(tr -d ' \n' <"$(newest turned)/generation_config.json")
check "eos_token_id has no end of a turn: $eos" grep -q '"eos_token_id":\[0,2\]' <<<"$eos"
answer=$("$drover" chat turned --temperature 0 --max-tokens 8 <<<"Say" 2>err)
check "chat does not end with the turn: $answer" [ "$answer" = fox ]
prompt=$'<|im_start|>user\nSay<|im_end|>\n<|im_start|>assistant\n'
expect 0 "fox" "$drover" generate turned --prompt "$prompt" --temperature 0 --max-tokens 8 --json
says '"stop"'
cp -r "$(newest turned)" alone && rm alone/generation_config.json alone/manifest.json
answer=$("$drover" chat alone --temperature 0 --max-tokens 8 <<<"Say" 2>err)
check "nor does chat by the template alone: $answer" [ "$answer" = fox ]

# the text of an end that is no token
sed 's/<|im_end|>/<_end_>/g' turns/chat_template.jinja >text.jinja
expect 0 "40 documents" "$drover" data build --sft --input say.jsonl --tokenizer turns --template text.jinja --out data/text
expect 0 "step-000060" "${turns[@]}" --set run_dir=text --set data.train=data/text --set training.steps=60
answer=$("$drover" chat text --template text.jinja --temperature 0 --max-tokens 20 <<<"Say" 2>err)
check "chat does not end with the text of a turn's end: $answer" [ "$answer" = fox ]

# A template that was given goes with the checkpoints: chat and export know it, and two that differ are not mixed.
answer=$("$drover" chat text --temperature 0 --max-tokens 20 <<<"Say" 2>err)
check "chat does not know the template of the data: $answer" [ "$answer" = fox ]
check "the template of a file" cmp text.jinja "$(newest text)/chat_template.jinja"
expect 0 "" "$drover" ckpt export text --gguf text.gguf
check "the template in GGUF" grep -q "_end_" text.gguf
echo '[{"role": "user", "content": "Say"}]' >say.json
"$drover" tokenizer train --input text.txt --vocab-size 400 --bos '<s>' --eos '</s>' --out begins 2>out
rm begins/special_tokens_map.json && echo '{"bos_token": "<s>"}' >begins/tokenizer_config.json # </s> ends a text by its name
for tokenizer in turns begins; do
    alpaca=(--set tokenizer=$tokenizer --set data.train=data/alpaca-$tokenizer --set data.sequence_length=256 --set training.steps=1 --set checkpoint.every=1)
    expect 0 "40 documents" "$drover" data build --sft --input say.jsonl --tokenizer $tokenizer --template alpaca --out data/alpaca-$tokenizer
    expect 0 "was built with the template alpaca: the checkpoints carry it as chat_template.jinja" "${turns[@]}" "${alpaca[@]}" --set run_dir=alpaca-$tokenizer
    "$drover" data show data/alpaca-$tokenizer --tokenizer $tokenizer --document 0 | tr -d '[]*' >want
    echo '[{"role": "user", "content": "Say"}, {"role": "assistant", "content": "fox"}]' >said.json
    "$drover" chat alpaca-$tokenizer --messages said.json --print >got 2>err
    echo >>got
    check "alpaca of $tokenizer" diff got want
done
expect 0 '"data/alpaca-turns" and "data/text" were built with different chat templates' "${turns[@]}" "${alpaca[@]}" --set tokenizer=turns \
    --set 'data.train=[{prefix: data/alpaca-turns}, {prefix: data/text}]' --set run_dir=mixed-templates
check "the tokenizer's own" cmp turns/chat_template.jinja "$(newest mixed-templates)/chat_template.jinja"

# --- weights alone are enough for those who do not train
rm "$(newest turned)/optimizer.safetensors"
for verb in "generate turned --prompt x --max-tokens 1" "eval turned --data data/turns" "ckpt export turned --out exported"; do
    expect 0 "optimizer.safetensors is missing: the weights can be used" "$drover" $verb
done
expect 1 "optimizer.safetensors: missing" "${turns[@]}" --set run_dir=turned --set training.steps=70

# --- roles that are not those of the tokens
cp data/chat.roles kept
head -c 100 kept >data/chat.roles
expect 1 "data/chat.roles" "$drover" train sft.yaml --set run_dir=short
{ printf '\x09'; tail -c +2 kept; } >data/chat.roles
expect 1 "data/chat.roles" "$drover" train sft.yaml --set run_dir=strange
cp kept data/chat.roles

# --- lines that are not examples are skipped, named and counted
printf '%s\n' '{"prompt": "a"}' '[1]' '{"messages": [{"role": "assistant", "content": "x"}, 3]}' >odd.jsonl
head -3 chat.jsonl >>odd.jsonl
expect 0 "skipped 3 records" "${build[@]}" --input odd.jsonl --out data/odd
says 'odd.jsonl:1: "prompt" has no answer in the same record' "odd.jsonl:2: no JSON object" "odd.jsonl:3:" "3 documents"
finish
