#!/bin/bash
# Disks that are full, data that goes away, tokens and weights that are not what they should be: what was
# trained is saved, and the message says what was wrong.
. "$(dirname "$0")"/story.bash
make_data

# --- saving fails
# A file size limit stands for a full disk: the model has more than 300 KiB.
(ulimit -f 300; exec "$drover" train run.yaml --set run_dir=disk --set checkpoint.give_up_minutes=0 >out 2>&1)
check "three failed saves in a row exit $?, not 1" [ $? = 1 ]
says "could not save checkpoint" "training continues and tries again" "3 times in a row"
check "training did not go on after the first failed save" grep -q '"step":9,' disk/metrics.jsonl
check "a failed save leaves something" [ -z "$(ls disk/checkpoints)" ]
"$drover" train run.yaml --set run_dir=room >out 2>&1 && cp -r room full2
(ulimit -f 300; exec "$drover" train run.yaml --set run_dir=full2 --set training.steps=41 >out 2>&1)
check "a failed save at the end exits $?, not 1" [ $? = 1 ]
expect 0 ": ok" "$drover" ckpt verify full2/checkpoints/step-000040
# Failed saves, then room again: the limit of the running process is lowered and raised, and saves are asked for one by one.
"$drover" train run.yaml --set run_dir=once --set training.steps=100000 --set checkpoint.every=0 --set training.global_batch_size=64 >out 2>&1 &
pid=$!
wait_for grep -q '"step":4,' once/metrics.jsonl
full() { prlimit --pid $pid --fsize=300000:unlimited 2>/dev/null; }
room() { prlimit --pid $pid --fsize=unlimited:unlimited; }
more_lines() { [ "$(grep -c "$1" out)" -gt "$2" ]; }
save() { # TEXT: what is said of a save that is asked for now
    local before
    before=$(grep -c "$1" out)
    kill -USR2 $pid
    wait_for more_lines "$1" "$before"
}
if full && save "could not save"; then
    room && save "^checkpoint: "
    # However often saves fail, they have checkpoint.give_up_minutes, and the next that succeeds forgives them.
    full && save "could not save" && save "could not save" && save "could not save" && save "could not save"
    room && save "^checkpoint: "
    check "not five failed saves" [ "$(grep -c "could not save" out)" = 5 ]
    kill -TERM $pid
    wait_end $pid
    check "a save after failed ones exits $?, not 3" [ $? = 3 ]
    expect 0 ": ok" "$drover" ckpt verify "$(newest once)"
else
    echo "not tried: a disk that has room again (prlimit does not work here)"
    kill -TERM $pid
    wait_end $pid
fi
touch file
expect 1 "file" "$drover" train run.yaml --set run_dir=file/run

# --- data
expect 1 "nowhere.idx" "$drover" train run.yaml --set run_dir=nodata --set data.train=nowhere
says "data.train"
expect 2 "more than model.vocab_size 300" "$drover" train run.yaml --set run_dir=vocab --set model.vocab_size=300
expect 1 "expected 0 to 299" "$drover" train run.yaml --set run_dir=vocab --set model.vocab_size=300 --set tokenizer=
check "a step is done with tokens outside the vocabulary" [ ! -s vocab/metrics.jsonl ]
# The same without PREFIX.idx.json, and only in the last document of the validation set.
mkdir other && cp data/set.bin data/set.idx other/
printf '\217\001' | dd of=other/set.bin bs=1 conv=notrunc seek=$(($(stat -c %s other/set.bin) - 2)) 2>/dev/null
expect 1 "is 399, expected 0 to 398" "$drover" train run.yaml --set run_dir=last --set data.train=other/set \
    --set model.vocab_size=399 --set tokenizer= --set data.split='[1, 1, 0]'
check "a step is done before the whole set is checked" [ ! -s last/metrics.jsonl ]
# Shortened or gone while the run reads it.
for what in bin idx; do
    rm -rf other && mkdir other && cp data/set.bin data/set.idx other/
    "$drover" train run.yaml --set run_dir=cut$what --set data.train=other/set --set training.steps=100000 \
        --set training.global_batch_size=64 --set checkpoint.every=0 >out 2>&1 &
    pid=$!
    wait_for grep -q '"step":3,' cut$what/metrics.jsonl
    truncate -s 20 other/set.$what
    wait_end $pid
    check "a shortened .$what exits $?, not 1" [ $? = 1 ]
    says "shorter" "is saved"
    expect 0 ": ok" "$drover" ckpt verify "$(newest cut$what)"
done

# --- weights that are not numbers
"$drover" train run.yaml --set run_dir=good --set training.steps=1 >out 2>&1
folder=good/checkpoints/step-000001
cp -r $folder broken
header=$(od -An -t u8 -N 8 broken/model.safetensors | tr -d ' ')
printf '\000\000\300\177' | dd of=broken/model.safetensors bs=1 conv=notrunc seek=$((8 + header + 400)) 2>/dev/null
expect 1 "is NaN at [" "$drover" eval broken --data data/set --json
check "JSON holds nan" [ -z "$(grep '"loss"' out)" ]
expect 1 "is NaN at [" "$drover" generate broken --prompt x
# Weights that are numbers, but too large to compute with.
cp -r $folder huge
printf '\177\177\177\177' | dd of=huge/model.safetensors bs=1 conv=notrunc seek=$((8 + header + 400)) 2>/dev/null
expect 1 "expected a finite number; rows: data/set row" "$drover" eval huge --data data/set --json
check "JSON holds nan" [ -z "$(grep '"loss"' out)" ]
expect 1 "is NaN at [" "$drover" train run.yaml --set run_dir=frombroken --set model.preset= --set model.from=broken
# Gradients that are none: the last step is saved before the run ends.
expect 1 "steps in a row were skipped" "$drover" train run.yaml --set run_dir=nan --set optimizer.lr=1e3 \
    --set optimizer.clip_grad_norm=0 --set optimizer.weight_decay=1e3 --set optimizer.eps=0 --set training.steps=2000 \
    --set schedule.warmup_steps=0 --set schedule.type=constant --set checkpoint.every=0 --set training.max_bad_steps=2
says "is saved"
expect 0 ": ok" "$drover" ckpt verify "$(newest nan)"
check "the skipped steps have no null" grep -q '"grad_norm":null' nan/metrics.jsonl
check "JSON holds nan" [ -z "$(grep -i '[^a-z"]-*\(nan\|inf\)' nan/metrics.jsonl)" ]
finish
