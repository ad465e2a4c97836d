#!/usr/bin/env python3
"""Compares `drover eval` with lm-evaluation-harness on the same model: perplexities of texts (loglikelihood_rolling), and accuracies
of multiple choice in the forms of HellaSwag and ARC. The records are made from the texts: a sentence, and as choices the next
sentence and three others.

    pip install lm-eval==0.4.13 torch transformers
    tools/compare_lm_eval.py build/drover MODEL [records] TEXT...

MODEL is a Hugging Face folder; both compute in fp32. Prints both figures and the largest difference; fails above 1e-4 of a
perplexity or if an accuracy differs.
"""
import json, os, pathlib, random, re, subprocess, sys, tempfile, time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import lm_eval, torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks.hellaswag import utils as hellaswag


def sentences(texts):
    joined = " ".join(re.sub(r"\s+", " ", t) for t in texts)
    return [s for s in re.split(r"(?<=[.!?]) ", joined) if 30 < len(s) < 300]


def records(texts, n, r):
    """HellaSwag's and ARC's: n of each."""
    all_ = sentences(texts)
    swag, arc = [], []
    for i in range(n):
        at = r.randrange(len(all_) - 2)
        label = r.randrange(4)
        others = r.sample(all_, 4)
        words = all_[at + 1].split()
        cut = len(words) // 2
        endings = [" ".join(o.split()[len(o.split()) // 2:]) for o in others]
        endings[label] = " ".join(words[cut:])
        swag.append({"activity_label": "Story", "ctx_a": all_[at], "ctx_b": " ".join(words[:cut]), "endings": endings,
                     "label": str(label)})
        others[label] = all_[at + 1]
        arc.append({"question": all_[at] + " What is next?", "choices": {"text": others, "label": list("ABCD")},
                    "answerKey": "ABCD"[label]})
    return swag, arc


def task(name, path, **more):
    return {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"validation": str(path)}},
            "validation_split": "validation", "metadata": {"version": 0}, **more}


def tasks_of(folder):
    choice = dict(output_type="multiple_choice",
                  metric_list=[{"metric": "acc", "aggregation": "mean", "higher_is_better": True},
                               {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}])
    return {"texts": task("texts", folder / "texts.jsonl", output_type="loglikelihood_rolling", doc_to_text="",
                          doc_to_target="{{text}}",
                          metric_list=[{"metric": m} for m in ("word_perplexity", "byte_perplexity", "bits_per_byte")]),
            "swag": task("swag", folder / "swag.jsonl", process_docs=hellaswag.process_docs, doc_to_text="{{query}}",
                         doc_to_target="{{label}}", doc_to_choice="choices", **choice),
            "arc": task("arc", folder / "arc.jsonl", doc_to_text="Question: {{question}}\nAnswer:",
                        doc_to_target="{{choices.label.index(answerKey)}}", doc_to_choice="{{choices.text}}", **choice)}


def ours(drover, model, *args):
    begin = time.time()
    done = subprocess.run([drover, "eval", model, "--precision", "fp32", "--json", *map(str, args)], capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout), time.time() - begin


def main():
    drover, model, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    n = int(rest.pop(0)) if rest[0].isdigit() else 100
    texts = [pathlib.Path(p).read_text(errors="replace") for p in rest]
    worst, differ = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        swag, arc = records(texts, n, random.Random(7))
        for name, rows in (("swag", swag), ("arc", arc), ("texts", [{"text": t} for t in texts])):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        peer = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=1)
        for name, spec in tasks_of(folder).items():
            begin = time.time()
            theirs = lm_eval.simple_evaluate(model=peer, tasks=[spec], bootstrap_iters=0)["results"][name]
            seconds = time.time() - begin
            got, mine = ours(drover, model, "--text" if name == "texts" else "--choices", folder / f"{name}.jsonl")
            for key, value in theirs.items():
                metric = key.split(",")[0]
                if metric not in got or "stderr" in metric or not isinstance(value, float):
                    continue
                print(f"{name:6} {metric:16} lm-eval {value:.6f}  drover {got[metric]:.6f}")
                if name == "texts":
                    worst = max(worst, abs(got[metric] / value - 1))
                else:
                    differ += abs(got[metric] - value) > 1e-9
            print(f"{name:6} seconds          lm-eval {seconds:.1f}  drover {mine:.1f}", flush=True)
    print(f"perplexities differ by {worst:.1e} at most, {differ} accuracies differ")
    return worst > 1e-4 or differ > 0


sys.exit(main())
