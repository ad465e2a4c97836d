#!/bin/bash
# How long a run is: epochs instead of steps, a warm-up that fits it, and a resume that goes on with more of them.
. "$(dirname "$0")"/story.bash
make_data
sed -i 's/training: {steps: 40, /training: {/; s/schedule:.*/schedule: {type: constant}/' run.yaml
train() { "$drover" train run.yaml --set run_dir="$1" "${@:2}"; }

# The rows of an epoch are what the log says of the data; a step takes 8.
expect 0 "step-000002" train two --set training.steps=2
rows=$(sed -n 's/.*data: \([0-9]*\) rows of 64 tokens an epoch.*/\1/p' two/log.txt)
check "the rows of an epoch are said" test "${rows:-0}" -gt 100
steps=$(((rows * 2 / 100 + 7) / 8)) # of 0.02 epochs, rounded up
expect 0 "step $steps/$steps" train part --set training.epochs=0.02
says "training.epochs 0.02 of $rows rows: $steps steps of 8 rows"
check "the steps of a run with training.epochs are in its status" grep -q "\"steps\": $steps," part/status.json
check "metrics of each step" test "$(grep -c '"loss"' part/metrics.jsonl)" = $steps
expect 0 "nothing to do: step $steps of $steps is done; raise training.epochs to go on" train part --set training.epochs=0.02

# Half of the rows are taken; the others make steps of other batches, rows of other lengths and numbers of epochs.
taken() { sed -n 's/^ *"rows_taken": \([0-9]*\),/\1/p' "$(newest "$1")/trainer.json"; }
half() { rm -rf half && cp -r part half && train half --set training.epochs="$1" "${@:2}"; }
part=$((steps * 8))
for batch in 2 16; do
    all=$((rows * 4 / 100)) more=$(((all - part + batch - 1) / batch))
    expect 0 "step $((steps + more))/$((steps + more))" half 0.04 --set training.global_batch_size=$batch --set training.micro_batch_size=1
    says "of $batch rows after the $part that are taken"
    check "steps of $batch rows: the rows of all epochs" test "$(taken half)" = $((part + more * batch))
done
expect 0 "nothing to do" half 0.01
expect 0 "data set data/set: the $part rows of 64 tokens that were taken count as $((part * 2)) of 32 tokens" half 0.04 --set data.sequence_length=32
check "rows of half the length: twice as many" test $(($(taken half) - part)) -ge $((rows * 8 / 100 - part * 2 - 8)) -a \
    $(($(taken half) - part)) -le $((rows * 8 / 100 - part * 2 + 8))

# The run's own config is one: it has the epochs, and resumes.
grep -q "epochs: 0.02" part/config.yaml && grep -q "steps: auto" part/config.yaml && ok || bad "config.yaml" part/config.yaml
more=$(((rows * 4 / 100 + 7) / 8))
expect 0 "resumed from part/checkpoints/" "$drover" train part/config.yaml --set training.epochs=0.04
says "step $more/$more" "changed since the last part: training.steps: $steps -> $more"
expect 0 "step $more/$more" train whole --set training.epochs=0.04 --set schedule.warmup_steps=$((steps / 10))
check "resumed with more epochs: the bits of one run" cmp "$(newest part)"/model.safetensors "$(newest whole)"/model.safetensors

# A plan counts the same; without data it knows no steps.
expect 0 "for $steps steps" "$drover" plan run.yaml --set training.epochs=0.02
expect 0 "the number of steps for training.epochs 2 depends on data.train" "$drover" plan run.yaml --set training.epochs=2 --set data.train=[]
expect 2 "training.epochs 2 and training.steps 3 (--set) exclude each other" "$drover" plan run.yaml --set training.epochs=2 --set training.steps=3

# A short run reaches its learning rate; one that does not says so.
lr_of() { sed -n "s/.*\"step\":$2,.*\"lr\":\([^,]*\),.*/\1/p" "$1"/metrics.jsonl; }
expect 0 "step 12/12" train short --set training.steps=12 --set optimizer.lr=0.001
check "the rate of step 1 is the peak" test "$(lr_of short 1)" = 0.001
! grep -q "warm-up" out && ok || bad "a warm-up that fits is warned of" out
expect 0 "the warm-up of 100 steps is longer than the run of 2: the learning rate ends at 2e-05 of optimizer.lr 0.001" \
    train long --set training.steps=2 --set optimizer.lr=0.001 --set schedule.warmup_steps=100
check "once" test "$(grep -c 'the warm-up of' out)" = 1

# --- a blend with other weights: each data set goes on with the row after the last one that was seen of it
expect 0 "1500 documents" "$drover" data build --input <(sed 's/fox/cow/' text.txt | head -n 3000) --separator $'\n\n' --tokenizer tok --out data/other --append-eod
# blend RUN STEPS WEIGHT WEIGHT: its rows, one a step, are known by their hashes
blend() {
    train "$1" --set training.steps="$2" --set data.train="[{prefix: data/set, weight: $3}, {prefix: data/other, weight: $4}]" \
        --set training.hash_every=1 --set training.global_batch_size=1 --set training.micro_batch_size=1 --set training.log_every=1000 \
        --set model.hidden_size=16 --set model.num_hidden_layers=1 --set checkpoint.every=0
}
expect 0 "" blend only 40 1 0
expect 0 "" blend other 40 0 1
expect 0 "" blend both 20 0.5 0.5
expect 0 "data set data/other: continues after 10 of the" blend both 40 0.9 0.1
check "each set in its own order, no row twice, none left out" python3 -c '
import json
def rows(run): return [json.loads(line)["batch"] for line in open(run + "/hashes.jsonl")]
of = {"only": rows("only"), "other": rows("other")}
for run, n in (("only", 10 + 18), ("other", 10 + 2)):
    seen = [row for row in rows("both") if row in of[run]]
    assert seen == of[run][:n], (run, len(seen))'

# --- every checkpoint of a run is verified, each in a line; one that is harmed fails it
expect 0 "" train kept --set training.steps=6 --set checkpoint.every=2 --set checkpoint.keep=0
expect 0 "kept/checkpoints/step-000002: ok" "$drover" ckpt verify kept
says "kept/checkpoints/step-000004: ok" "kept/checkpoints/step-000006: ok"
expect 0 '"valid": true' "$drover" ckpt verify kept --json
printf x | dd of=kept/checkpoints/step-000004/model.safetensors bs=1 seek=900 conv=notrunc status=none
expect 1 "kept/checkpoints: not valid: 1 of 3 checkpoints" "$drover" ckpt verify kept
says "step-000002: ok" "step-000004: kept/checkpoints/step-000004/model.safetensors" "step-000006: ok"
"$drover" ckpt verify kept --json >list.json 2>/dev/null
check "as a list" python3 -c 'import json; assert [c["valid"] for c in json.load(open("list.json"))] == [True, False, True]'
mkdir -p none/checkpoints
expect 1 "none/checkpoints holds no checkpoint" "$drover" ckpt verify none
finish
