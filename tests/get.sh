#!/usr/bin/env bash
# drover data get and model get against a server that misbehaves. usage: get.sh DROVER
set -u
here=$(realpath "$(dirname "$0")")
. "$(dirname "$0")"/story.bash
python3 "$here/bad_server.py" >server.log 2>server.err &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT
until [ -s server.log ] || ! kill -0 $server; do sleep 0.02; done
export HF_ENDPOINT=http://127.0.0.1:$(head -1 server.log)
unset HF_TOKEN HF_TOKEN_PATH
export HF_HOME=$dir/home

ok() { # TEXT CONDITION...
    local text=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $text"; tail -5 out; fi
}
run() { "$drover" data get "$@" >out 2>&1; }
says() { grep -q -- "$1" out; }
fails() { ! run "$@"; }
names() { (cd "$1" && find . -type f | sort | tr '\n' ' '); }
same() { python3 - "$1" "$2" "$here/bad_server.py" <<'PY'
import re, sys
source = open(sys.argv[3]).read().split("SEEN =")[0]
names = {}
exec(source, names)
sys.exit(open(sys.argv[1], "rb").read() != names["FILES"][sys.argv[2]])
PY
}

ok "all files of a data set come" run hf:good/set --out all --parallel 3
for i in 0 1 2 3; do ok "part $i is whole" same "all/data/part $i.jsonl" "data/part $i.jsonl"; done
ok "the parquet file is whole" same all/sample/10BT/a.parquet sample/10BT/a.parquet
ok "no part is left" test -z "$(find all -name '*.part')"
ok "what is not data stays there" test ! -e all/README.md
ok "cut off, it went on from there" grep -q "resolve/main/data/part%201.jsonl bytes=[1-9]" server.log
before=$(grep -c resolve server.log)
ok "a second run loads nothing" run hf:good/set --out all
ok "and says so" says "5 of them already there"
ok "nor asks for files" test "$before" = "$(grep -c resolve server.log)"
ok "a config by the card" run hf:good/set:sample-10BT --out config
ok "has its file" test -e config/sample/10BT/a.parquet -a ! -e config/data
ok "a branch with slashes" run hf:good/set:sample-10BT --revision refs/convert/parquet --out branch
ok "is asked for" grep -q "tree/refs%2Fconvert%2Fparquet" server.log
ok "an unknown config" fails hf:good/set:huge --out config
ok "names those there are" says '"sample-10BT", "default"'
ok "gated" fails hf:gated/set --out x
ok "says what to do" says "accept its terms"
ok "private" fails hf:private/set --out x
ok "says so" says "HF_TOKEN.*(401)"
mkdir home && echo " secret" >home/token
ok "with the token of a login it comes" run hf:private/set:default --out login
HF_ENDPOINT=http://0.0.0.0:1 run hf:a/b --out x --tries 1
ok "no token goes to another machine without TLS" says 'no token is sent: HF_ENDPOINT is "http://0.0.0.0:1", expected https'
rm -r home
export HF_TOKEN=secret
ok "with the token it comes" run hf:private/set:default --out private
ok "part 1 is whole" same "private/data/part 1.jsonl" "data/part 1.jsonl"
sum=$(sha256sum <"all/data/part 0.jsonl" | cut -d' ' -f1)
ok "a URL with its hash" run "$HF_ENDPOINT/plain/data/part%200.jsonl#sha256=$sum" --out url
ok "another hash" fails "$HF_ENDPOINT/plain/data/part%200.jsonl#sha256=${sum//[0-4]/7}" --out url2 --tries 2
ok "is named" says "its hash is $sum, expected"
ok "and no file is left under its name" test ! -e "url2/part%200.jsonl"
ok "not there" fails "$HF_ENDPOINT/nowhere" --out url
ok "is a 404" says "not found (404)"
ok "a redirect" run "$HF_ENDPOINT/elsewhere" --out url
ok "the token stays with the hub" test -z "$(grep '/plain/README.md.*secret' server.log)"
ok "half of it is there" sh -c 'mkdir half && head -c 5000 "all/data/part 3.jsonl" >"half/part%203.jsonl.part"'
ok "a server without ranges gives all of it" run "$HF_ENDPOINT/plain/data/part%203.jsonl" --out half
ok "part 3 is whole" same "half/part%203.jsonl" "data/part 3.jsonl"
ok "no server" fails http://127.0.0.1:1/file --out x --tries 2
ok "is said" says "given up after 2 tries"
endpoint=$HF_ENDPOINT
export HF_ENDPOINT=http://127.0.0.1:1
ok "no hub" fails hf:a/b --out x --tries 1
ok "its tries are counted too" says "given up after 1 try:"
export HF_ENDPOINT=$endpoint
ok "bad spec" fails hf:good --out x
ok "is explained" says "expected hf:ORG/NAME"
# Lists that do not end, files of one name, bodies of any length; each within its time.
odd() { timeout 300 "$drover" data get "hf:odd/$1" --out "odd-$1" "${@:2}" >out 2>&1; }
no_odd() { odd "$@"; [ $? = 1 ]; }
for set in self circle empty; do
    ok "a list that does not end ($set)" no_odd $set
    ok "is said ($set)" says "the list of files does not end"
