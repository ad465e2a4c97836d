#!/bin/bash
# drover chat as a user of pipes and a person who presses Ctrl-C see it: each turn sees those before it, answers are
# what generate writes after the rendered conversation, commands, what is refused. usage: chat_verb.sh DROVER
. "$(dirname "$0")"/story.bash
same() { [ "$1" = "$2" ] || { printf '"%s"\n is not\n"%s"\n' "$1" "$2" >out; false; }; }
differ() { [ "$1" != "$2" ] || { printf '"%s" twice\n' "$1" >out; false; }; }
chat() { "$drover" chat "$@" 2>err; }
make_data
expect 0 "step-000006" "$drover" train run.yaml --set training.steps=6 --set run_dir=pre \
    --set model.max_position_embeddings=16384 --set training.precision=fp32
model=$(realpath pre/checkpoints/step-000006)
greedy="--temperature 0 --max-tokens 8 --repetition-penalty 20"

# --- a model that has no template
expect 1 "has no chat template; give one by --template FILE" "$drover" chat $model </dev/null
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}' \
    >template
first=$(chat $model --template template $greedy <<<"Document 7")
cp template $model/chat_template.jinja
check "a file's template and the model's" same "$(chat $model $greedy <<<"Document 7")" "$first"
check "an answer" [ -n "$first" ]
check "the model's own by its name" same "$(chat $model --template chat $greedy <<<"Document 7")" "$first"

# --- a built-in template: what data build makes of the same question
echo '[{"role": "user", "content": "Where is the fox?"}]' >question.json
echo '{"instruction": "Where is the fox?", "output": "By the hen."}' >alpaca.jsonl
expect 0 "1 document" "$drover" data build --sft --template alpaca --input alpaca.jsonl --tokenizer $model --out alpaca
check "alpaca" same "$(chat $model --template alpaca --messages question.json --print)" \
    "$("$drover" data show alpaca --tokenizer $model | sed 's/\[\[.*//')"
check "an answer under alpaca" [ -n "$(chat $model --template alpaca $greedy <<<"Where is the fox?")" ]

# --- the second answer is what generate writes after both turns
both=$(chat $model $greedy --system "The fox" <<<$'Document 7\n\ntells of')
check "the same again" same "$(chat $model $greedy --system "The fox" <<<$'Document 7\n\ntells of')" "$both"
python3 - "$drover" $model <<'PY' >python.txt 2>&1
import json, subprocess, sys
drover, model = sys.argv[1:]

