#!/bin/bash
# Runs that are killed, moved back, harmed or given another config: what is resumed, refused or said.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
. "$tests"/events.bash
make_data
sed -i 's/global_batch_size: 8/global_batch_size: 4/' run.yaml # two micro-batches a step
same_bits() { sums "$1" "$2" | cmp -s - want; }

# --- the same bits whatever happens
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=straight
expect 0 "nothing to do: step 40 of 40 is done" "$drover" train run.yaml --set run_dir=straight
expect 0 "nothing to do: step 40 is done, and training.steps asks for 10" "$drover" train run.yaml --set run_dir=straight --set training.steps=10
expect 2 "\"straight\" is a folder, expected a config, a file in YAML; this run's is straight/config.yaml" "$drover" train straight
sums straight 000040 >want
for t in 1 4; do
    expect 0 "step-000040" "$drover" train run.yaml --set run_dir=threads$t --set training.threads=$t
    check "$t threads give other bits" same_bits threads$t 000040
done
for mode in selective full; do
    expect 0 "step-000040" "$drover" train run.yaml --set run_dir=$mode --set training.recompute=$mode
    check "recompute $mode gives other bits" same_bits $mode 000040
done
# Each start goes on from what the one before has left, and is killed at an event: of the first start, in a step, between two
# writes, and in each part of a save. DROVER_KILLS: as many more, at random events of DROVER_SEED; a run that is done first
# begins anew.
moments=(
    "before 1 rename */owner.json"
    "half 1 write */events.jsonl"
    "before 1 rename */config.yaml"
    "before 1 write */metrics.jsonl" # in the first step
    "half 2 write */metrics.jsonl"
    "after 1 make */checkpoints/step-??????.drover-tmp"
    "half 1 write */checkpoints/*/model.safetensors"
    "after 2 write */metrics.jsonl"
    "before 1 sync */checkpoints/*/optimizer.safetensors"
    "half 1 write */checkpoints/*/trainer.json"
    "half 1 write */checkpoints/*/manifest.json.drover-tmp"
    "before 1 rename */checkpoints/step-??????"
    "after 1 rename */checkpoints/step-??????"
    "half 1 write */saved.json.drover-tmp"
    "after 1 rename */saved.json"
    "before 5 write */metrics.jsonl"
    "half 4 write */tensorboard/*"
    "after 2 rename */status.json"
    "before 1 rename */checkpoints/step-??????.drover-tmp" # the oldest one, to be removed
    "after 1 rename */checkpoints/step-??????.drover-tmp"
    "after 3 remove */checkpoints/step-??????.drover-tmp/*"
    "half 3 write */checkpoints/*/optimizer.safetensors"
    "half 7 write */metrics.jsonl"
)
killed() { # MOMENT: whether it was; a checkpoint that was in place is there, or one after it
    local before
    before=$(last_saved killed)
    "${preload[@]}" AT_EVENT="kill $1" "$drover" train run.yaml --set run_dir=killed >out 2>&1
    code=$?
    check "killed $1: exit $code, not 137, nor 0" [ $code = 137 -o $code = 0 ]
    check "killed $1: step $before was saved, and is not any more" [ "$(last_saved killed)" -ge "$before" ]
    [ $code = 137 ]
} 2>/dev/null # what the shell says of it
for moment in "${moments[@]}"; do check "nothing $moment" killed "$moment"; done
kills=${DROVER_KILLS:-0} seed=${DROVER_SEED:-1}
RANDOM=$seed when=(before half after)
for ((i = 0; i < kills; i++)); do
    moment="${when[RANDOM % 3]} $((RANDOM % 200 + 1)) * *killed/*"
    if ! killed "$moment"; then
        check "killed before $moment, DROVER_SEED=$seed: other bits" same_bits killed 000040
        rm -r killed
    fi
done
said="after ${#moments[@]} kills and $kills of DROVER_SEED=$seed"
echo "$said"
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=killed
check "$said: other bits" same_bits killed 000040
check "$said: metrics.jsonl has not one line per step" [ "$(grep -c '"loss"' killed/metrics.jsonl)" = 40 ]
check "$said: left are $(ls killed/checkpoints | tr '\n' ' ')" [ "$(ls killed/checkpoints)" = "$(ls straight/checkpoints)" ]

