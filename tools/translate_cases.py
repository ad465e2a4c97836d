#!/usr/bin/env python3
"""Writes cases for tests/test_translate_cases.c: partial configurations of other trainers under many launchers, with what each
framework makes of them. The defaults are read from the frameworks' own sources, and the rules (warm-up, epochs, batches) are written
down here from the same files, apart from src/translate.

usage: translate_cases.py SOURCES N [SEED] >tests/golden/translate_cases.jsonl
       translate_cases.py --names SOURCES >tests/golden/trainer_keys.txt      the options that the frameworks have
       translate_cases.py --check DROVER <FILE     runs the cases that need no count of rows by a program
SOURCES has the unpacked wheels transformers, trl, optimum_neuron and axolotl:
       pip download --no-deps transformers==5.24.0 trl==1.16.0 optimum-neuron==0.4.5 axolotl==0.19.0"""
import ast
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile


def defaults(path, name):
    """The fields of a dataclass or pydantic model with literal defaults."""
    out = {}
    for node in ast.parse(open(path).read()).body:
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        for s in node.body:
            if not isinstance(s, ast.AnnAssign) or s.value is None:
                continue
            value = s.value
            if isinstance(value, ast.Call):
                value = next((k.value for k in value.keywords if k.arg == "default"), None)
            try:
                out[s.target.id] = ast.literal_eval(value)
            except (ValueError, TypeError):
                pass
    assert out, f"{path} has no {name}"
    return out


def names(path, name):
    """The fields of a dataclass or pydantic model."""
    out = [s.target.id for node in ast.parse(open(path).read()).body if isinstance(node, ast.ClassDef) and node.name == name
           for s in node.body if isinstance(s, ast.AnnAssign) and not s.target.id.startswith("_")]
    assert out, f"{path} has no {name}"
    return out


# Keys of Axolotl that only serve what drover does not do: mixtures of experts, other models and objectives, quantised training.
NOT_OF_A_LLAMA = set("""trainer_cls trl vllm ebft qat quantization center_rewards_coefficient num_labels freeze_mm_modules use_pose
pose_split_on_token_ids pose_max_context_len pose_num_chunks gemma4_hybrid_attn_impl experts_implementation ple_cpu_offload
quantize_moe_experts scaling_softmax scaling_softmax_factor scaling_softmax_bias use_eaft eaft_alpha eaft_k
llama4_linearized_experts fp32_norm_classes fsdp_final_state_dict_type peft cls_model_config processor_type processor_kwargs
model_quantization_config model_quantization_config_kwargs use_onebitllms""".split())


def print_names(root):
    at = lambda *parts: os.path.join(root, *parts)
    trl, schemas = at("trl/trl"), at("axolotl/axolotl/utils/schemas")
    args = names(at("transformers/transformers/training_args.py"), "TrainingArguments")
    for file, name in (("base_config", "_BaseConfig"), ("sft_config", "SFTConfig"), ("dpo_config", "DPOConfig"),
                       ("model_config", "ModelConfig")):
        args += names(f"{trl}/trainer/{file}.py", name)
    args += names(f"{trl}/scripts/utils.py", "ScriptArguments")
    args += names(at("optimum_neuron/optimum/neuron/trainers/training_args.py"), "NeuronTrainingArguments")
    axolotl = []
    for file, name in (("config", "AxolotlInputConfig"), ("training", "HyperparametersConfig"), ("peft", "LoraConfig"),
                       ("model", "ModelInputConfig")):
        axolotl += names(f"{schemas}/{file}.py", name)
    for kind, found in (("args", args), ("axolotl", set(axolotl) - NOT_OF_A_LLAMA)):
        for name in sorted(set(found)):
            print(kind, name)


