#!/bin/bash
# Preference pairs from JSON lines and Parquet to a trained model: what a set is, what is refused, rewards and accuracy,
# the reference's log-probabilities kept, used again, computed again, runs resumed to the bit.
golden=$(realpath "$(dirname "$0")"/golden)
. "$(dirname "$0")"/story.bash
make_data
cat >chat.jinja <<'JINJA'
{% for m in messages %}<{{ m.role }}>{{ m.content }}</>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}
JINJA
build=("$drover" data build --preference --tokenizer tok --template chat.jinja)
cp "$golden"/parquet/pairs.* .
expect 0 "data/pairs: 40 preference pairs" "${build[@]}" --input pairs.jsonl --out data/pairs
expect 0 "data/table: 40 preference pairs" "${build[@]}" --input pairs.parquet --out data/table
for file in bin idx roles pairs; do check "Parquet gives another .$file" cmp data/pairs.$file data/table.$file; done
expect 0 "" "$drover" data show data/pairs --tokenizer tok --document 3
says "<user>Where is fox 1?</>" "<assistant>[[*With the dog 1.</>"
expect 0 "pairs      40" "$drover" data info data/pairs
expect 0 '"pairs":40' "$drover" data info data/pairs --json
expect 0 "data/pairs.pairs: ok, 40 pairs" "$drover" data verify data/pairs
echo '{"chosen": "Human: who? Bot: a fox", "rejected": "Human: who? Bot: hens"}' >texts.jsonl
expect 0 "1 preference pair," "$drover" data build --preference --tokenizer tok --template none --input texts.jsonl --out data/texts
expect 0 "" "$drover" data show data/texts --tokenizer tok
says "Human: who? Bot:[[* a fox<|endoftext|>*]]"

# --- records without a pair end the build, and the set that was there stays
refused() { # TEXT RECORD
    { head -2 pairs.jsonl; echo "$2"; } >odd.jsonl
    expect 2 "odd.jsonl:3: $1" "${build[@]}" --input odd.jsonl --out data/pairs
    check "one line" [ "$(grep -c ^drover: out)" = 1 ]
}
refused 'no "rejected", expected a pair' '{"prompt": "a", "chosen": "b"}'
refused '"chosen" is empty' '{"prompt": "a", "chosen": "", "rejected": "b"}'
refused 'no prompt' '{"chosen": "b", "rejected": "c"}'
refused 'not valid JSON' '{"prompt": '
check "the set of before is gone" cmp data/pairs.bin data/table.bin
expect 2 "--preference" "${build[@]}" --sft --input pairs.jsonl --out data/no
expect 2 "--preference reads JSON" "${build[@]}" --input text.txt --out data/no

cat >dpo.yaml <<YAML
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2, intermediate_size: 160}
tokenizer: tok
data: {train: data/pairs, split: [80, 20, 0], sequence_length: 96}
training: {objective: dpo, steps: 6, global_batch_size: 4, micro_batch_size: 2, precision: fp32, eval_every: 6}
optimizer: {lr: 1.0e-3}
schedule: {warmup_steps: 1}
checkpoint: {every: 3}
YAML
expect 2 "data/pairs: a set of 40 preference pairs, expected a config with training.objective: dpo" "$drover" train dpo.yaml --set training.objective=tokens
expect 2 "data/set: not a set of preference pairs" "$drover" train dpo.yaml --set data.train=data/set
expect 2 'key "dpo.beta" is 0.2, but training.objective is tokens' "$drover" train run.yaml --set dpo.beta=0.2
expect 0 "total" "$drover" plan dpo.yaml
says "reference " "1.25 KiB beside the data" # of 40 pairs in the rows of training and in those of validation