# Killed between the last save and the removal of an older one, which the next start does, whatever it trains.
{ "${preload[@]}" AT_EVENT="kill after 1 rename */checkpoints/step-000040" "$drover" train run.yaml --set run_dir=late >out 2>&1; } 2>/dev/null
check "three checkpoints are left: $(ls late/checkpoints | tr '\n' ' ')" [ "$(ls late/checkpoints | wc -l)" = 3 ]
expect 0 "nothing to do" "$drover" train run.yaml --set run_dir=late
check "left are $(ls late/checkpoints | tr '\n' ' ')" [ "$(ls late/checkpoints)" = "$(ls straight/checkpoints)" ]

# --- harmed checkpoints
cp -r straight harmed
truncate -s -1 harmed/checkpoints/step-000040/model.safetensors
expect 0 "resumed from harmed/checkpoints/step-000039" "$drover" train run.yaml --set run_dir=harmed
says 'step-000040" is not used' 'step-000040.refused'
check "resuming an older checkpoint changes the result" same_bits harmed 000040
check "the refused checkpoint is gone" [ -e harmed/checkpoints/step-000040.refused/model.safetensors ]
truncate -s -1 harmed/checkpoints/step-000040/model.safetensors
expect 1 "expected" "$drover" ckpt verify harmed/checkpoints/step-000040

# All refused: nothing is touched, and the way out is named.
cp -r straight lost
truncate -s -1 lost/checkpoints/step-*/model.safetensors
cp -r lost before
expect 1 "all checkpoints are refused" "$drover" train run.yaml --set run_dir=lost
for text in "step-000039/model.safetensors" "step-000040/model.safetensors" "bytes, expected" "--fresh"; do
    check "the message itself does not say $text" eval 'tail -n 1 out | grep -qF -- "$text"'
done
check "a refused start changes metrics" cmp -s lost/metrics.jsonl before/metrics.jsonl
check "a refused start changes checkpoints" diff -r lost/checkpoints before/checkpoints
rm -rf lost/checkpoints
expect 1 "saved up to step 40 (saved.json), but" "$drover" train run.yaml --set run_dir=lost
cp -r before/checkpoints lost/
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=lost --fresh
says "lost/before-1"
check "a fresh start gives other bits" same_bits lost 000040
check "a fresh start removes what was there" diff -r lost/before-1/checkpoints before/checkpoints
if [ "$(id -u)" != 0 ]; then
    as_user=()
elif command -v setpriv >/dev/null; then # permissions do not bind root
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
if [ -n "${as_user+is set}" ]; then
    cp -r straight locked
    [ -z "${as_user[*]}" ] || chown -R 65534:65534 "$dir"
    for what in locked/checkpoints "locked/checkpoints/step-000039/config.json locked/checkpoints/step-000040/trainer.json"; do
        chmod 000 $what
        expect 1 "Permission denied" "${as_user[@]}" "$drover" train run.yaml --set run_dir=locked
        chmod 700 $what
        check "a run without permission changes its metrics" cmp -s locked/metrics.jsonl straight/metrics.jsonl
    done
    says "all checkpoints are refused" "--fresh"
else
    echo "not tried: folders without permission (this is root, without setpriv)"
fi

# --- another model is refused, by the field
cp -r straight other
for change in num_hidden_layers=1 rope_theta=20000 rms_norm_eps=0.001 hidden_size=32 tie_word_embeddings=false; do
    expect 2 "${change%=*} is" "$drover" train run.yaml --set run_dir=other --set "model.$change"
    says "${change#*=}"
done
expect 2 "num_attention_heads is 8, but the config's model has 4" "$drover" train run.yaml --set run_dir=other \
    --set model.num_attention_heads=4 --set model.num_key_value_heads=4 --set model.head_dim=16
