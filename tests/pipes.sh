#!/bin/bash
# Inputs that are pipes are read like files, and a run outlives the reader of its messages.
. "$(dirname "$0")"/story.bash
make_data

# --- inputs: standard input and <(...) in place of files
set_dir="--set run_dir=runs/same"
"$drover" config run.yaml $set_dir >want 2>err
expect 0 "sequence_length: 64" "$drover" config /dev/stdin $set_dir <run.yaml
piped() { cat run.yaml | "$drover" config /dev/stdin $set_dir; }
expect 0 "sequence_length: 64" piped
cmp -s out want && ok || bad "a config by a pipe is another"
expect 0 "sequence_length: 64" "$drover" config <(cat run.yaml)
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }};{%% endfor %%}' >template
"$drover" chat --template <(cat template) --messages <(echo '[{"role": "user", "content": "a fox"}]') --print >out 2>&1
check "chat with two pipes" [ "$(cat out)" = "user: a fox;" ]
long='[{"role": "user", "content": "'$(printf '%0200000d' 7)'"}]'
"$drover" chat --template template --messages <(echo "$long") --print >out 2>&1
[ "$(tr -dc 07 <out | wc -c)" = 200000 ] && ok || bad "a long conversation by a pipe is cut"
expect 1 "not valid JSON" "$drover" chat --template template --messages <(true) --print

# --- messages that nobody reads any more. Descriptor 4 is a pipe whose reader is gone.
mkfifo fifo
exec 3<>fifo 4>fifo 3<&-
unread() { # unread CODE COMMAND...: exit status, with messages that nobody reads
    local code=$1 got
    shift
    "$@" >out 2>&4
    got=$?
    [ $got = "$code" ] && ok || bad "exit $got, expected $code, without a reader: $*"
}
"$drover" train run.yaml --set run_dir=straight >out 2>&1
sums straight 000040 >want
unread 0 "$drover" train run.yaml --set run_dir=unread
check "its messages are in log.txt" grep -q "done: step 40 of 40" unread/log.txt
[ -d unread/checkpoints/step-000040 ] && sums unread 000040 | cmp -s - want && ok || bad "it has other bits"
unread 0 "$drover" data build --input text.txt --tokenizer tok --out data/unread --append-eod
expect 0 ": ok" "$drover" data verify data/unread
unread 1 "$drover" train nowhere.yaml

# --- a result that nobody reads ends the program by SIGPIPE, in silence
"$drover" data show data/set --document 0 --tokenizer tok >&4 2>err
code=$?
check "a result without a reader exits $code, not 141" [ $code = 141 ]
check "it complains" [ ! -s err ]
finish
