#!/bin/bash
# The program as a user sees it: text to data, wrong usage, what a trained model is good for. The runs that
# are stopped, harmed and resumed have stories of their own (train_*.sh). Last line: "N passed, N failed".
. "$(dirname "$0")"/story.bash

# --- text to data
make_text >text.txt
expect 0 "tokenizer.json: 400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok
expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok1 --threads 1
if cmp -s tok/tokenizer.json tok1/tokenizer.json; then ok; else bad "one thread trains another tokenizer"; fi
expect 0 "3000 documents" "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
expect 0 "documents  3000" "$drover" data info data/set
expect 0 "set: ok" "$drover" data verify data/set --vocab-size 400
expect 1 "expected 0 to 9" "$drover" data verify data/set --vocab-size 10
expect 0 "tells of the fox" "$drover" data show data/set --document 7 --tokenizer tok
printf 'the fox and 12 hens' | "$drover" tokenizer encode --tokenizer tok >ids
expect 0 "the fox and 12 hens" "$drover" tokenizer decode --tokenizer tok --input ids
printf '{"text": "a fox"}\n' >one.jsonl
expect 0 "[" "$drover" tokenizer encode --tokenizer tok --json-key text --input one.jsonl

# --- usage
expect 2 'unknown verb "trian", did you mean "train"' "$drover" trian
expect 2 'unknown option "--promt", did you mean "--prompt"' "$drover" generate x --promt y
expect 2 "usage: drover train" "$drover" train
expect 0 "usage: drover train" "$drover" train --help
expect 2 "did you mean \"training.steps\"" "$drover" config --set model.preset=tiny --set training.stepz=1
expect 1 "could not open" "$drover" train nothing.yaml
expect 0 '"parameters"' "$drover" plan --set model.preset=llama-3.1-405b --json
expect 0 "attention_grad(" "$drover" graph --set model.preset=llama-3.1-70b
expect 0 "GEMM peak" "$drover" doctor

# --- the model
rm -rf data tok
make_data
expect 0 "step-000040" "$drover" train run.yaml --set run_dir=straight
expect 0 "perplexity" "$drover" eval straight/checkpoints/step-000040 --data data/set
expect 0 '"loss"' "$drover" eval run.yaml --set run_dir=straight --data data/set --json
expect 0 "tokens/s" "$drover" generate straight/checkpoints/step-000040 --prompt "Document 5" --max-tokens 20 --seed 3
grep -v tokens/s out >first
expect 0 "Document 5" "$drover" generate straight/checkpoints/step-000040 --prompt "Document 5" --max-tokens 20 --seed 3 --threads 1
grep -v tokens/s out | cmp -s - first && ok || bad "the same seed gives another text"
expect 1 "config.json" "$drover" generate tok --prompt x
expect 0 '"tokens"' "$drover" eval straight --data data/set --json
cp out whole
expect 0 '"tokens"' "$drover" eval straight/checkpoints --data data/set --json
check "eval of a run and of its checkpoints differ" cmp -s <(tail -n 1 out) <(tail -n 1 whole)
expect 0 "step-000040  step 40  loss " "$drover" ckpt list straight
says "verified"
expect 0 '"dtype": "F32"' "$drover" ckpt show straight/checkpoints/step-000040 --json
check "ckpt show --json is no JSON" python3 -c 'import json; json.load(open("out"))'
cp -r straight broken
truncate -s -1 broken/checkpoints/step-000040/trainer.json
expect 0 "refused: " "$drover" ckpt list broken
expect 0 '"verified": false' "$drover" ckpt list broken --json
expect 1 "has no file of tensors (.safetensors, or of torch.save)" "$drover" ckpt show tok
expect 1 "has no file of torch.save, in which --key" "$drover" ckpt show straight/checkpoints/step-000040 --key model
expect 0 "model.norm.weight" "$drover" ckpt show straight/checkpoints/step-000040/model.safetensors
expect 2 'is a folder, expected a file of torch.save' "$drover" ckpt import straight/checkpoints/step-000040 --key model --out none
expect 1 "is not a folder" "$drover" ckpt list nowhere
expect 1 "neither config.json" "$drover" eval data --data data/set
expect 1 "expected a Hugging Face folder, a run directory or a config" "$drover" eval nowhere --data data/set

finish