def answer(messages):
    json.dump(messages, open("messages.json", "w"))
    text = subprocess.run([drover, "chat", model, "--messages", "messages.json", "--print", "--generation-prompt"],
                          check=True, capture_output=True, text=True).stdout
    out = subprocess.run([drover, "generate", model, "--prompt", text, "--temperature", "0", "--max-tokens", "8", "--repetition-penalty", "20",
                          "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["text"]

messages, answers = [{"role": "system", "content": "The fox"}], ""
for text in "Document 7", "tells of":
    messages.append({"role": "user", "content": text})
    messages.append({"role": "assistant", "content": answer(messages)})
    answers += messages[-1]["content"] + "\n"
print(answers, end="")
PY
check "a conversation is the rendered text, continued" same "$(cat python.txt)" "$both"
draws=$(chat $model --max-tokens 8 --seed 3 <<<$'Document 7\ntells of')
check "the same seed" same "$(chat $model --max-tokens 8 --seed 3 <<<$'Document 7\ntells of')" "$draws"
check "another seed" differ "$(chat $model --max-tokens 8 --seed 4 <<<$'Document 7\ntells of')" "$draws"

# --- commands
answers() { chat $model $greedy --stop $'\n' "$@"; } # a line each
answers <<<$'Document 7\nDocument 7\n/reset\nDocument 7' >three
check "three answers" same "$(wc -l <three)" 3
check "a turn sees the one before" differ "$(sed -n 2p three)" "$(sed -n 1p three)"
check "/reset starts over" same "$(sed -n 3p three)" "$(sed -n 1p three)"
check "/system is --system" same "$(answers <<<$'/system The fox\nDocument 7')" "$(answers --system "The fox" <<<"Document 7")"
check "and is seen" differ "$(answers --system "The fox" <<<"Document 7")" "$(sed -n 1p three)"
check "/system alone" same "$(answers --system "The fox" <<<$'/system\nDocument 7')" "$(sed -n 1p three)"
check "/exit" same "$(answers <<<$'Document 7\n/exit\nDocument 7')" "$(sed -n 1p three)"
check "a line without its end" same "$(printf 'Document 7' | answers)" "$(sed -n 1p three)"
check "a line of DOS" same "$(printf 'Document 7\r\n' | answers)" "$(sed -n 1p three)"
check "/help prints nothing" same "$(chat $model <<<"/help")" ""
check "/help" grep -q "/reset  *forget the turns" err
printf '%s' '{{ messages[-1].content }}' >last
check "//" same "$(chat $model $greedy --template last <<<"//x")" \
    "$("$drover" generate $model --prompt /x $greedy --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["text"])')"
expect 1 "line 2 of standard input: \"/resett\" is not a command, did you mean \"/reset\"" \
    "$drover" chat $model <<<$'\n/resett'

# --- the context: the oldest turns make room, one that is too long alone is refused
answers --context 48 <<<$'Document 7\nDocument 8\nDocument 9\nDocument 10' >dropped
check "four answers" same "$(wc -l <dropped)" 4
check "the oldest are dropped" grep -q "the context is full: the oldest . of the questions" err
expect 1 "line 1 of standard input: the message has" "$drover" chat $model --context 16 <<<"$(make_text | head -c 300 | tr '\n' ' ')"
says "expected fewer than the context of 16"
expect 2 "are more than the model's context of 16384" "$drover" chat $model --context 20000 <<<x
expect 2 "chat: --stop is empty" "$drover" chat $model --stop "" <<<x
expect 2 "chat: --messages needs --print" "$drover" chat $model --messages messages.json
printf '%s' '{{ raise_exception("no foxes") }}' >refusing
expect 1 "no foxes" "$drover" chat $model --template refusing <<<x

# --- an adapter
cat >lora.yaml <<YAML
model: {from: $model}
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 4, global_batch_size: 8, micro_batch_size: 8, eval_every: 0, precision: fp32}
lora: {rank: 4, alpha: 64}
optimizer: {lr: 0.05}
YAML
expect 0 "step-000004" "$drover" train lora.yaml --set run_dir=lora
adapted=$(answers --adapter lora <<<"Document 7")
check "--adapter" differ "$adapted" "$(sed -n 1p three)"
check "an adapter in the place of the model" same "$("$drover" chat lora $greedy --stop $'\n' 2>err <<<"Document 7")" "$adapted"

# --- Ctrl-C ends an answer, and at the prompt the conversation
mkfifo input said
"$drover" chat $model --temperature 0 --stop ";;;;" --context 16384 <input >said 2>noted &
pid=$!
exec 7>input 8<said
# A pipe of a page that nobody reads holds the answer up: however late Ctrl-C comes, it has not ended.
python3 -c 'import fcntl; fcntl.fcntl(8, 1031, 4096)' # F_SETPIPE_SZ
echo "Document 7" >&7
check "an answer is streamed" read -r -t 120 -N 1 -u 8
kill -INT $pid
cat <&8 >/dev/null & # until the program ends
check "Ctrl-C stops it" wait_for grep -q "stopped; the conversation keeps the unfinished answer" noted
echo "/help" >&7
check "and no more than it" wait_for grep -q "leave, as at the end" noted
kill -INT $pid
wait $pid
check "Ctrl-C at the prompt leaves" same $? 0
exec 7>&-
finish