done
ok "two files of one name" no_odd twice
ok "are named" says 'the hub lists two files for "odd-twice/a/rows.jsonl", of 14 and 28 bytes'
ok "one that is listed twice" odd again
ok "comes once" says "1 file"
ok "more bytes than are listed" no_odd long --tries 1
ok "are refused" says "more bytes arrived than the 14 that are listed"
ok "and not written" test "$(find odd-long -type f -size +1k | wc -l)" = 0
ok "splits that the card names" odd splits
ok "are kept apart" test "$(names odd-splits)" = "./test/b/rows.jsonl ./train/a/rows.jsonl "
ok "token ids, where there is no text" odd ids
ok "come, and what is JSON" test "$(names odd-ids)" = "./sizes.json ./train.bin "
ok "where there is one" odd mixed
ok "they stay there" test "$(names odd-mixed)" = "./a/rows.jsonl "
ok "a tokenizer" "$drover" tokenizer train --input odd-mixed --vocab-size 260 --special '<|endoftext|>' --out tok
ok "the ids are a data set" "$drover" data build --input 'odd-ids/*.bin' --tokenizer tok --out ids
ok "of two documents" test "$("$drover" data show ids --document 1 2>out)" = "0 9 5"
# Models
get() { "$drover" model get "$@" >out 2>&1; }
no_get() { ! get "$@"; }
whole() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$(yes "$2" | head -3000 | sha256sum | cut -d' ' -f1)" ]; }
ok "a model comes" get hf:good/llama
ok "it says how to go on" says "model: {from: models/llama}"
ok "what is needed and nothing else" test "$(names models/llama)" = "./chat_template.jinja ./config.json \
./generation_config.json ./model-00001-of-00002.safetensors ./model-00002-of-00002.safetensors \
./model.safetensors.index.json ./special_tokens_map.json ./tokenizer.json ./tokenizer_config.json "
ok "the shard that was cut off is whole" whole models/llama/model-00002-of-00002.safetensors \
    "good/llama model-00002-of-00002.safetensors"
ok "and was resumed" grep -q "resolve/main/model-00002-of-00002.safetensors bytes=[1-9]" server.log
before=$(grep -c resolve server.log)
ok "a second time" get good/llama
ok "nothing is asked for" test "$before" = "$(grep -c resolve server.log)"
ok "elsewhere, by a tag" get hf:good/llama --revision v1.0 --out elsewhere
ok "is asked for" grep -q "api/models/good/llama/tree/v1.0" server.log
ok "is there" test -e elsewhere/config.json
ok "a model without ORG" get hf:old
ok "has its tokenizer" test "$(names models/old)" = "./config.json ./merges.txt ./model.safetensors ./tokenizer.json ./vocab.json "
ok "a model without safetensors" get hf:good/pickled
ok "comes with the files of PyTorch" test "$(names models/pickled)" = "./config.json ./pytorch_model-00001-of-00002.bin \
./pytorch_model-00002-of-00002.bin ./pytorch_model.bin.index.json "
ok "the one that was cut off is whole" whole models/pickled/pytorch_model-00002-of-00002.bin \
    "good/pickled pytorch_model-00002-of-00002.bin"
ok "neither of them" no_get hf:good/other
ok "is refused, naming what there is" says "no weights that drover reads (.*); it has model.gguf, tf_model.h5, adapter_model.bin$"
ok "nothing is written" test ! -e models/other
ok "no config.json" no_get hf:good/empty
ok "is refused" says "no config.json"
ok "a gated model" no_get hf:gated/model
ok "says what to do" says "accept its terms"
ok "an unknown model" no_get hf:nobody/nothing
ok "says so" says "401"
ok "a config of a model" no_get hf:good/llama:part
ok "is no such thing" says "expected hf:ORG/NAME$"
ok "an option of another verb" no_get hf:good/llama --json-key text
ok "is named" says "unknown option"
finish