def launcher(rng):
    """A launcher's words, and how many ranks it starts."""
    nodes, each = rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 8])
    ranks = nodes * each
    return rng.choice([
        (["python"], 1),
        (["torchrun", f"--nproc_per_node={each}", "--nnodes", str(nodes)], ranks),
        (["torchrun", "--standalone", "--nproc-per-node", str(each)], each),
        (["python", "-m", "torch.distributed.run", "--nnodes", str(nodes), "--nproc_per_node", str(each)], ranks),
        (["accelerate", "launch", "--num_processes", str(ranks), "--num_machines", str(nodes)], ranks),
        (["accelerate", "launch", "--multi_gpu", f"--num-processes={ranks}"], ranks),
        (["deepspeed", "--num_gpus", str(each), "--num_nodes", str(nodes)], ranks),
        (["mpirun", "--bind-to", "none", "-np", str(ranks), "python"], ranks),
        (["mpirun", "-n", str(nodes), "-N", "1", "torchrun", "--nnodes", str(nodes), "--nproc_per_node", str(each)], ranks),
        (["srun", "-N", str(nodes), f"--ntasks-per-node={each}", "python"], ranks),
        (["srun", f"-n{ranks}", "python"], ranks),
    ])


def flags(rng, said):
    words = []
    for name, value in said.items():
        name = "--" + (name if rng.random() < 0.8 else name.replace("_", "-"))
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += [f"{name}={text}"] if rng.random() < 0.3 else [name, text]
    return words


def some(rng, options):
    return {k: rng.choice(v) for k, v in options.items() if rng.random() < 0.35}


def trainer_want(args, ranks, rows):
    """transformers' trainer.py: batches, set_initial_training_values, get_warmup_steps."""
    micro, times = args["per_device_train_batch_size"], args["gradient_accumulation_steps"]
    steps = args["max_steps"]
    if steps <= 0:
        loaded = math.ceil(rows / (micro * ranks))
        each = max(loaded // times + (loaded % times > 0), 1)
        steps = math.ceil(args["num_train_epochs"] * each)
    warmup = args["warmup_steps"]
    warmup = int(warmup) if warmup >= 1 else math.ceil(steps * warmup)
    if args["lr_scheduler_type"] == "constant":
        warmup = 0
    kind = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}
    limit = args["save_total_limit"]
    return {
        "optimizer.lr": args["learning_rate"], "optimizer.weight_decay": args["weight_decay"],
        "optimizer.betas[0]": args["adam_beta1"], "optimizer.betas[1]": args["adam_beta2"],
        "optimizer.eps": args["adam_epsilon"], "optimizer.clip_grad_norm": args["max_grad_norm"],
        "schedule.type": kind[args["lr_scheduler_type"]], "schedule.warmup_like": "transformers",
        "schedule.warmup_steps": warmup, "training.steps": steps, "training.micro_batch_size": micro,
        "training.global_batch_size": micro * times * ranks, "parallel.data": None if ranks == 1 else ranks,
        "training.seed": args["seed"], "training.precision": "bf16" if args["bf16"] else "fp32",
        "training.recompute": "full" if args["gradient_checkpointing"] else "none",
        "training.log_every": int(args["logging_steps"]), "checkpoint.keep": limit if limit and limit > 0 else 0,
        "checkpoint.every": 0 if args["save_strategy"] == "no" else int(args["save_steps"]),
        "training.eval_every": 0,
    }


TRAINER = {
    "learning_rate": [1e-4, 3e-5], "weight_decay": [0.01, 0.1], "adam_beta1": [0.8], "adam_beta2": [0.95, 0.98],
    "adam_epsilon": [1e-6], "max_grad_norm": [0.5], "lr_scheduler_type": ["cosine", "constant", "constant_with_warmup"],
    "warmup_steps": [7, 0.1, 0.28], "per_device_train_batch_size": [1, 2, 4], "gradient_accumulation_steps": [1, 3, 4],
    "seed": [7], "bf16": [True], "gradient_checkpointing": [True, False], "logging_steps": [5], "save_steps": [50],
    "save_total_limit": [2, 0, -1], "save_strategy": ["no", "steps"],
}


