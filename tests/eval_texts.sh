#!/bin/bash
# drover eval on texts and data sets as a user runs it: figures per token, word and byte, windows and strides, the context
# that is the model's, logits to compare with, Ctrl-C, what is refused. usage: eval_texts.sh DROVER
tests=$(realpath "$(dirname "$0")")
golden=$tests/golden/choices
. "$(dirname "$0")"/story.bash
field() { grep -o "\"$1\": [^,}]*" out | cut -d' ' -f2; }
is() { awk -v a="$1" -v b="$2" -v e="${3:-1e-6}" 'BEGIN { d = (a - b) / b; exit !(d < e && d > -e) }'; }

# --- the same texts as lines, as one file with a separator, as Parquet would be: the harness's figures
expect 0 '"complete": true' "$drover" eval $golden --text $golden/texts.jsonl --json
loss=$(field loss) tokens=$(field tokens)
read -r want_loss want_tokens words bytes < <(awk '$1 == 1 && $2 == 64 && $3 == 64 { t += $4; w += $5; b += $6; l -= $7 }
    END { printf "%.9g %d %d %d\n", l / t, t, w, b }' $golden/rolling.txt)
check "loss $loss, expected $want_loss" is $loss $want_loss 1e-5
check "tokens, words, bytes" [ "$tokens $(field words) $(field bytes)" = "$want_tokens $words $bytes" ]
total() { awk -v l=$loss -v t=$tokens -v n=$1 'BEGIN { printf "%.9g", l * t / n }'; }
check "per word" is "$(field word_perplexity)" "$(awk -v x="$(total $words)" 'BEGIN { print exp(x) }')" 1e-4
check "per byte" is "$(field byte_perplexity)" "$(awk -v x="$(total $bytes)" 'BEGIN { print exp(x) }')" 1e-4
check "bits per byte" is "$(field bits_per_byte)" "$(awk -v x="$(total $bytes)" 'BEGIN { print x / log(2) }')" 1e-4
check "context of the model" [ "$(field context) $(field stride)" = "64 64" ]
expect 0 "per word" "$drover" eval $golden --text $golden/texts.jsonl
says "bits per byte" "documents 13" "windows of up to 64 tokens (context 64, stride 64)"
expect 0 '"stride": 5' "$drover" eval $golden --text $golden/texts.jsonl --context 16 --stride 5 --json
want=$(awk '$1 == 1 && $2 == 16 && $3 == 5 { t += $4; l -= $7 } END { printf "%.9g", l / t }' $golden/rolling.txt)
check "a stride of 5" is "$(field loss)" $want 1e-5
expect 0 '"loss"' "$drover" eval $golden --text $golden/texts.jsonl --no-bos --json
want=$(awk '$1 == 0 && $2 == 64 && $3 == 64 { t += $4; l -= $7 } END { printf "%.9g", l / t }' $golden/rolling.txt)
check "without special tokens" is "$(field loss)" $want 1e-5
printf 'The dog sings.|x|The water in a pot' >three.txt
expect 0 '"documents": 3' "$drover" eval $golden --text three.txt --separator '|' --json
expect 0 '"documents": 1' "$drover" eval $golden --text three.txt --json
for precision in fp32 bf16; do expect 0 "loss" "$drover" eval $golden --text three.txt --precision $precision; done

# --- a data set: documents whole, whatever a row of training holds; the first token is context alone
make_data
expect 0 "done" "$drover" train run.yaml --set training.steps=3 --set run_dir=run --set data.sequence_length=8
model=$(realpath run/checkpoints/step-000003)
expect 0 '"loss"' "$drover" eval $model --data data/set --json
whole=$(field loss)
check "all but 3000 first tokens" [ "$(field tokens)" = "$("$drover" data info data/set | awk '/^tokens/ { t = $2 } END { print t - 3000 }')" ]
says "windows have up to" "--context 8 evaluates it by those"
# The first token of each is "Document" or its beginning; eleven words follow.
printf 'Document 1' >one.txt
"$drover" tokenizer encode --tokenizer tok --input one.txt | awk '{ print $1; exit }' >first.txt
first=$("$drover" tokenizer decode --tokenizer tok --input first.txt | tr -d '\n' | wc -c)
bytes=$(awk -v f=$first 'length { n += length - f } END { print n }' text.txt)
check "words and bytes of a set: $(field words) $(field bytes), expected 33000 $bytes" [ "$(field words) $(field bytes)" = "33000 $bytes" ]
check "per byte" is "$(field bits_per_byte)" "$(awk -v l=$whole -v t=$(field tokens) -v b=$bytes 'BEGIN { print l * t / b / log(2) }')" 1e-5
expect 0 "per byte" "$drover" eval $model --data data/set
expect 0 "3000 documents" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/other --append-eod
sed -i 's/"xxh3": *"[0-9a-f]*"/"xxh3": "0123456789abcdef"/' data/other.idx.json
expect 0 '"loss"' "$drover" eval $model --data data/other --json
check "nothing per byte where the set has another tokenizer" [ -z "$(field bytes)" ]
expect 0 '"loss"' "$drover" eval $model --data data/set --json --set data.sequence_length=512
check "any context that holds the documents" is "$(field loss)" $whole 1e-6
expect 0 '"context": 8, "stride": 8' "$drover" eval $model --data data/set --json --context 8
check "cut documents" [ "$(field loss)" != $whole ]
expect 0 '"context": 8, "stride": 8' "$drover" eval run.yaml --set run_dir=run --set data.sequence_length=8 --json
here=$(field loss)
"$drover" config run.yaml --set run_dir=run --set data.sequence_length=8 --set backend=pjrt --set training.offload=activations >device.yaml
expect 0 '"loss"' "$drover" eval device.yaml --set backend=cpu --json
check "a run of a device on the CPU: $(field loss), expected $here" [ "$(field loss)" = "$here" ]

# --- logits: the log-likelihood that they give is the one that eval gives
printf 'The dog and the tree.' >short.txt
expect 0 '"loss"' "$drover" eval $golden --text short.txt --json
loss=$(field loss)
expect 0 "logits of" "$drover" eval $golden --text short.txt --logits logits.safetensors
python3 - logits.safetensors >python.txt 2>&1 <<'PY'
import json, math, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", data[:8])
header, data = json.loads(data[8:8 + n]), data[8 + n:]
begin, end = header["token_ids"]["data_offsets"]
ids = struct.unpack(f"<{(end - begin) // 4}i", data[begin:end])
rows, vocab = header["logits"]["shape"]
begin, end = header["logits"]["data_offsets"]
assert n % 8 == 0 and rows == len(ids) and end == len(data) == begin + 4 * rows * vocab
total = 0
for i in range(rows - 1):
    row = struct.unpack_from(f"<{vocab}f", data, begin + 4 * i * vocab)
    top = max(row)
    total += top + math.log(sum(math.exp(x - top) for x in row)) - row[ids[i + 1]]
print(total / (rows - 1))
PY
check "logits $(cat python.txt)" is "$(cat python.txt)" $loss 1e-5
expect 2 "exists, expected a new file" "$drover" eval $golden --text short.txt --logits logits.safetensors
expect 0 "logits of 5 positions" "$drover" eval $golden --text short.txt --logits five --context 5
expect 1 "could not create" "$drover" eval $golden --text short.txt --logits nowhere/logits

# --- what is refused
expect 2 "nothing to evaluate" "$drover" eval $golden
expect 2 "exclude each other" "$drover" eval $golden --text short.txt --data data/set
expect 2 "--no-bos needs --text or --choices" "$drover" eval $golden --data data/set --no-bos
expect 2 "--logits needs --text" "$drover" eval $golden --data data/set --logits x
expect 2 "--context" "$drover" eval $golden --text short.txt --context 65
expect 2 "--stride" "$drover" eval $golden --text short.txt --context 8 --stride 9
expect 1 "nowhere.txt" "$drover" eval $golden --text nowhere.txt
printf '{"text": 7}\n' >no.jsonl
expect 1 "no.jsonl: no document in it" "$drover" eval $golden --text no.jsonl

# --- Ctrl-C: what was scored is printed, and that it is not all
python3 -c 'print("A song to the dog: sing, sing, sing and shake the tree.\n" * 100000)' >long.txt
if interrupted_eval "evaluating: " $golden --text long.txt --json; then
    says "SIGINT while evaluating"
fi
finish
