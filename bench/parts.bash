# Sourced by the scripts that ask a machine many questions in a limited time (h200.sh, gpus.sh). Each part has a time limit; one
# that fails is written down and the next begins; what does not fit into the budget is left out and named. Answers go to $out as
# they come. Of the script: $budget in seconds, $parts that are wanted, $out, $work (a folder of its own), $python, and
# $peak_flops of all devices together.
put() { echo "$@" >>"$out"; echo "$@"; }
left() { echo $((budget - SECONDS)); }
wanted() { [[ " $parts " == *" $1 "* ]]; }

# part NUMBER LIMIT TITLE COMMAND...: its output in $work/said; false when it failed or had no time.
part() {
    local number=$1 limit=$2 title=$3 status
    shift 3
    wanted "$number" || return 1
    put "" ; put "## $title"; put ""
    [ "$(left)" -gt 10 ] || { put "Left out: $(left) s of $budget s were left."; return 1; }
    [ "$limit" -lt "$(left)" ] || limit=$(left)
    local begin=$SECONDS
    timeout -k 5 "$limit" "$@" >"$work/said" 2>"$work/error"
    status=$?
    put "\`$(basename "$1") ${*:2}\` ($((SECONDS - begin)) s, limit $limit s)" | sed "s|$work|DIR|g; s|$HOME|~|g"
    [ $status = 0 ] && return 0
    put ""; put "Failed with status $status$([ $status = 124 ] && echo ", out of time"):"; put '```'
    put "$(tail -n 4 "$work/error" | cut -c1-300)"; put '```'
    return 1
}
verbatim() { put '```'; put "$(tail -n "${1:-12}" "$work/said" | sed "s|$work|DIR|g; s|$HOME|~|g")"; put '```'; }
# The figures of a JSON line: tokens/s, FLOP/s, its share of the peak.
figures() {
    "$python" - "$work/said" "$peak_flops" "$1" <<'P' >"$work/row" || { put "No figures: $(tail -n 1 "$work/said" | cut -c1-200)"; return 1; }
import json, sys
r = json.loads([l for l in open(sys.argv[1]) if l.startswith("{")][-1])
rate = r["flops_per_s"]
print(f'{sys.argv[3]}: {r["tokens_per_s"]:.1f} tokens/s, {rate / 1e12:.2f} TFLOP/s, MFU {100 * rate / float(sys.argv[2]):.1f} %'
      + (f', {r["peak_bytes"] / 1e9:.1f} GB' if r.get("peak_bytes") else ""))
P
    put ""; put "$(cat "$work/row")"
    cat "$work/row" >>"$work/summary"
}

# A tokenizer and a data set in $work, of words drawn by lot; $work/run.yaml trains a tiny model on them, 20 steps.
make_run() { # ROWS OF A STEP
    "$python" - "$work" <<'P' || return 1
import random, sys
random.seed(7)
words = ["the", "herd", "is", "driven", "over", "hills", "slowly"]
with open(sys.argv[1] + "/text.txt", "w") as f:
    for i in range(4000):
        f.write(f"Line {i}: " + " ".join(random.choice(words) for _ in range(12)) + "\n")
P
    "$drover" tokenizer train --input "$work/text.txt" --vocab-size 400 --out "$work/tokenizer" >/dev/null || return 1
    "$drover" data build --tokenizer "$work/tokenizer" --input "$work/text.txt" --out "$work/set" --append-eod >/dev/null || return 1
    cat >"$work/run.yaml" <<Y
model: {preset: tiny, vocab_size: 400}
tokenizer: $work/tokenizer
data.train: $work/set
data.sequence_length: 64
training.steps: 20
training.global_batch_size: $1
training.eval_every: 0
checkpoint.every: 0
schedule.warmup_steps: 2
Y
}
# Compares the losses of two runs: compare_losses BOUND RUN RUN
compare_losses() {
    "$python" - "$1" "$2" "$3" <<'P'
import json, os, sys
bound, runs = float(sys.argv[1]), sys.argv[2:]
a, b = ([json.loads(l)["loss"] for l in open(run + "/metrics.jsonl") if '"loss"' in l] for run in runs)
assert len(a) == len(b) >= 20, (len(a), len(b))
worst = max(abs(x / y - 1) for x, y in zip(a, b))
names = [os.path.basename(run) for run in runs]
print(f"{len(a)} losses, the last {a[-1]:.6f} ({names[0]}) and {b[-1]:.6f} ({names[1]}), largest relative difference {worst:.2e}, bound {bound:g}:",
      "met" if worst <= bound else "NOT MET")
P
}
