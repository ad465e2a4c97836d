# Sourced by grid.sh and resumes.sh after tests/ranks.bash: the model of tests/test_grid.c with data, and what is compared.
grid=$(dirname "$drover")/tests/test_grid
make_text >text.txt
{
    "$drover" tokenizer train --input text.txt --vocab-size 263 --out tok &&
        "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data/set --append-eod
} >setup.log 2>&1 || { cat setup.log; exit 1; }
cat >run.yaml <<'YAML'
model: {vocab_size: 263, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 8, num_attention_heads: 8,
  num_key_value_heads: 2}
tokenizer: tok
data: {train: data/set, split: [90, 10, 0], sequence_length: 32}
training: {steps: 10, global_batch_size: 8, micro_batch_size: 1, eval_every: 10, eval_batches: 2, hash_every: 1}
optimizer: {lr: 1.0e-2, clip_grad_norm: 0.5}
schedule: {type: constant, warmup_steps: 2}
checkpoint: {every: 0}
parallel: {accumulation_groups: 4, context_blocks: 2}
YAML
# LoRA upon a checkpoint of the same shape, whose sums are to be those of one rank as well.
sed '/^ *num_key_value_heads/d; s/^model:.*/model: {from: base}/' run.yaml >lora.yaml
echo 'lora: {rank: 8, alpha: 16, dropout: 0.1, target_modules: all-linear}' >>lora.yaml
files="hashes.jsonl checkpoints/step-000010/model.safetensors checkpoints/step-000010/adapter_model.safetensors checkpoints/step-000010/optimizer.safetensors checkpoints/step-000010/trainer.json checkpoints/step-000010/manifest.json"
# one_rank KEYS: the run folder of one rank, made at its first use, of the model, optimizer and precision in the keys
one_rank() {
    local one model
    one=one.$config.$(echo "$1" | grep -oE '(hidden_size|tie_word_embeddings|precision|qk_norm|qkv_bias|sliding_window|optimizer.type)=[a-z0-9]*' | tr '\n=' '._')
    model=$(echo "$1" | tr ' ' '\n' | grep -E '^model|^optimizer|precision')
    [ -d "$one" ] || train 1 "$one" $model >log.txt 2>&1 || { tail -2 log.txt >&2; return 1; }
    echo "$one"
}
compare() { # RUN ONE: the first file that differs, with the step of a line
    local file
    for file in $files; do
        [[ $file != *model.safetensors || -e $1/$file || -e $2/$file ]] || continue # a run has a model or an adapter
        cmp "$2/$file" "$1/$file" >differs.txt 2>&1 || { sed "s|$1/||; s|$2/||" differs.txt | tail -1; return; }
    done
}