# --- trained; the reference is kept beside the data
expect 0 "step-000006" "$drover" train dpo.yaml --set run_dir=straight
says "32 pairs in" "8 pairs in" "each prompt is computed once" "training pairs computed" "kept in data/pairs.reference-" "loss 0.6931" "accuracy"
check "metrics of pairs" grep -q '"rewards/chosen":.*"rewards/rejected":.*"rewards/margins":.*"rewards/accuracies":' straight/metrics.jsonl
check "those of evaluations in TensorBoard, too" bash -c '[ "$(grep -aoh "val_rewards/[a-z]*" straight/tensorboard/* | sort -u | wc -l)" = 4 ]'
# What eval says of the run in RUN is what its last validation said, in nine digits.
as_validated() { # RUN
    expect 0 '"pairs": 8' "$drover" eval "$1" --json
    check "eval of $1 says $(cat out), validation $(tail -1 "$1"/metrics.jsonl)" python3 - "$1"/metrics.jsonl <<'PY'
import json, sys
was, now = [json.loads(l) for l in open(sys.argv[1]) if "val_loss" in l][-1], json.loads(list(open("out"))[-1])
names = ["loss", "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"]
sys.exit([n for n in names if f"{was['val_' + n]:.9g}" != f"{now[n]:.9g}"] and 1 or 0)
PY
}
as_validated straight
cat data/pairs.reference-* >kept

# --- stopped and resumed, from what is kept; then without it, and with another model
sums straight 000006 >want
expect 3 "stopped" "$drover" train dpo.yaml --set run_dir=resumed --set training.stop_at_step=3
says "reference: log-probabilities of 32 pairs from data/pairs.reference-"
rm data/pairs.reference-*
expect 0 "training pairs computed" "$drover" train dpo.yaml --set run_dir=resumed
check "a resumed run gives other bits" eval 'sums resumed 000006 | cmp -s - want'
check "the reference has other bits" eval 'cat data/pairs.reference-* | cmp -s - kept'
for file in data/pairs.reference-*; do printf x | dd of="$file" bs=1 seek=400 conv=notrunc 2>dd.txt; done
expect 1 "the reference of this run" "$drover" train dpo.yaml --set run_dir=resumed --set training.steps=8 --set training.seed=5
says "it is damaged"
expect 2 "is of a run with training.objective tokens" bash -c "'$drover' train run.yaml --set run_dir=other --set training.steps=3 && exec '$drover' train dpo.yaml --set run_dir=other"

# --- without what is kept of the pairs' tokens these are read; another set in its place takes it away
cp data/pairs.pairs marks && printf x | dd of=data/pairs.pairs bs=1 seek=40 conv=notrunc 2>dd.txt
expect 1 "data/pairs.pairs: its hash is" "$drover" data verify data/pairs
expect 0 "32 pairs in" "$drover" train dpo.yaml --set run_dir=read
says "data/pairs.pairs: its hash is" "all tokens of the pairs are read instead"
check "pairs whose tokens are read give other bits" eval 'sums read 000006 | cmp -s - want'
mv marks data/pairs.pairs
cp data/pairs.pairs data/texts.pairs
expect 0 "" "$drover" data build --input text.txt --tokenizer tok --out data/texts
check "data/texts.pairs is of a set that is gone" [ ! -e data/texts.pairs ]

# --- LoRA: the reference is the base
expect 0 "LoRA" "$drover" train dpo.yaml --set run_dir=lora --set model.preset= --set model.from=straight/checkpoints/step-000006 --set lora.rank=4 --set training.precision=bf16
says "loss 0.6931"
expect 0 "training pairs computed" "$drover" train dpo.yaml --set run_dir=blocks --set model.preset= --set model.from=straight/checkpoints/step-000006 --set lora.rank=4 --set training.precision=bf16 --set model.base_dtype=q8_0

# --- in bf16 eval has the numbers of the run where its norms are not rounded, as with a frozen model
as_validated lora
as_validated blocks
expect 0 "step-000006" "$drover" train dpo.yaml --set run_dir=wide --set training.precision=bf16 --set training.save_dtype=f32
as_validated wide

# --- eval of a run on other pairs is that of its config, on other data that of its model
sed 's,split: [^]]*],valid: data/table,' dpo.yaml >apart.yaml
expect 0 "40 pairs in" "$drover" train apart.yaml --set run_dir=apart --set training.steps=1
"$drover" eval apart --json >want 2>out
expect 0 '"rewards/accuracies"' "$drover" eval apart --data data/table --json
check "other figures than those of the run's pairs: $(cat want)" [ "$(tail -1 out)" = "$(cat want)" ]
expect 0 '"perplexity"' "$drover" eval apart --data data/set --json
head -4 pairs.jsonl >few.jsonl
expect 0 "4 preference pairs" "${build[@]}" --input few.jsonl --out data/few
expect 1 "no log-probabilities of the reference" "$drover" eval apart --data data/few
finish