class Sources:
    def __init__(self, root):
        at = lambda *parts: os.path.join(root, *parts)
        self.trainer = defaults(at("transformers/transformers/training_args.py"), "TrainingArguments")
        self.trl = {**self.trainer, **defaults(at("trl/trl/trainer/base_config.py"), "_BaseConfig"), "bf16": True}
        self.sft = {**self.trl, **defaults(at("trl/trl/trainer/sft_config.py"), "SFTConfig")}
        self.dpo = {**self.trl, **defaults(at("trl/trl/trainer/dpo_config.py"), "DPOConfig")}
        self.model = defaults(at("trl/trl/trainer/model_config.py"), "ModelConfig")
        self.neuron = {**self.trainer,
                       **defaults(at("optimum_neuron/optimum/neuron/trainers/training_args.py"), "NeuronTrainingArguments")}
        schemas = at("axolotl/axolotl/utils/schemas")
        self.axolotl = {}
        for file, name in (("training", "HyperparametersConfig"), ("peft", "LoraConfig"), ("config", "AxolotlInputConfig")):
            self.axolotl.update(defaults(f"{schemas}/{file}.py", name))


def args_case(rng, src):
    words, ranks = launcher(rng)
    said = some(rng, TRAINER)
    rows = 0
    if rng.random() < 0.5:
        said["max_steps"] = rng.choice([25, 100, 1000])
    else:
        rows = rng.randrange(200, 2000)
        said.update(some(rng, {"num_train_epochs": [1, 2]}))
    which = rng.choice(["clm", "sft", "dpo", "neuron", "plain"])
    base = {"clm": src.trainer, "plain": src.trainer, "sft": src.sft, "dpo": src.dpo, "neuron": src.neuron}[which]
    program = {"clm": ["run_clm.py"], "plain": ["train.py"], "sft": rng.choice([["trl", "sft"], ["sft.py"]]),
               "dpo": rng.choice([["trl", "dpo"], ["dpo.py"]]), "neuron": ["finetune.py"]}[which]
    want = {}
    if which in ("neuron", "plain"):
        said["max_seq_length"] = want["data.sequence_length"] = 512
    if which == "neuron":
        words, ranks = ["torchrun", "--nproc_per_node", "8"], 4
        said["tensor_parallel_size"] = 2
        want["parallel.tensor"] = 2
    if which in ("sft", "dpo"):
        want["data.sequence_length"] = base["max_length"]
        lora = some(rng, {"lora_r": [4, 32], "lora_alpha": [8], "lora_dropout": [0.1]})
        use = rng.random() < 0.5
        said.update(lora)
        if use:
            said["use_peft"] = True
            of = {**src.model, **lora}
            want.update({"lora.rank": of["lora_r"], "lora.alpha": of["lora_alpha"], "lora.dropout": of["lora_dropout"]})
        else:
            want["lora.rank"] = None
    if which == "dpo":
        want.update({"training.objective": "dpo", "dpo.beta": base["beta"]})
    if which == "clm":
        want.update({"data.sequence_length": 1024, "data.pack": "stream"})
    if program[0] == "trl":
        words = words[:-1] if words[-1] == "python" else words
    want = {**trainer_want({**base, **said}, ranks, rows), **want}
    return {"kind": "args", "rows": rows, "words": words + program + flags(rng, said), "want": want}


