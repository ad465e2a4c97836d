#!/bin/bash
# Models out of drover: exported in every type, sharded, merged with an adapter, proved, and refused.
tests=$(realpath "$(dirname "$0")")
golden=$tests/golden
. "$tests"/story.bash
. "$tests"/events.bash
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }

echo "-- a model goes out as it came in: file for file in every type"
expect 0 "all weights are equal" "$drover" ckpt export "$golden/tied" --out f32
says "proved: verify.json" "same likeliest token"
check "fp32 is byte-identical" same "$golden/tied" f32
check "config.json says float32" grep -q '"float32"' f32/config.json
for type in bf16 f16; do
    expect 0 "proved" "$drover" ckpt export "$golden/tied" --out $type --dtype $type
    expect 0 "all weights are equal" "$drover" ckpt export $type --out again-$type
    check "$type is byte-identical" same $type again-$type
    expect 0 "all weights are equal" "$drover" ckpt export $type --out wide-$type --dtype f32
    expect 0 "proved" "$drover" ckpt export wide-$type --out narrow-$type --dtype $type
    check "$type through f32 is byte-identical" same $type narrow-$type
done
check "config.json says bfloat16" grep -q '"bfloat16"' bf16/config.json
check "config.json says float16" grep -q '"float16"' f16/config.json

echo "-- in shards, and in one file again"
expect 0 "proved" "$drover" ckpt export f32 --out shards --max-shard-size 30KB
check "there are shards" test -e shards/model-00001-of-00004.safetensors -a -e shards/model.safetensors.index.json
expect 0 "one" "$drover" ckpt consolidate shards --out one
check "one file has the same bytes" same f32 one
check "no index is left" test ! -e one/model.safetensors.index.json
expect 0 "all weights are equal" "$drover" ckpt verify shards one
says "good: B is A within the bounds"

