#!/bin/bash
# GGUF in and out as a user does it: models that come back as they went, tokenizers, refusals that harm nothing, bounded
# memory.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
golden=$tests/golden corpus=$tests/corpus/gguf
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }
untouched() { [ "$(ls "$1")" = "$2" ]; }
shape='vocab_size|hidden_size|intermediate_size|num_(hidden_layers|attention_heads|key_value_heads)|head_dim'
shape="$shape|max_position_embeddings|rms_norm_eps|tie_word_embeddings|(bos|eos|pad)_token_id"
numbers() { grep -E "\"($shape)\"" "$1"/config.json | tr -d ' ,' | sort; }
same_shape() { diff <(numbers "$1") <(numbers "$2"); }

echo "-- Hugging Face to GGUF and back: the same bytes in every type"
for model in tied untied_llama3 mistral qwen2 qwen2_tied qwen3 qwen3_untied smollm3; do
    for type in f32 bf16 f16; do
        expect 0 "proved" "$drover" ckpt export "$golden/$model" --out $model-$type --dtype $type
        expect 0 "tensors" "$drover" ckpt export $model-$type --gguf $model-$type.gguf
        expect 0 "in a config: model: {from:" "$drover" ckpt import $model-$type.gguf --out $model-$type-back
        says "proved: all weights are equal to the bit"
        check "$model $type is byte-identical" same $model-$type $model-$type-back
        check "$model $type: the shape is the same" same_shape $model-$type $model-$type-back
    done
done
check "llama3's scaling came back" grep -q '"original_max_position_embeddings": 32' untied_llama3-f32-back/config.json
expect 0 "all weights are equal" "$drover" ckpt verify untied_llama3-bf16 untied_llama3-bf16.gguf
expect 0 "Q8_0" "$drover" ckpt export tied-f32 --gguf tied-q8.gguf --type q8_0
cp -r tied-f32 gap && dd if=/dev/zero of=gap/model.safetensors bs=4 seek=$(((2024 + 4 * 32 * 90) / 4)) count=32 conv=notrunc status=none
expect 1 "rounding from F32 to Q8_0 explains of its row" "$drover" ckpt verify gap tied-q8.gguf
says "model.embed_tokens.weight [90, "
expect 0 "of F32" "$drover" ckpt import tied-q8.gguf --out tied-q8
says "proved: all weights are equal to the bit"
expect 0 "of BF16" "$drover" ckpt import tied-q8.gguf --out tied-q8-bf16 --dtype bf16
says "same likeliest token" "proved: verify.json"
check "import is proved" grep -q '"good": true' tied-q8-bf16/verify.json
expect 0 "of BF16" "$drover" ckpt import tied-q8.gguf --out tied-q8-not --dtype bf16 --no-verify
check "--no-verify claims nothing" [ ! -e tied-q8-not/verify.json ]

echo "-- a tokenizer becomes tokenizer.json, and GGUF again"
expect 0 "in a config: model: {from:" "$drover" ckpt import "$corpus"/bpe.gguf --out bpe
expect 0 "0 4 6" "$drover" tokenizer encode --tokenizer bpe < <(printf 'ab a')
check "the chat template is there" grep -q '"chat_template": "{{ messages }}"' bpe/tokenizer_config.json
check "a filler is not a token" test -z "$(grep PAD7 bpe/tokenizer.json)"
expect 0 "in a config: model: {from:" "$drover" ckpt import "$corpus"/sentencepiece.gguf --out sp
expect 0 "1 9 7 3 7" "$drover" tokenizer encode --tokenizer sp < <(printf 'ab a\n a')
cp -r bpe stripping
sed -i '0,/"lstrip": false/s//"lstrip": true/' stripping/tokenizer.json stripping/tokenizer_config.json
expect 0 "llama.cpp does not know lstrip of added tokens" "$drover" ckpt export stripping --gguf stripping.gguf
# Flags of added tokens come back, and tokens that only a file beside tokenizer.json has are in the file.
sed -i '0,/"normalized": false/s//"normalized": true/; 0,/"rstrip": false/s//"rstrip": true/' stripping/tokenizer.json
sed -i '0,/"added_tokens_decoder": {/s//&"7": {"content": "<|x|>", "special": true, "single_word": true},/' stripping/tokenizer_config.json
sed -i '0,/"normalized": false/s//"normalized": true/; 0,/"rstrip": false/s//"rstrip": true/' stripping/tokenizer_config.json
expect 0 "tensors" "$drover" ckpt export stripping --gguf stripping.gguf --force
expect 0 "tensors" "$drover" ckpt import stripping.gguf --out stripped
for text in 'ab a' 'ab <|x|> a' 'ab<|x|>a' '<s> ab </s> a'; do
    "$drover" tokenizer encode --tokenizer stripping <<<"$text" >ids 2>out
    "$drover" tokenizer encode --tokenizer stripped <<<"$text" >back 2>out
    check "ids of $text" cmp ids back
