#!/bin/bash
# drover plan --search: what it lists can be planned with its keys and needs what it says; what is not possible
# is refused with the divisor that is wrong.
. "$(dirname "$0")"/story.bash
export DROVER_THREADS=2
cat >run.yaml <<YAML
model: {preset: tiny, num_hidden_layers: 6, vocab_size: 512}
data: {sequence_length: 64}
training: {global_batch_size: 8}
YAML
expect 0 "" "$drover" plan run.yaml --ranks 8 --search --memory 4GiB --gflops 50 --link 1 --top 30 --json
cp out found.json
check "sorted, within the memory, each mesh once, keys that plan to the same bytes" python3 - "$drover" <<'PY'
import json, subprocess, sys
found = json.load(open("found.json"))
layouts = found["layouts"]
times = [l["step_seconds"] for l in layouts]
assert times == sorted(times) and len(layouts) == found["meshes"] - found["meshes_too_large"] >= 8, found
meshes = [(l["tensor"], l["pipeline"], l["context"], l["data"]) for l in layouts]
assert len(set(meshes)) == len(meshes) and all(t * p * n * d == 8 for t, p, n, d in meshes), meshes
assert {(4, 2, 1, 1), (1, 1, 1, 8), (2, 2, 1, 2), (2, 1, 2, 2)} <= set(meshes), meshes
for l in layouts:
    plan = json.loads(subprocess.run([sys.argv[1], "plan", "run.yaml", "--ranks", "8", "--json"] + l["keys"].split(),
                                     check=True, capture_output=True, text=True).stdout)
    assert plan["bytes"]["total"] + plan["bytes"]["process"] == l["bytes"] <= 4 << 30, (l, plan["bytes"])
    assert plan.get("pipeline", {}).get("bubble", 0) == l["bubble"], l
PY
expect 0 "tensor 8 (expected a divisor of model.intermediate_size 172)" "$drover" plan run.yaml --ranks 8 --search --memory 4GiB --gflops 50
expect 0 "pipeline 8 (expected at most the 6 layers of the model)" "$drover" plan run.yaml --ranks 8 --search --memory 4GiB --gflops 50 --top 3
check "three are listed" test "$(grep -c ' B \| MiB  ' out)" = 3
expect 2 "no layout of 7 ranks is possible: pipeline 7 (expected at most the 6 layers of the model); data 7 (expected a divisor of training.global_batch_size 8); context 7 (expected half a divisor of data.sequence_length 64); tensor 7 (expected a divisor of model.num_attention_heads 8)" "$drover" plan run.yaml --ranks 7 --search
expect 2 "none fits into 16.00 MiB a rank" "$drover" plan run.yaml --ranks 8 --search --memory 16MiB --gflops 50
expect 2 "--search needs --ranks" "$drover" plan run.yaml --search
expect 2 "--link needs --search" "$drover" plan run.yaml --ranks 8 --link 3
finish
