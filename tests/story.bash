# Sourced by the shell tests: a folder of its own, counts, and what a story is told with. $1 of the test is
# the program. `finish` prints the counts; its status is the test's.
. "$(dirname "${BASH_SOURCE[0]}")"/program.bash
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export OMP_WAIT_POLICY=passive # other tests run beside this one
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $1"; [ -z "$2" ] || sed 's/^/    /' "$2"; }
# check WHAT COMMAND...: the command succeeds
check() {
    local what=$1
    shift
    if "$@"; then ok; else bad "$what" out; fi
}
# out_has TEXT: it stands in `out`. (Without a process: there are thousands of these.)
out_has() {
    local all
    IFS= read -r -d '' all <out
    [[ $all == *"$1"* ]]
}
# expect CODE TEXT COMMAND...: exit status and a text in its output, which is left in `out`
expect() {
    local code=$1 text=$2
    shift 2
    "$@" >out 2>&1
    local got=$?
    if [ $got != "$code" ]; then bad "exit $got, expected $code: $*" out
    elif ! out_has "$text"; then bad "no \"$text\" from: $*" out
    else ok; fi
}
# says TEXT...: the output of the last `expect` or background run has each text
says() {
    local text
    for text in "$@"; do
        if out_has "$text"; then ok; else bad "no \"$text\"" out; fi
    done
}
finish() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
# Each test has loopback addresses of its own: they are made of its process number, which no other process has at that time.
# A program that listens there takes a port that is free, and says which.
own_address() { echo 127.$(($1 + ($$ >> 16) % 64)).$(($$ >> 8 & 255)).$(($$ & 255)); } # SECOND BYTE, of 64 numbers
address=$(own_address 64) port=0
# learn_port FILE [TEXT]: sets `port` to the one that stands there behind TEXT and the address of this test; TEXT is what
# `drover launch node` of node 0 says
learn_port() {
    local text="${2:-waiting for node.* at }$address:"
    wait_for grep -q "$text" "$1"
    port=$(sed -n "s/.*$text\([0-9]*\).*/\1/p" "$1" | head -n 1)
}
# make_text > FILE; make_data: tokenizer in tok/ (400 tokens), data set data/set (3000 documents), run.yaml
make_text() {
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "Document %d tells of the fox, the dog and %d lazy hens.\n\n", i, i * i % 97 }'
}
make_data() {
    make_text >text.txt
    expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok
    expect 0 "3000 documents" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
    cat >run.yaml <<YAML
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 40, global_batch_size: 8, micro_batch_size: 2, eval_every: 0, precision: bf16}
schedule: {warmup_steps: 5}
checkpoint: {every: 3, keep: 2}
YAML
}
# make_adapter MODEL: one step of LoRA on it by data/set, in the run directory tuned
make_adapter() {
    cat >lora.yaml <<YAML
model: {from: $1}
data: {train: data/set, sequence_length: 64}
training: {steps: 1, global_batch_size: 8, micro_batch_size: 8}
lora: {rank: 4}
run_dir: tuned
YAML
    expect 0 "step-000001" "$drover" train lora.yaml
}
# make_chat: 150 conversations in chat.jsonl, chat.jinja, data set data/chat
make_chat() {
    awk 'BEGIN { for (i = 0; i < 150; i++) printf "{\"prompt\": \"Where is fox %d?\", \"response\": \"By hen %d.\"}\n", i, i * 7 % 31 }' >chat.jsonl
    cat >chat.jinja <<'JINJA'
{% for m in messages %}<{{ m.role }}>{{ m.content }}</>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}
JINJA
    expect 0 "150 documents" "$drover" data build --sft --input chat.jsonl --tokenizer tok --template chat.jinja --out data/chat
}
# The bits of a checkpoint that a resume depends on: sums RUN_DIR STEP
sums() { (cd "$1/checkpoints/step-$2" && sha256sum model.safetensors optimizer.safetensors trainer.json); }
# newest_step RUN: the step of its newest whole checkpoint, as the folder's name has it (000120); nothing where there is none. The
# name of a save that is under way (.tmp), or of one that was refused, is longer.
newest_step() { ls "$1"/checkpoints 2>/dev/null | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }
last_saved() { echo $((10#0$(newest_step "$1"))); } # RUN: that step as a number, 0 where there is none
# newest RUN: the folder of that checkpoint
newest() { echo "$1/checkpoints/step-$(newest_step "$1")"; }
# wait_for COMMAND...: until it succeeds, for at least two minutes; it is a failure that it does not
wait_for() {
    local i
    for i in $(seq 4000); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.03
    done
    bad "waited two minutes in vain for: $*" out
    return 1
}
# wait_end PID: as wait, but what has not ended in two minutes is ended, and a failure
is_gone() { ! kill -0 "$1" 2>/dev/null; }
wait_end() {
    if ! wait_for is_gone "$1"; then
        kill -TERM "$1"
        wait_for is_gone "$1" || kill -KILL "$1"
    fi
    wait "$1"
}
# interrupted_eval PATTERN ARGUMENTS...: drover eval on a terminal gets SIGINT once its progress matches PATTERN; all that it says
# is in `out`. Fails where no terminal is to be had. $tests: the folder of on_terminal.py.
interrupted_eval() {
    local pattern=$1
    shift
    "$tests"/on_terminal.py || return
    "$tests"/on_terminal.py "$pattern" err "$drover" eval "$@" >part
    code=$?
    cat part err >out
    check "interrupted, it exits $code instead of 3" [ $code = 3 ]
    says '"complete": false'
    return 0
}