done
check "flags" diff <(grep -o '"[lrns][a-z_]*": true' stripping/tokenizer_config.json | sort | uniq -c) <(grep -o '"[lrns][a-z_]*": true' stripped/tokenizer_config.json | sort | uniq -c)
check "a token beside" grep -q '"<|x|>": 7' stripped/tokenizer.json
for model in bpe sp; do
    expect 0 "tensors" "$drover" ckpt export $model --gguf $model.gguf
    expect 0 "in a config: model: {from:" "$drover" ckpt import $model.gguf --out $model-back
    for file in tokenizer.json tokenizer_config.json generation_config.json config.json model.safetensors; do
        check "$model: $file is the same" cmp $model/$file $model-back/$file
    done
done

echo "-- generate, chat and eval take the file itself, as the folder that import makes of it, to the bit"
mkdir tmp
printf 'ab a ab b a a ab\n' >ab.txt
echo '[{"role": "user", "content": "ab"}]' >ab.json
gone() { [ -z "$(ls tmp)" ]; }
for type in f32 q8_0; do
    expect 0 "tensors" "$drover" ckpt export bpe --gguf bpe-$type.gguf --type $type
    expect 0 "tensors" "$drover" ckpt import bpe-$type.gguf --out bpe-$type
    for model in bpe-$type bpe-$type.gguf; do
        export TMPDIR=$dir/tmp
        expect 0 "" "$drover" generate $model --prompt "ab a" --temperature 0 --max-tokens 8 --json
        grep -o '"ids": [^]]*' out >$model.ids
        expect 0 "" "$drover" eval $model --text ab.txt --logits $model.logits
        expect 0 "loss " "$drover" eval $model --text ab.txt
        grep "^loss" out >>$model.ids
        expect 0 "ab" "$drover" chat $model --messages ab.json --print
        cat out >>$model.ids
        unset TMPDIR
    done
    expect 0 "" "$drover" eval bpe-$type.gguf --text ab.txt --logits bpe-$type.blocks --precision blocks
    check "logits of the blocks of bpe-$type.gguf" cmp bpe-$type.logits bpe-$type.blocks
    expect 0 "" "$drover" generate bpe-$type.gguf --prompt "ab a" --temperature 0 --max-tokens 8 --json --precision blocks
    says "$(head -n 1 bpe-$type.ids)"
    check "ids, loss and chat of bpe-$type.gguf" cmp bpe-$type.ids bpe-$type.gguf.ids
    check "logits of bpe-$type.gguf" cmp bpe-$type.logits bpe-$type.gguf.logits
done
check "the folders are gone" wait_for gone
# An adapter beside the blocks of a file
cp -r tied-f32 adapted && cp bpe/tokenizer.json adapted
expect 0 "tensors" "$drover" ckpt export adapted --gguf adapted.gguf --type q8_0
for precision in fp32 blocks; do
    expect 0 "" "$drover" eval adapted.gguf --adapter "$golden"/adapters/plain --text ab.txt --logits adapted-$precision --precision $precision
done
check "logits of an adapter beside blocks" cmp adapted-fp32 adapted-blocks
expect 2 "the adapter changes the output weight" "$drover" eval adapted.gguf --adapter "$golden"/adapters/head --text ab.txt --logits none --precision blocks
expect 2 'the weights of "bpe-f32" are not those of a GGUF file, which --precision blocks expects' "$drover" generate bpe-f32 --prompt x --precision blocks
TMPDIR=$dir/nowhere expect 1 "could not make folder" "$drover" generate bpe.gguf --prompt x
expect 1 'tied-q8.gguf" has no tokenizer; make a folder of it' "$drover" generate tied-q8.gguf --prompt x

echo "-- a folder of Meta's with its tokenizer.model"
cp -r "$golden/meta/one" meta-one && cp "$tests/corpus/model_file/unigram.model" meta-one/tokenizer.model
expect 0 "proved: all weights" "$drover" ckpt import meta-one --out of-meta
check "its tokenizer is one" bash -c '! grep -q "no tokenizer" out'
check "and is carried" cmp meta-one/tokenizer.model of-meta/tokenizer.model

