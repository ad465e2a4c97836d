#!/bin/bash
# What drover reads whole is a file on a disk: a pipe that nobody writes to, a socket, an endless device or a folder in its
# place is refused by name, at once and in one line, whatever reads it. What a user names as an input may be a pipe
# (tests/pipes.sh); what a folder or a pattern gives may not.
. "$(dirname "$0")"/story.bash
make_data
expect 0 "step 3" "$drover" train run.yaml --set run_dir=base --set training.steps=3
cat >lora.yaml <<YAML
model: {from: base/checkpoints/step-000003}
data: {train: data/set, split: [90, 10, 0], sequence_length: 64}
training: {steps: 1, global_batch_size: 4, eval_every: 0}
lora: {rank: 2}
YAML
expect 0 "step-000001" "$drover" train lora.yaml --set run_dir=lora
expect 0 "" "$drover" ckpt export base --out sharded --max-shard-size 100KB --no-verify
mkfifo pipe
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
mkdir folder
ln -s /dev/zero device

# refused FILE KIND COMMAND...: with KIND in the place of FILE the command ends, not well, and says which file in one line
refused() {
    local file=$1 kind=$2 code
    shift 2
    mv "$file" kept && cp -a $kind "$file"
    timeout 300 "$@" >out 2>&1 </dev/null
    code=$?
    rm -rf "$file" && mv kept "$file"
    if [ $code = 124 ] || [ $code -gt 128 ] || [ $code = 0 ]; then bad "exit $code with a $kind as $file: $*" out
    elif ! out_has "$file"; then bad "$file is not named with a $kind in its place: $*" out
    else ok; fi
}
# every_kind FILE COMMAND...
every_kind() {
    local file=$1 kind
    shift
    for kind in pipe socket device folder; do refused "$file" $kind "$@"; done
}
# unread FILE COMMAND...: a pipe alone, where what lies there was never needed: the command ends
unread() {
    local file=$1
    shift
    mv "$file" kept && cp -a pipe "$file"
    timeout 300 "$@" >out 2>&1 </dev/null
    [ $? != 124 ] && ok || bad "a pipe as $file is waited for: $*" out
    rm "$file" && mv kept "$file"
}

# --- a checkpoint, whole and in parts
step=base/checkpoints/step-000003
for file in manifest.json trainer.json config.json model.safetensors optimizer.safetensors tokenizer.json; do
    every_kind $step/$file "$drover" ckpt verify $step
    refused $step/$file pipe "$drover" train base/config.yaml --set training.steps=4
done
for file in config.json model.safetensors tokenizer.json; do
    every_kind $step/$file "$drover" generate $step --prompt fox --max-tokens 1
done
for file in adapter_config.json adapter_model.safetensors base.json; do
    every_kind lora/checkpoints/step-000001/$file "$drover" ckpt verify lora/checkpoints/step-000001
done
for file in adapter_config.json adapter_model.safetensors; do
    every_kind lora/checkpoints/step-000001/$file "$drover" generate $step --adapter lora/checkpoints/step-000001 --prompt fox --max-tokens 1
done
for file in model.safetensors.index.json config.json $(cd sharded && ls model-00001-of-*); do
    every_kind sharded/$file "$drover" ckpt export sharded --out again --no-verify
done

# --- tokenizers, data sets, configs in a run directory
every_kind tok/tokenizer.json "$drover" data build --input text.txt --tokenizer tok --out data/other
for file in tokenizer_config.json special_tokens_map.json chat_template.jinja generation_config.json; do
    [ -e tok/$file ] || echo '{}' >tok/$file
    unread tok/$file "$drover" data build --input text.txt --tokenizer tok --out data/other
    unread tok/$file "$drover" train run.yaml --set run_dir=new --set training.steps=1 --fresh
done
for file in data/set.idx data/set.idx.json data/set.bin; do
    [ $file = data/set.idx.json ] || every_kind $file "$drover" data verify data/set
    unread $file "$drover" train run.yaml --set run_dir=new --set training.steps=1 --fresh
done
every_kind base/metrics.jsonl "$drover" plot base
unread base/config.yaml "$drover" train base
unread base/config.yaml "$drover" ckpt list base
unread base/config.yaml "$drover" eval base

# --- what a run appends to or writes aside: nobody reads a pipe there, and a device keeps nothing
again() { "$@" "$drover" train base/config.yaml --set training.steps=4 --set training.hash_every=1; }
for file in log.txt metrics.jsonl events.jsonl hashes.jsonl; do
    touch base/$file
    again every_kind base/$file
done
touch base/config.yaml.drover-tmp
for kind in pipe socket folder; do again refused base/config.yaml.drover-tmp $kind; done
ln -sf /dev/full base/config.yaml.drover-tmp # a link is no file of the run's: it goes, and nothing is written through it
again expect 0 "done: step 4 of 4"
check "a link is still in the place of a file that was written" [ ! -e base/config.yaml.drover-tmp ]

# --- inputs: a pipe that is named is read; one that a folder or a pattern gives is passed over
mkdir texts && cp text.txt texts/a.txt && mkfifo texts/b.txt
expect 0 "texts/b.txt is a pipe and is ignored" timeout 300 "$drover" data build --input texts --tokenizer tok --out data/folder
expect 0 "texts/b.txt is a pipe and is ignored" timeout 300 "$drover" data build --input 'texts/*.txt' --tokenizer tok --out data/pattern
timeout 300 cat text.txt >texts/b.txt &
expect 0 "" timeout 300 "$drover" data build --input texts/b.txt --tokenizer tok --out data/named
wait
check "the same tokens by a pipe" cmp data/named.bin data/folder.bin

# --- a folder that this user may not enter is said to be one, not to lack its files
other() { "$@"; }
[ "$(id -u)" != 0 ] || other() { setpriv --reuid=65534 --clear-groups "$@"; }
if other test -x "$drover"; then
    chmod 711 . && mkdir closed && chmod 000 closed
    [ "$(id -u)" != 0 ] || chmod 700 closed
    for command in "generate $PWD/closed --prompt x" "chat $PWD/closed" "tokenizer encode --tokenizer $PWD/closed"; do
        expect 1 "could not enter folder \"$PWD/closed\": Permission denied" other "$drover" $command </dev/null
    done
    chmod 700 closed
else
    echo "skipped: another user cannot run $drover"
fi
finish
