#!/bin/bash
# drover report of runs that were trained: the plan beside what was measured, the keys that were set, samples, and two
# runs beside each other.
. "$(dirname "$0")"/story.bash
make_data
sed -i 's/steps: 40/steps: 6/; s/eval_every: 0/eval_every: 3/' run.yaml
expect 0 "done: step 6 of 6" "$drover" train run.yaml --set run_dir=one
expect 0 "done: step 4 of 4" "$drover" train run.yaml --set run_dir=two --set training.steps=4 --set optimizer.lr=0.001
expect 0 "done: step 6 of 6" "$drover" report one two --samples 2
says "wall time" "validation loss" "Plan and measurement" "memory of the rank with most" "Energy" "ranks           1 on 1 node" \
    "schedule.warmup_steps      5 (default:" "optimizer.lr" "sample 2" "speed-up and efficiency: against the first run" "efficiency"
says 'model.vocab_size  ' 'data.sequence_length  ' 'tokenizer  ' '[90, 10, 0]'
check "no key that was left alone" test "$(grep -c 'training.seed' out)" = 0
check "step time, planned and measured" grep -qE 'step time .* [0-9]+\.[0-9]+ s +[0-9]+\.[0-9]+ s +[0-9]+\.[0-9]+' out
check "attention, planned and measured" grep -qE 'attention .* [0-9]+\.[0-9]+ s +[0-9]+\.[0-9]+ s +[0-9]+\.[0-9]+' out
says "the largest difference; a step takes "
check "memory, planned and measured" grep -qE 'memory of the rank with most.* [0-9.]+ MiB +[0-9.]+ MiB' out
cp out first
expect 0 "sample 2" "$drover" report one two --samples 2
check "the same samples each time" cmp -s <(sed -n '/^sample/,$p' first) <(sed -n '/^sample/,$p' out)
expect 0 '"samples":["' "$drover" report one --samples 1 --json
says '"config_changed":"' '"plan":{"rank_bytes":'
expect 0 "" "$drover" report one two --samples 1 --out page.html
cp page.html out
check "no key of the preset" bash -c '! grep -q "model.hidden_size" first'
says "<h3>Samples</h3>" "<h3>Plan and measurement</h3>" "speed-up and efficiency: against the first run" "<svg"
# A healthy run holds what was planned, its process included.
"$drover" top one --json >top.json
sanitized || check "held within the plan" python3 -c 'import json
for row in json.load(open("top.json"))["runs"][0]["ranks"]: assert 0 < row["resident_bytes"] <= row["planned_bytes"], row'
# The second plan has the terms of the run from which its device was learned.
expect 0 "learned: reached.products" "$drover" bench device --from one --out mine.yaml
"$drover" plan run.yaml --device mine.yaml --json >plan.json
check "what was learned" python3 -c 'import json
planned, measured = json.load(open("plan.json"))["terms"], json.load(open("top.json"))["runs"][0]["terms"]["measured_s"]
for terms in ["products", "head"], ["attention"], ["memory", "update"], ["launches"]:
    one, other = (sum(of[term] for term in terms) for of in (planned, measured))
    assert other < 0.01 * measured["step"] or abs(one / other - 1) < 0.03, (terms, one, other)'
# status.json may be a second older than metrics.jsonl while a run goes on.
cp -r one ongoing
python3 - <<'PY'
import json, time
status = json.load(open("ongoing/status.json"))
json.dump({**status, "state": "running", "step": 2, "time": time.time(), "end": None}, open("ongoing/status.json", "w"))
PY
expect 0 "running: step 6 of 6" "$drover" report ongoing
mkdir few && cp one/config.yaml one/status.json few
expect 1 "has no terms of two steps" "$drover" bench device --from few
expect 2 '"none" is not a run directory' "$drover" bench device --from none
# Names that a terminal would obey: the escape sequences of C1, marks that turn the order of letters.
cp -r one odd
python3 -c 'import json
status = json.load(open("odd/status.json"))
json.dump({**status, "end": "failed", "cause": "io", "message": "\x9b31m\u202e\u2066\u200f"}, open("odd/status.json", "w"), ensure_ascii=False)'
for verb in top report; do
    "$drover" $verb odd --json >odd.json
    check "$verb --json is plain" bash -c '! LC_ALL=C grep -q "[^ -~]" odd.json'
    check "$verb --json has the text" grep -qi 'u009b31m.u202e.u2066' odd.json
done
rm -r one/checkpoints
expect 0 "no samples of text: " "$drover" report one --samples 1
echo '{' >one/config.yaml
expect 0 "wall time" "$drover" report one
expect 2 "--samples" "$drover" report one --samples 0
finish