echo "-- a folder of Meta's and a file of torch.save: to train, use, compare, merge and export"
mkdir saved && cp "$golden"/torch_save/trainer/{last.ckpt,config.json} saved
for letter in a b; do vocab+=", \"$letter\": $((++n_letters))"; done
echo "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<unk>\": 0$vocab}, \"merges\": [], \"unk_token\": \"<unk>\"}}" >saved/tokenizer.json
cp -r "$golden/meta/one" meta-run && cp saved/tokenizer.json meta-run
seq 600 | sed 's/.*/ab ba/' >letters.txt
expect 0 "" "$drover" data build --input letters.txt --tokenizer meta-run --out letters
for from in meta-run saved/last.ckpt; do
    printf '%s\n' "model: {from: $from}" "data: {train: letters, sequence_length: 16}" "training: {global_batch_size: 1, steps: 2}" \
        "lora: {rank: 2}" "run_dir: run-${from%/*}" >run.yaml
    expect 0 "" "$drover" plan run.yaml
    expect 0 "" "$drover" train run.yaml
    expect 0 "base: " "$drover" generate run-${from%/*} --prompt a --max-tokens 2
    expect 0 "" "$drover" eval $from --data letters
    expect 0 "" "$drover" eval run.yaml --data letters
    expect 0 "BF16" "$drover" ckpt show $from
    expect 0 "proved" "$drover" ckpt merge $from run-${from%/*} --out merged-${from%/*} --dtype f32
    expect 0 "all weights are equal" "$drover" ckpt export $from --out exported-${from%/*}
    expect 0 "all weights are equal" "$drover" ckpt verify $from exported-${from%/*}
done

echo "-- what is refused, with what to do; nothing is written"
expect 2 "drover ckpt import bpe.gguf --out DIR" "$drover" plan --set model.from=bpe.gguf
mkdir pickle meta full
cp bpe/config.json pickle && touch pickle/pytorch_model.bin
touch meta/consolidated.00.pth meta/params.json full/mine
expect 1 "is one of Meta's own files; name the folder that they lie in" "$drover" ckpt import meta/consolidated.00.pth --out refused
expect 1 "meta/params.json" "$drover" generate meta --prompt x
expect 1 "pytorch_model.bin: is not a file of torch.save" "$drover" ckpt import pickle --out none
expect 1 "meta/params.json" "$drover" ckpt import meta --out none
expect 2 "full\" has files in it, as \"mine\"" "$drover" ckpt import bpe.gguf --out full
check "the folder is as it was" untouched full mine
expect 0 "in a config: model: {from:" "$drover" ckpt import bpe.gguf --out full --force
check "--force keeps other files" test -e full/mine -a -e full/model.safetensors
expect 2 "bpe.gguf\" is there already; --force replaces it" "$drover" ckpt export bpe --gguf bpe.gguf
expect 2 "expected f32, f16, bf16, q8_0 or q4_k" "$drover" ckpt export bpe --gguf new.gguf --type q5_k
expect 0 "rows are not a multiple of a Q4_K block of 256 numbers, are Q8_0 or F16" "$drover" ckpt export "$golden/tied" --gguf narrow.gguf --type q4_k
head -c 1000 bpe.gguf >cut.gguf
expect 1 "is it truncated?" "$drover" ckpt import cut.gguf --out none
sed 's/llama/gemma/' bpe.gguf >other.gguf
expect 1 "general.architecture is \"gemma\", which is not read; expected \"llama\"" "$drover" ckpt import other.gguf --out none
sed 's/llama-bpe/brand-new/' bpe.gguf >pre.gguf
expect 1 "tokenizer.ggml.pre is \"brand-new\"" "$drover" ckpt import pre.gguf --out none
for type in qwen2:"has no tensor \"model.layers.0.self_attn.q_proj.bias\"" mixtral:"a mixture of experts"; do
    cp -r tied-f32 ${type%%:*}
    sed -i "s/\"model_type\": \"llama\"/\"model_type\": \"${type%%:*}\"/" ${type%%:*}/config.json
    sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 8192/' ${type%%:*}/config.json
    expect 1 "${type#*:}" "$drover" ckpt import ${type%%:*} --out none
done
cp -r tied-f32 nowindow
sed -i 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": null/' nowindow/config.json
expect 0 "in a config: model: {from:" "$drover" ckpt import nowindow --out from-mistral
check "a Mistral without a window is a Llama" same tied-f32 from-mistral
check "SmolLM3 came back" grep -q '"no_rope_layer_interval": 4' smollm3-f32-back/config.json
cp -r smollm3-f32 interval && sed -i 's/"no_rope_layers"/"unread"/; s/"no_rope_layer_interval": 4/"no_rope_layer_interval": 3/' interval/config.json
expect 1 "no_rope_layer_interval is 3, which a GGUF file has no place for, expected 4" "$drover" ckpt export interval --gguf none
expect 1 "max_window_layers is 1, which a GGUF file has no place for" "$drover" ckpt export "$golden/qwen2_window" --gguf none
sed 's/"sliding_window": 12/"sliding_window": 600/' "$golden/mistral/config.json" >nowindow/config.json
expect 1 "nowindow/config.json: sliding_window is 600, expected at most max_position_embeddings 512, or null" "$drover" ckpt import nowindow --out none
expect 0 "llama.cpp loads a model of this architecture only where these are the same" "$drover" ckpt export "$golden/qwen2" --gguf heads.gguf
check "nothing was written" test ! -e none -a ! -e none.drover-tmp -a ! -e new.gguf
finish
