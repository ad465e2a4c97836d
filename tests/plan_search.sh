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
tail -n 1 out >found.json # below what is said of the progress
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
PY
expect 0 "" "$drover" plan run.yaml --ranks 8 --search --device h100 --top 30 --json
tail -n 1 out >found.json
check "on a device: the time, the speed and the memory that a plan of the keys has" python3 - "$drover" <<'PY'
import json, subprocess, sys
for l in json.load(open("found.json"))["layouts"]:
    plan = json.loads(subprocess.run([sys.argv[1], "plan", "run.yaml", "--ranks", "8", "--json", "--device", "h100", "--price", "160"] + l["keys"].split(),
                                     check=True, capture_output=True, text=True).stdout)
    assert plan["bytes"]["total"] == l["bytes"], (l, plan["bytes"])
    for key in "step_seconds", "tokens_per_s", "mfu":
        assert abs(plan[key] / l[key] - 1) < 1e-9, (key, plan[key], l)
    assert abs(sum(plan["terms"].values()) / plan["step_seconds"] - 1) < 1e-9, plan["terms"]
    assert abs(plan["cost"] / (160 * plan["steps"] * plan["step_seconds"] / 3600) - 1) < 1e-9, plan["cost"]
PY
expect 0 "tensor 8 (expected a divisor of model.intermediate_size 172)" "$drover" plan run.yaml --ranks 8 --search --memory 4GiB --gflops 50
expect 0 "pipeline 8 (expected at most the 6 layers of the model)" "$drover" plan run.yaml --ranks 8 --search --memory 4GiB --gflops 50 --top 3
check "three are listed" test "$(grep -c ' B \| MiB  ' out)" = 3
expect 2 "no layout of 7 ranks is possible: pipeline 7 (expected at most the 6 layers of the model); data 7 (expected a divisor of training.global_batch_size 8); context 7 (expected half a divisor of data.sequence_length 64); tensor 7 (expected a divisor of model.num_attention_heads 8)" "$drover" plan run.yaml --ranks 7 --search
expect 2 "none fits into 16.00 MiB a rank" "$drover" plan run.yaml --ranks 8 --search --memory 16MiB --gflops 50
expect 2 "--price and --search exclude each other" "$drover" plan run.yaml --ranks 8 --search --price 160
expect 2 "--search needs --ranks" "$drover" plan run.yaml --search
expect 2 "--link needs --search" "$drover" plan run.yaml --ranks 8 --link 3

# --- tokens a second and MFU are of the step's time: against the figures of the plan
expect 0 "" "$drover" plan run.yaml --set model.intermediate_size=176 --ranks 8 --search --memory 4GiB --gflops 50 --link 2:0.1 --ranks-per-host 4 --top 40 --json
tail -n 1 out >found.json # below what is said of the progress
"$drover" plan run.yaml --set model.intermediate_size=176 --json >plan.json
check "tokens/s and MFU" python3 - <<'PY'
import json
found, plan = json.load(open("found.json")), json.load(open("plan.json"))
assert (found["rank_bytes_per_s_inside"], found["rank_bytes_per_s"], found["ranks_per_host"]) == (2e9, 1e8, 4), found
for l in found["layouts"]:
    tokens = 8 * 64 / l["step_seconds"]
    mfu = tokens * plan["flops_per_token"] / (8 * 50e9)
    assert abs(l["tokens_per_s"] / tokens - 1) < 1e-12 and abs(l["mfu"] / mfu - 1) < 1e-12, l
# Eight tensor ranks on two hosts of four cost more than four in each.
times = {(l["tensor"], l["pipeline"], l["context"], l["data"]): l["step_seconds"] for l in found["layouts"]}
assert times[8, 1, 1, 1] > 2 * times[4, 1, 1, 2], times
PY

# --- 70 billion parameters on 512 GPUs, eight in a host: tensor ranks inside hosts, pipelines between them, as in
# arXiv:2104.04473 (section 5.4: tensor parallelism up to the GPUs of a host). With slow links alone it pays nowhere.
large=(--set model.preset=llama-3-70b --set training.global_batch_size=1024 --set data.sequence_length=8192
    --ranks 512 --search --memory 80GB --gflops 990e3)
expect 0 "450 GB/s between the 8 of a host and 50 GB/s between hosts" "$drover" plan "${large[@]}" --link 450:50 --ranks-per-host 8
says "tokens/s" "MFU"
expect 0 "" "$drover" plan --set model.preset=llama-3-70b --set training.global_batch_size=1024 --set data.sequence_length=8192 \
    --ranks 512 --search --device h100 --top 5 --json
check "the best five share the weights between data ranks, or between tensor ranks of a host and some stages" python3 -c '
import json
best = json.loads(open("out").read().splitlines()[-1])["layouts"] # below what is said of the progress
for l in best:
    assert l["tensor"] * l["context"] <= 8 and l["mfu"] > 0.45, l
    assert l["zero"] == 3 or l["tensor"] >= 2 and 2 <= l["pipeline"] <= 16, l'
expect 0 "" "$drover" plan "${large[@]}" --link 5:5 --ranks-per-host 8 --top 3 --json
check "without a faster link inside a host tensor ranks do not pay" python3 -c '
import json
assert all(l["tensor"] == 1 for l in json.loads(open("out").read().splitlines()[-1])["layouts"])'

expect 0 "" "$drover" plan run.yaml --ranks 8 --search --device h100 --pin tensor=2 --pin data=2 --json
check "pinned axes" python3 -c '
import json
layouts = json.loads(open("out").read().splitlines()[-1])["layouts"]
assert layouts and all((l["tensor"], l["data"]) == (2, 2) for l in layouts), layouts'
for pin in tensor tensor=3 width=2 tensor=0 =2; do
    expect 2 "--pin is \"$pin\", expected" "$drover" plan run.yaml --ranks 8 --search --device h100 --pin $pin
done

# --- what cannot be
expect 2 "--memory and --device exclude each other" "$drover" plan run.yaml --ranks 8 --search --device h100 --memory 80GB
expect 2 "links.ranks_per_host is 8, expected a divisor of the 12 ranks" "$drover" plan run.yaml --ranks 12 --search --device h100
expect 2 "training.global_batch_size is not given, and its default of 8 rows is fewer than the 64 ranks" "$drover" plan --set model.preset=llama-3-70b --ranks 64 --search
expect 0 "data 16, 32 (expected at most the 8 rows of training.global_batch_size)" "$drover" plan run.yaml --ranks 32 --search --memory 4GiB --gflops 50
expect 2 "--link 450:50 has a speed inside a host, which needs --ranks-per-host" "$drover" plan run.yaml --ranks 8 --search --link 450:50
expect 2 "--ranks-per-host needs --link INSIDE:BETWEEN" "$drover" plan run.yaml --ranks 8 --search --ranks-per-host 8
expect 2 "--ranks-per-host is 3, expected a divisor of --ranks 8" "$drover" plan run.yaml --ranks 8 --search --link 4:1 --ranks-per-host 3
for link in 0 4: :4 4:0 4:5:6 fast 1e300; do
    expect 2 "--link is \"$link\", expected GB/s" "$drover" plan run.yaml --ranks 8 --search --link $link --ranks-per-host 4
done
finish