echo "-- base and adapter become one model"
for pair in tied:plain tied:one_layer untied_llama3:patterns; do
    base=${pair%:*} adapter=${pair#*:}
    expect 0 "proved" "$drover" ckpt merge "$golden/$base" "$golden/adapters/$adapter" --out merged-$adapter
    expect 0 "proved" "$drover" ckpt merge "$golden/$base" "$golden/adapters/$adapter" --out merged-$adapter-bf16 --dtype bf16
    expect 1 "rounding to F32 explains" "$drover" ckpt verify "$golden/$base" merged-$adapter
done
says_rounding() { # ALPHA: a merge in bf16 of an adapter that changes this little
    cp -r "$golden/adapters/plain" faint && sed -i "s/\"lora_alpha\": [0-9.]*/\"lora_alpha\": $1/" faint/adapter_config.json
    expect 0 "of the adapter's effect" "$drover" ckpt merge "$golden/tied" faint --out merged-faint --dtype bf16
    rm -r faint merged-faint
}
says_rounding 0.16
check "no warning below a quarter" eval '! grep -q "warning: rounding" out'
says_rounding 0.05
says "warning: rounding to BF16 takes " " % of the adapter's effect; --dtype f32, or a finer --type, rounds less"
expect 1 "the adapter is another model's" "$drover" ckpt merge "$golden/untied_llama3" "$golden/adapters/plain" --out none
check "nothing was written" test ! -e none -a ! -e none.drover-tmp

echo "-- what is not the same model is said"
expect 1 '"f32" has no manifest.json, the hashes of a drover checkpoint; drover ckpt verify A B' "$drover" ckpt verify f32
expect 1 "they are different models" "$drover" ckpt verify f32 "$golden/untied_llama3"
cp -r f32 eps && sed -i 's/"rms_norm_eps": [0-9.e-]*/"rms_norm_eps": 0.001/' eps/config.json
expect 1 "rms_norm_eps" "$drover" ckpt verify f32 eps
cp -r f32 harmed && printf 'xxxx' | dd of=harmed/model.safetensors bs=1 seek=20000 conv=notrunc status=none
expect 1 "explains" "$drover" ckpt verify f32 harmed
expect 1 '"good": false' "$drover" ckpt verify f32 harmed --json
says "model.layers.0.mlp.down_proj.weight [17, 30] is "
expect 0 '"same_weights": true' "$drover" ckpt verify f32 one --json
for other in spoken token merges; do cp -r f32 $other && cp "$golden/sft/tokenizer.json" $other; done
expect 0 "all weights are equal" "$drover" ckpt verify spoken f32
sed -i 's/"Ġdes":321,"Ġuser":322/"Ġuser":321,"Ġdes":322/' token/tokenizer.json
expect 1 'their tokenizers differ: token 321 is " des" in one and " user" in the other' "$drover" ckpt verify spoken token
sed -i 's/\["Ġth","e"\],//' merges/tokenizer.json
expect 1 'their tokenizers differ: "The history' "$drover" ckpt verify spoken merges
expect 1 '"good": false' "$drover" ckpt verify spoken merges --json
cp -r f32 padded && sed 's/{"id":4,/{"id":340,"content":"<pad>","special":true},&/' "$golden/sft/tokenizer.json" > padded/tokenizer.json
expect 1 'differ: token 340 is not there in one and "<pad>" in the other' "$drover" ckpt verify spoken padded
cp -r "$golden/adapters/plain" padding && cp padded/tokenizer.json padding
expect 1 'padding/tokenizer.json: token "|" has id 96, but the model has 96 rows' "$drover" ckpt merge spoken padding --out merged-padding
python3 -c '
import json
root = json.load(open("padded/tokenizer.json"))
root["model"]["vocab"] = {text: i for text, i in root["model"]["vocab"].items() if i < 95}
root["model"]["merges"] = []
for token in root["added_tokens"]:
    token["id"] = min(token["id"], 95)
json.dump(root, open("padding/tokenizer.json", "w"))'
expect 0 "proved" "$drover" ckpt merge spoken padding --out merged-padding
check "a merge takes the tokenizer of the adapter" cmp -s padding/tokenizer.json merged-padding/tokenizer.json
cp -r f32 holes && printf '\377\377\377\377' | dd of=holes/model.safetensors bs=1 seek=20000 conv=notrunc status=none
expect 1 "is NaN at" "$drover" ckpt export holes --out none
check "nothing of it is left" test ! -e none -a ! -e none.drover-tmp

echo "-- as GGUF and back"
for type in f32 f16 bf16 q8_0; do
    expect 0 "proved" "$drover" ckpt export f32 --gguf $type.gguf --type $type
done
expect 0 "all weights are equal" "$drover" ckpt verify f32 f32.gguf
check "the proof lies beside it" grep -q '"good": true' q8_0.gguf.verify.json
mkdir left.gguf.verify.json
expect 1 "left.gguf.verify.json" "$drover" ckpt export f32 --gguf left.gguf
check "no file has the name before its proof has" test ! -e left.gguf
expect 2 "--gguf and --dtype exclude" "$drover" ckpt export f32 --gguf x.gguf --dtype bf16
expect 2 "--type needs --gguf" "$drover" ckpt export f32 --out none --type f16
expect 2 "--force replaces it" "$drover" ckpt export f32 --gguf f32.gguf
in_place="is in place, but may be gone after a power failure"
last_sync() { # NTH EXIT OPTION...: the disk is full at the NTH sync of the folder, the last one of an export
    local nth=$1 code=$2
    shift 2
    expect "$code" "$in_place" "${preload[@]}" AT_EVENT="fail before $nth sync $PWD" "$drover" ckpt export f32 --gguf synced.gguf "$@"
    check "the file is there" test -e synced.gguf -a ! -e synced.gguf.drover-tmp
}
last_sync 1 1 --no-verify # another try would be refused: not 75
last_sync 1 75 --no-verify --force
rm synced.gguf
last_sync 3 1

echo "-- what training leaves is what people publish"
make_data
expect 0 "step-000006" "$drover" train run.yaml --set training.steps=6 --set run_dir=bf16run
step=bf16run/checkpoints/step-000006
check "the model file is bf16" grep -qa '"dtype":"BF16"' $step/model.safetensors
check "no weight of it is fp32" bash -c "! grep -qa '\"dtype\":\"F32\"' $step/model.safetensors"
check "config.json says so" grep -q '"torch_dtype": "bfloat16"' $step/config.json
check "fp32 weights lie beside it" grep -qa '"master.model.norm.weight":{"dtype":"F32"' $step/optimizer.safetensors
expect 0 "$step: ok" "$drover" ckpt verify $step
expect 0 "$step: ok" "$drover" ckpt verify bf16run/checkpoints
expect 0 "all weights are equal" "$drover" ckpt export bf16run --out published
check "published is the model file" same $step published
expect 0 "proved" "$drover" ckpt export bf16run --out exact --dtype f32
expect 0 "proved" "$drover" ckpt export bf16run --out exact-fp32 --dtype fp32
check "fp32 is f32" same exact exact-fp32
for type in fp16 f16; do expect 0 "" "$drover" ckpt export bf16run --gguf by-$type.gguf --type $type; done
check "fp16 is f16" cmp by-fp16.gguf by-f16.gguf
expect 2 '--dtype is "fp8", expected bf16, f16 or f32' "$drover" ckpt export bf16run --out no --dtype fp8
expect 0 "proved" "$drover" ckpt export exact --out rounded --dtype bf16
check "the model file is its fp32 weights, rounded once" same $step rounded
for type in f32 f16 bf16; do
    expect 0 "step-000006" "$drover" train run.yaml --set training.steps=6 --set training.save_dtype=$type --set run_dir=run-$type
    expect 0 "all weights are equal" "$drover" ckpt export run-$type --out exact-$type --dtype f32
    check "fp32 weights do not depend on what is saved: $type" same exact exact-$type
done
check "fp32 has no copies" bash -c "! grep -qa master. run-f32/checkpoints/step-000006/optimizer.safetensors"
expect 0 "" "$drover" ckpt consolidate $step --out moved/step-000006 --max-shard-size 50KB
expect 0 "moved/step-000006: ok" "$drover" ckpt verify moved/step-000006
check "the optimizer is the same" cmp $step/optimizer.safetensors moved/step-000006/optimizer.safetensors

echo "-- nothing is overwritten"
expect 2 "has files in it" "$drover" ckpt export f32 --out shards
expect 2 "is the source itself" "$drover" ckpt export f32 --out ./f32 --force
echo mine >shards/notes.txt
expect 0 "proved" "$drover" ckpt export f32 --out shards --force
check "another's file stays" grep -q mine shards/notes.txt
check "the old shards are gone" test ! -e shards/model-00001-of-00004.safetensors -a ! -e shards/model.safetensors.index.json
touch file
expect 2 "is a file, expected a folder" "$drover" ckpt export f32 --out file
expect 2 "expected bf16, f16 or f32" "$drover" ckpt export f32 --out none --dtype fp8
expect 2 "--out is missing" "$drover" ckpt export f32
mkdir bin && touch bin/pytorch_model.bin && cp f32/config.json bin
expect 1 "pytorch_model.bin: is not a file of torch.save" "$drover" ckpt export bin --out none
expect 0 "not verified" "$drover" ckpt export f32 --out quick --no-verify
check "no proof is claimed" test ! -e quick/verify.json

finish