check "a refused config replaces config.yaml" cmp -s other/config.yaml straight/config.yaml
expect 0 "model.initializer_range: 0.02 -> 0.05" "$drover" train run.yaml --set run_dir=other --set model.initializer_range=0.05
check "it is said twice" [ "$(grep -c initializer_range out)" = 1 ]

# --- what changed on purpose is said
cp -r straight changed
expect 0 "optimizer.lr: 0.0003 -> 0.001" "$drover" train run.yaml --set run_dir=changed --set training.steps=45 \
    --set optimizer.lr=0.001 --set training.global_batch_size=2 --set training.seed=5 --set data.sequence_length=32
says "training.global_batch_size: 4 -> 2" "training.seed: 1234 -> 5; rows come in another order" \
    "data.sequence_length: 64 -> 32; rows are cut again"
check "the config of the first part is gone" grep -q "seed: 1234" changed/config.until-000040.yaml
expect 0 "nothing to do" "$drover" train run.yaml --set run_dir=changed --set training.steps=45 --set optimizer.lr=0.001 \
    --set training.global_batch_size=2 --set training.seed=5 --set data.sequence_length=32
check "a config that stays is said to have changed" [ "$(grep -c "changed since" out)" = 0 ]
cp -r straight otherdata
head -n 5000 text.txt >shorter.txt
expect 0 "2500 documents" "$drover" data build --input shorter.txt --separator $'\n\n' --tokenizer tok --out data/short --append-eod
mkdir kept && cp data/set.* kept/
for f in data/short.*; do cp "$f" "data/set.${f#data/short.}"; done
expect 0 'data set "data/set": tokens' "$drover" train run.yaml --set run_dir=otherdata --set training.steps=42
cp kept/* data/
# The same name, another tokenizer.json: said of the run, and of its data where they do not tell what their ids mean.
cp -r straight othertok
cp -r tok tok2
printf '\n' >>tok2/tokenizer.json
mv tok tok1 && mv tok2 tok
expect 0 "tokenizer.json differs from that of othertok/checkpoints/step-000040" "$drover" train run.yaml --set run_dir=othertok --set training.steps=41
check "the same tokens in another file are warned of" [ "$(grep -c "another tokenizer" out)" = 0 ]
sed -i '/texts_xxh3/d' data/set.idx.json
expect 0 'data set "data/set" was built with another tokenizer.json' "$drover" train run.yaml --set run_dir=othertok --set training.steps=41
cp kept/* data/
check "the new tokenizer is not carried" cmp -s tok/tokenizer.json othertok/checkpoints/step-000041/tokenizer.json
rm -rf tok && mv tok1 tok
# Ids that mean other text, or none: refused before a step, and before a run directory is made.
cp -r tok swapped && python3 - <<'PY'
import json
root = json.load(open("swapped/tokenizer.json"))
vocab = root["model"]["vocab"]
vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
json.dump(root, open("swapped/tokenizer.json", "w"))
PY
expect 0 "" "$drover" tokenizer train --input text.txt --vocab-size 270 --out small
for other in swapped small; do
    expect 2 'data set "data/set" was built with another tokenizer' "$drover" train run.yaml --set run_dir=never --set tokenizer=$other
    cp -r straight $other-run && cp $other/tokenizer.json $other-run/checkpoints/step-000040 && rm $other-run/checkpoints/step-000040/manifest.json
    expect 2 'data set "data/set" was built with another tokenizer' "$drover" eval $other-run/checkpoints/step-000040 --data data/set
done
says "its largest id is 399, but the tokenizer has 270 tokens"
expect 0 '"loss"' "$drover" eval straight --data data/set --json
check "the right tokenizer is warned of" [ "$(grep -c tokenizer out)" = 0 ]

# --- a first part without a checkpoint
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=early --set checkpoint.every=0
rm -rf early/checkpoints/* early/saved.json
expect 0 "stopped before its first checkpoint" "$drover" train run.yaml --set run_dir=early
check "metrics without a checkpoint are lost" [ "$(grep -c '"loss"' early/metrics.lost.jsonl)" = 40 ]
expect 75 "in use by another drover" flock early/.lock "$drover" train run.yaml --set run_dir=early

finish
