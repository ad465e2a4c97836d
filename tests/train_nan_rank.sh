#!/bin/bash
# A loss that is no number though all weights are: the logits of one token overflow, and one document has that token.
# The run ends with the words of the rank that has the document, once, and names its rows. Needs mpirun.
. "$(dirname "$0")"/ranks.bash
make_data
{ head -600 text.txt; echo "ZZZ"; } >one.txt
expect 0 "301 documents" "$drover" data build --input one.txt --separator $'\n\n' --tokenizer tok --out data/one --append-eod
sed -i 's/steps: 40/steps: 1/; s/global_batch_size: 8/global_batch_size: 4/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
expect 0 "step 1" "$drover" train run.yaml --set run_dir=base --set model.tie_word_embeddings=false
cp -r base/checkpoints/step-000001 huge
rm huge/manifest.json
python3 - <<'PY'
import json
path = "huge/model.safetensors"
model = bytearray(open(path, "rb").read())
n = int.from_bytes(model[:8], "little")
table = {k: v for k, v in json.loads(model[8 : 8 + n]).items() if k != "__metadata__"}
token = json.load(open("tok/tokenizer.json"))["model"]["vocab"]["Z"]

def put(name, row, column, value):  # bf16
    at = 8 + n + table[name]["data_offsets"][0] + 2 * (row * table[name]["shape"][1] + column)
    model[at : at + 2] = value

assert table["lm_head.weight"]["dtype"] == "BF16"
for name, of in table.items():  # layers add nothing
    if "o_proj" in name or "down_proj" in name:
        begin, end = (8 + n + x for x in of["data_offsets"])
        model[begin:end] = bytes(end - begin)
for row in range(table["model.embed_tokens.weight"]["shape"][0]):
    put("model.embed_tokens.weight", row, 0, b"\x80\x3f" if row == token else b"\0\0")
put("lm_head.weight", 5, 0, b"\x7f\x7f")  # 3.39e38
open(path, "wb").write(model)
PY
sets="model.preset= model.from=huge model.weights=load data.train=data/one data.split=[100,0,0] training.steps=60 training.max_bad_steps=1 optimizer.lr=0 schedule.type=constant"
ends_on() { # RANKS SETTING...: in that step, on the rank that has the rows; $from ranks before it in the update
    local n=$1
    shift
    rm -rf bad
    train "$n" bad $sets "$@" >out 2>&1
    check "$n ranks $*: exit $?, not 1" test $? = 1
    check "$n ranks $*: it is said once" test "$(grep -c '^drover: ' out)" = 1
    grep '^drover: ' out >said
}
bad_step() { grep -o "stopped at step [0-9]*" "$1"; }

ends_on 1
cp said one
check "one rank: the loss is not finite" grep -q "1 step was skipped: the gradient is NaN or infinite (loss \(nan\|-*inf\))" one
# is_of DATA_RANKS STRIDE OFFSET: the rank that is named has its share of the rows of the one rank
is_of() {
    python3 - "$@" <<'PY'
import re, sys
ranks, stride, offset = map(int, sys.argv[1:])
said = open("said").read()
named = re.match(r"drover: rank (\d+) \(", said)
rank = int(named.group(1)) if named else 0
rows = lambda text: text.split("rows of the last: ")[1].split(";")[0].strip().split(", ")
share = len(rows(open("one").read())) // ranks
data, rest = divmod(rank - offset, stride)
print(said, rank, rows(said), rows(open("one").read()))
assert rest == 0 and rows(said) == rows(open("one").read())[data * share : (data + 1) * share]
PY
}
for layout in "4 4 1 0" "4 2 1 2 parallel.pipeline=2" "4 2 2 0 parallel.tensor=2"; do
    read -r n data stride offset keys <<<"$layout"
    ends_on "$n" $keys
    check "$n ranks $keys: the step of one" test "$(bad_step said)" = "$(bad_step one)"
    check "$n ranks $keys: named is the rank that has the row" is_of "$data" "$stride" "$offset"
done
finish