def axolotl_case(rng, src):
    """core/builders/base.py and utils/trainer.py of Axolotl 0.19.0."""
    said = {"learning_rate": rng.choice([2e-4, 1e-5]), **some(rng, {
        "micro_batch_size": [2, 4], "gradient_accumulation_steps": [2, 4], "weight_decay": [0.1], "adam_beta2": [0.95],
        "adam_epsilon": [1e-6], "max_grad_norm": [0.3], "lr_scheduler": ["linear", "constant_with_warmup"], "warmup_steps": [1, 20, 0],
        "warmup_ratio": [0.1, 0.05], "sequence_len": [2048], "seed": [7], "bf16": [False, True], "gradient_checkpointing": [True],
        "save_steps": [30], "save_total_limit": [0, 2, None], "logging_steps": [3], "excess_length_strategy": ["truncate"],
        "sample_packing": [True, False], "num_epochs": [2, 3]})}
    ranks, rows = rng.choice([1, 2, 8]), rng.randrange(200, 2000)
    if rng.random() < 0.5:
        said["max_steps"] = rng.choice([25, 60, 1000])
    of = {**src.axolotl, **said}
    micro = of["micro_batch_size"]
    batch = micro * of["gradient_accumulation_steps"] * ranks
    if of["max_steps"]:
        steps = of["max_steps"]
    elif of["sample_packing"]:
        steps = math.floor(max(1, math.ceil(rows / micro) * micro // batch) * of["num_epochs"])
    else:
        steps = math.ceil(rows * of["num_epochs"] / batch)
    if of.get("warmup_steps") is not None:
        warmup = of["warmup_steps"]
    elif of.get("warmup_ratio") is not None:
        warmup = max(int(of["warmup_ratio"] * steps), 0)
    else:
        warmup = min(int(0.03 * steps), 100)
    log = of["logging_steps"] if of["logging_steps"] is not None else max(min(int(0.005 * steps), 10), 1)
    want = {
        "optimizer.lr": of["learning_rate"], "optimizer.weight_decay": of["weight_decay"],
        "optimizer.betas[0]": src.trainer["adam_beta1"], "optimizer.betas[1]": of["adam_beta2"] or src.trainer["adam_beta2"],
        "optimizer.eps": of["adam_epsilon"] or src.trainer["adam_epsilon"],
        "optimizer.clip_grad_norm": of["max_grad_norm"] or src.trainer["max_grad_norm"],
        "schedule.type": of["lr_scheduler"].split("_")[0], "schedule.warmup_steps": 2 if warmup == 1 else warmup,
        "training.steps": steps, "training.micro_batch_size": micro, "training.global_batch_size": batch,
        "data.sequence_length": of["sequence_len"], "training.seed": of["seed"] or 42, "training.log_every": log,
        "training.precision": "bf16" if of["bf16"] else "fp32", "checkpoint.keep": of["save_total_limit"] or 4,
        "data.too_long": of["excess_length_strategy"] or "drop", "training.recompute": "full" if of["gradient_checkpointing"] else "none",
    }
    yaml = "base_model: some/llama\ndatasets:\n  - path: data/chat\n    type: alpaca\n"
    yaml += "".join(f"{k}: {json.dumps(v)}\n" for k, v in said.items())
    return {"kind": "axolotl", "rows": rows, "ranks": ranks, "yaml": yaml, "want": want}


def nxdt_case(rng, _):
    """Lightning 2.5.0 (limits, val_check_interval), NeMo 2.1.0 (schedulers, save_top_k), NxD Training 2.26 (base.py)."""
    tensor, nodes, devices = rng.choice([1, 2]), rng.choice([1, 2]), 8
    batch, rows = 32, rng.randrange(400, 4000)
    steps, epochs = rng.choice([(100, -1), (5000, 1), (10, 1), (-1, 2), (50, None)])
    one = rows // batch
    limits = [x for x in (steps if steps > 0 else None, one * epochs if epochs and epochs > 0 else None) if x]
    val = rng.choice(["20", "1.0", "0.25", "1", None])
    top = rng.choice([0, 2, -1, None])
    sched = rng.choice([None, {"name": "CosineAnnealing", "min_lr": 1e-6}, {"name": "CosineAnnealing", "warmup_steps": 3},
                        {"name": "LinearAnnealingWithWarmUp", "warmup_steps": 4}])
    want = {
        "training.steps": min(limits), "parallel.data": nodes * devices // tensor, "training.global_batch_size": batch,
        "checkpoint.every": 0 if top == 0 else 10, "optimizer.betas[1]": 0.999, "optimizer.clip_grad_norm": 0,
        "schedule.type": "constant" if not sched else {"C": "cosine", "L": "linear"}[sched["name"][0]],
        "schedule.warmup_steps": (sched or {}).get("warmup_steps", 0), "training.seed": 1234, "training.log_every": 50,
    }
    if top != 0:
        want["checkpoint.keep"] = {None: 3, -1: 0, 2: 2}[top]
    if val:
        want["training.eval_every"] = int(val) if "." not in val else max(1, int(one * float(val)))
    zero1 = rng.choice([True, False, None])
    want["optimizer.master_dtype"] = "bf16" if zero1 is False else "fp32"
    yaml = ["model_source: hf", "trainer:", f"  devices: {devices}", f"  num_nodes: {nodes}", f"  max_steps: {steps}",
            f"  max_epochs: {'null' if epochs is None else epochs}"]
    yaml += [f"  val_check_interval: {val}"] if val else []
    yaml += ["exp_manager:", "  checkpoint_callback_params:", "    every_n_train_steps: 10"]
    yaml += [f"    save_top_k: {top}"] if top is not None else []
    yaml += ["distributed_strategy:", f"  tensor_model_parallel_size: {tensor}"]
    yaml += [f"  zero1: {zero1}"] if zero1 is not None else []
    yaml += ["data:", "  micro_batch_size: 1", f"  global_batch_size: {batch}", "  seq_length: 64", "model:", "  optim:",
             "    name: adamw_fp32OptState", "    lr: 1.0e-4", "precision: {type: mixed_precision}"]
    text = "\n".join(yaml) + "\n"
    if sched:
        text = text.replace("    lr: 1.0e-4\n", "    lr: 1.0e-4\n    sched: " + json.dumps(sched).replace('"', "") + "\n")
    return {"kind": "nxdt", "rows": rows, "yaml": text, "want": want}


def check(drover):
    """Runs the cases by a program; those of epochs need a count of rows that only the unit test gives."""
    failed = n = 0
    for line in sys.stdin:
        case = json.loads(line)
        command = [drover, "config", "--from", case["kind"], "--set", "model.preset=llama-3.1-8b", "--accept", "all"]
        if case.get("ranks"):
            command += ["--ranks", str(case["ranks"])]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(case.get("yaml", ""))
            file.flush()
            words = ["--", *case["words"]] if "words" in case else [file.name]
            got = subprocess.run(command + words, capture_output=True, text=True)
        if case["rows"] and got.returncode == 2 and "--data" in got.stderr:
            continue
        if "by epochs" in got.stderr:
            del case["want"]["training.eval_every"]
        n += 1
        flat, path = {}, []
        for text in got.stdout.splitlines():
            m = re.match(r"( *)([a-z_0-9]+): ?([^#]*?) *(#.*)?$", text)
            if m:
                path = path[:len(m[1]) // 2] + [m[2]]
                flat[".".join(path)] = m[3]
        for i, x in enumerate(flat.get("optimizer.betas", "").strip("[]").split(",")):
            flat[f"optimizer.betas[{i}]"] = x.strip()
        for key, value in case["want"].items():
            have = flat.get(key)
            same = have is None if value is None else have is not None and (
                have == value if isinstance(value, str) else float(have) == float(value))
            if not same and not (value is None and key == "parallel.data"):
                failed += 1
                print(f"{key}: {have}, expected {value}: {case.get('words') or case['yaml']!r} {got.stderr[-200:] if got.returncode else ''}")
                break
    print(f"{n} cases, {failed} failed")
    return failed > 0


def main():
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    if sys.argv[1] == "--names":
        print_names(sys.argv[2])
        return
    src, n = Sources(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    for i in range(n):
        print(json.dumps([args_case, args_case, axolotl_case, nxdt_case][i % 4](rng, src)))


main()
