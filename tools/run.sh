#!/bin/sh
# make run: from text to a trained Llama on this machine. Takes English text from a Debian package, trains a
# tokenizer on it, builds a data set, trains a small model for some minutes on two cores, and prints its validation
# loss before and after and a sample of its text. All files are in ./run. A second call resumes where the first one
# stopped.
set -e
drover=$1
out=run
steps=${STEPS:-600}
step() { printf '\n== %s\n' "$1"; }

step "text: the manuals of Perl (Debian package perl-doc)"
pods() { find /usr/share/perl /usr/lib -path '*/pod/*.pod' 2>/dev/null | sort; }
if [ "$(pods | wc -l)" -lt 50 ]; then
    "$(dirname "$0")"/install_deps.sh perl-doc
fi
[ "$(pods | wc -l)" -ge 50 ] || { echo "no text: perl-doc has no .pod files here" >&2; exit 1; }
if [ ! -e $out/text/done ]; then # every 20th document is kept for validation
    mkdir -p $out/text/train $out/text/valid
    i=0
    for f in $(pods); do
        i=$((i + 1))
        if [ $((i % 20)) = 0 ]; then part=valid; else part=train; fi
        cp "$f" "$out/text/$part/$(basename "$f" .pod).txt"
    done
    touch $out/text/done
fi
echo "$(ls $out/text/train | wc -l) documents to train on, $(ls $out/text/valid | wc -l) to validate, $(cat $out/text/*/*.txt | wc -c) bytes"

step "tokenizer: byte-level BPE, 2048 tokens"
[ -e $out/tokenizer/tokenizer.json ] || $drover tokenizer train --input $out/text/train --vocab-size 2048 --out $out/tokenizer
ls $out/tokenizer

step "data set"
for part in train valid; do
    [ -e $out/data/$part.idx ] ||
        $drover data build --input $out/text/$part --tokenizer $out/tokenizer --out $out/data/$part --append-eod
done
$drover data info $out/data/train

step "plan"
cat > $out/perl.yaml <<YAML
model: {vocab_size: 2048, hidden_size: 192, intermediate_size: 512, num_hidden_layers: 6,
        num_attention_heads: 6, num_key_value_heads: 2, tie_word_embeddings: true}
tokenizer: $out/tokenizer
data: {train: $out/data/train, valid: $out/data/valid, sequence_length: 256}
training: {steps: $steps, global_batch_size: 8, micro_batch_size: 8, eval_every: 100, eval_batches: 30, log_every: 10}
optimizer: {type: muon, lr: 3.0e-3}
schedule: {type: cosine, warmup_steps: 60, min_lr: 2.0e-4}
checkpoint: {every: 100, keep: 2}
run_dir: $out/perl
YAML
$drover plan $out/perl.yaml

step "training: $steps steps"
status=0
$drover train $out/perl.yaml || status=$?
if [ $status = 3 ]; then
    echo "Stopped on request; \`make run\` resumes from there."
fi
[ $status = 0 ] || exit $status

newest=$out/perl/checkpoints/$(ls $out/perl/checkpoints | sed -n '/^step-[0-9]*$/p' | tail -n 1) # without a save that was interrupted
step "validation loss"
grep -h '"val_loss"' $out/perl/metrics.jsonl | sed -n '1s/^/before:  /p;$s/^/after:   /p'

step "a sample"
$drover generate "$newest" --prompt "=head1 DESCRIPTION" --max-tokens 120 --temperature 0.7

step "done"
echo "The model is a Hugging Face folder: $newest"
echo "Loss by step: $out/perl/metrics.jsonl, TensorBoard: $out/perl/tensorboard"
echo "To train for twice as many steps: STEPS=$((steps * 2)) make run"
echo "To start again from the text: rm -rf $out; make run"
