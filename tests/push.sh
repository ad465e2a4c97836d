#!/usr/bin/env bash
# drover model push against a hub of ours (hub_server.py): what arrives, what is resumed, what a server may do wrong;
# and that server under huggingface_hub's own client, where there is one. usage: push.sh DROVER
here=$(realpath "$(dirname "$0")")
. "$here"/story.bash
python3 "$here"/hub_server.py 65536 >server.log 2>server.err &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT
until [ -s server.log ] || ! kill -0 $server; do sleep 0.02; done
[ -s server.log ] || { cat server.err; exit 1; }
read -r port storage <server.log
export HF_ENDPOINT=http://127.0.0.1:$port HOME=$dir XDG_CACHE_HOME=$dir/cache
unset HF_TOKEN HF_HOME HF_TOKEN_PATH

push() { "$drover" model push "$@"; }
# ask METHOD PATH BODY: prints the server's answer
ask() {
    exec 3<>/dev/tcp/127.0.0.1/$port
    printf '%s %s HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" ${#3} "$3" >&3
    LC_ALL=C sed '1,/^\r$/d' <&3
    exec 3>&-
}
get() { ask GET "/$1" ""; }
# fault AT DO [TIMES]: what goes wrong with requests from now on; DO is JSON
fault() { ask POST /fault "{\"at\": \"$1\", \"do\": $2, \"times\": ${3:-1}}"; }
same() { get "file/$1" | cmp -s - "$2"; } # ORG/NAME/BRANCH/PATH FILE: the same bytes are there
commits() { get "log/$1" | wc -l; }
mark() { from=$(($(wc -l <server.log) + 1)); }
since() { tail -n +$from server.log; }
count() { [ "$(since | grep -c "$1")" = "$2" ]; } # since `mark`, so many requests

make_data
expect 0 "step-000001" "$drover" train run.yaml --set training.steps=1 --set run_dir=run
model=run/checkpoints/step-000001
parts=$((($(stat -c %s $model/model.safetensors) - 1) / 65536 + 1))
check "the model has parts" [ $parts -gt 3 ]

# --- without the hub
expect 2 "there is no token: set HF_TOKEN" push $model hf:org/tiny
expect 0 "to be sent" push $model hf:org/tiny --dry-run --license apache-2.0 --dataset org/foxes --base org/base
says "optimizer.safetensors" "left out" "not known: which files go by LFS" 'license: "apache-2.0"' 'base_model: "org/base"' \
    '- "org/foxes"' "library_name: transformers" "| steps | 1 |" "3000 documents" "## Proof" 'XXH3-128'
check "the hub was not asked" [ "$(wc -l <server.log)" = 1 ]
expect 0 "not verified" "$drover" ckpt export run --out exported --no-verify
expect 0 "to be sent" push exported hf:org/tiny --dry-run
says "| steps | 1 |" "| tokens trained on |" "| training loss at the last step |" "| optimizer | adamw |"
check "trainer.json stays here" grep -q "^trainer.json .* left out" out
check "no path of the run goes with an exported model" [ -z "$(grep "data\|run" exported/trainer.json)" ]
export HF_TOKEN=hf_secret
expect 2 "expected hf:ORG/NAME" push $model hf:tiny
expect 2 'HF_ENDPOINT is "http://hub.example", expected https://, or http:// to this machine' env HF_ENDPOINT=http://hub.example "$drover" model push $model hf:org/tiny
expect 2 "expected https://" env HF_ENDPOINT=http://127.0.0.1.example.org "$drover" model push $model hf:org/tiny
expect 2 "expected https://" env HF_ENDPOINT=http://localhost@example.org "$drover" model push $model hf:org/tiny
expect 2 '--message is not UTF-8' push $model hf:org/tiny --message $'\xff'
mkdir half && cp $model/*.json half
expect 1 "half" push half hf:org/tiny

# --- a repository is made, what is asked for arrives, a second time nothing is sent
expect 2 "hf:org/tiny is not there, or the token may not see it: --create makes it" push $model hf:org/tiny
expect 0 "--create makes it" push $model hf:org/tiny --dry-run
expect 0 "/org/tiny/commit/" push $model hf:org/tiny --create --private --message "First try"
for file in model.safetensors config.json tokenizer.json; do check "$file arrived" same org/tiny/main/$file $model/$file; done
check "no optimizer did" eval "! get file/org/tiny/main/optimizer.safetensors | cmp -s - $model/optimizer.safetensors"
get file/org/tiny/main/README.md >out
says "library_name: transformers" "| steps | 1 |" "drover model get hf:org/tiny"
check "in one commit" [ "$(get log/org/tiny/main | tail -n +2 | cut -d' ' -f2-)" = "First try" ]
check "the storage got no token" [ -z "$(grep 'PUT.* token' server.log)" ]
mark
expect 0 "hf:org/tiny has all" push $model hf:org/tiny
check "nothing is sent twice" count "PUT\|commit" 0
expect 0 "there already" push $model hf:org/tiny --dry-run
expect 0 "/org/open/commit/" push $model hf:org/open --create --optimizer
check "with the optimizer" same org/open/main/optimizer.safetensors $model/optimizer.safetensors
expect 2 "hf:org/open is there and public" push $model hf:org/open --create --private
expect 0 "commit/" push $model hf:org/open --branch a/b --create --card --license mit
check "a branch" same org/open/a%2Fb/model.safetensors $model/model.safetensors
expect 2 'no branch "nowhere"' push $model hf:org/open --branch nowhere
expect 0 "/org/open/discussions/1" push $model hf:org/open --create-pr --card --license bsd
check "a pull request leaves the branch alone" [ "$(commits org/open/main)" = 2 ]
check "and has the card" eval 'get file/org/open/refs%2Fpr%2F1/README.md | grep -q "license: \"bsd\""'
expect 1 "forbidden: the token needs the permission to write there (403)" push $model hf:foreign/tiny --create

# --- an adapter
make_adapter $model
expect 0 "commit/" push tuned hf:org/adapter --create --base org/tiny
check "its weights" same org/adapter/main/adapter_model.safetensors tuned/checkpoints/step-000001/adapter_model.safetensors
says "$model\", a folder of this machine: users of the adapter have to name the base themselves"
get file/org/adapter/main/README.md >out
says "library_name: peft" 'base_model: "org/tiny"' "adapter rank | 4"

# --- what a network does
fault "PUT /s3/[0-9]*/2" 500 2
fault "PUT /s3/[0-9]*/3" '"drop"'
fault "POST .*batch" '{"status": 429, "body": "", "headers": {"RateLimit": "\"api\";r=0;t=0.1"}}'
mark
expect 0 "commit/" push $model hf:org/tried --create
says "the server answered 429; try 2 of 8 in 0.1 s"
check "a part that was refused twice, and one that was cut off, arrived" same org/tried/main/model.safetensors $model/model.safetensors
check "the others once" count "PUT /s3/[0-9]*/1 - 200" 1
fault "PUT /s3/[0-9]*/2" 403
mark
expect 0 "model.safetensors: storage responded with status 403; asking the hub for new URLs" push $model hf:org/expired --create
check "an address that has expired is replaced" same org/expired/main/model.safetensors $model/model.safetensors
check "by a second batch" count "POST .*batch token 200" 2
fault "commit/" '"stale"'
expect 0 "another commit was made to \"main\"" push $model hf:org/stale --create
check "both commits are there" [ "$(commits org/stale/main)" = 3 ]
fault "commit/" '"lost"'
expect 0 "try 2 of 8" push $model hf:org/lost --create
check "a commit whose answer is lost is made once" [ "$(commits org/lost/main)" = 2 ]
fault "commit/" 413
expect 1 "too large for the server (413): on demand" push $model hf:org/large --create
fault "commit/" 503 9
expect 1 "given up after 2 tries: the server answered 503" push $model hf:org/large --create --tries 2
fault "preupload" 401
expect 1 'not authorised: private, or not there; set HF_TOKEN to a valid token, or log in by `hf auth login` (401)' push $model hf:org/tiny
expect 1 "not authorised" env HF_TOKEN=hf_wrong "$drover" model push $model hf:org/tiny
check "no message has the token" [ -z "$(grep -l "hf_wrong\|hf_secret" out)" ]
mkdir home && echo " hf_secret" >home/token
expect 0 "has all" env -u HF_TOKEN HF_HOME=$dir/home "$drover" model push $model hf:org/tiny

# --- killed in the middle, it goes on with the parts that are missing
fault "PUT /s3/[0-9]*/3" '"hold"'
mark
"$drover" model push $model hf:org/killed --create --parallel 1 >killed 2>&1 &
pushing=$!
wait_for eval 'since | grep -q "held PUT"'
kill -KILL $pushing
wait $pushing 2>/dev/null
check "two parts have arrived" count "PUT .* - 200" 2
journal=$(find cache/drover/push -type f)
check "nobody else may read where they are" [ "$(stat -c %a $journal)" = 600 ]
mark
expect 0 "2 of its $parts parts are there" push $model hf:org/killed --create
check "the others are sent" count "PUT .* - 200" $((parts - 2))
check "the file is whole" same org/killed/main/model.safetensors $model/model.safetensors
check "nothing is left of it" [ -z "$(find cache/drover/push -type f)" ]
# A journal of parts that storage has forgotten, one that is torn, one whose ETags are wrong, one that is none
harm() { # NUMBER FILE
    case $1 in
    1) sed -i 's|/s3/[0-9]*/|/s3/999/|g' "$2" ;;
    2) truncate -s -20 "$2" ;;
    3) sed -i 's/"etag":"[^}]*/"etag":"wrong"/' "$2" ;;
    4) echo '[7]' >"$2" ;;
    esac
}
for i in 1 2 3 4; do
    fault "PUT /s3/[0-9]*/3" '"hold"'
    mark
    "$drover" model push $model hf:org/again$i --create --parallel 1 >killed 2>&1 &
    pushing=$!
    wait_for eval 'since | grep -q "held PUT"'
    kill -KILL $pushing
    wait $pushing 2>/dev/null
    harm $i "$(find cache/drover/push -type f)"
    expect 0 "commit/" push $model hf:org/again$i --create
    check "the file is whole after journal $i" same org/again$i/main/model.safetensors $model/model.safetensors
    check "and the journal is gone" [ -z "$(find cache/drover/push -type f)" ]
done

# --- a folder with a card of its own, two files of one content, more files than a commit takes, a hub that ignores one
cp -r $model own
echo "# Mine" >own/README.md
echo "the same text" | tee own/NOTICE.ignored >own/LICENSE
for i in $(seq 300); do echo "$i" >own/LICENSE.$i; done
expect 2 "--license has no effect, as own/README.md is there: --card replaces it" push own hf:org/own --license mit
expect 0 "1 file is ignored by the repository's .gitignore" push own hf:org/own --create
check "the card is the folder's" same org/own/main/README.md own/README.md
check "two commits, the second a part" [ "$(get log/org/own/main | tail -n 1 | cut -d' ' -f2-)" = "Upload own with drover (part 2)" ]
check "all files" same org/own/main/LICENSE.300 own/LICENSE.300
echo "---
license: mit" >own/README.md
expect 1 "README.md: the hub refuses its YAML header: the header does not end" push own hf:org/own
expect 0 "/org/own/discussions/1" push own hf:org/own --create-pr --card
for i in $(seq 300); do echo "$i $i" >own/LICENSE.$i; done
expect 0 "/org/own/discussions/2" push own hf:org/own --create-pr --card
check "two commits in the request" [ "$(commits org/own/refs%2Fpr%2F2)" = 5 ]

# --- a folder whose weights lie in a GGUF file
expect 0 "tensors" "$drover" ckpt export $model --gguf q8.gguf --type q8_0 --no-verify
expect 0 "blocks" "$drover" ckpt import q8.gguf --out blocks --keep-blocks
expect 0 "commit/" push blocks hf:org/blocks --create
check "the file is there" same org/blocks/main/model.gguf blocks/model.gguf

# --- files that change meanwhile
cp -r $model odd
fault "POST .*batch" "\"truncate $PWD/odd/tokenizer.json\""
expect 1 "\"odd/tokenizer.json\" has changed while it was sent" push odd hf:org/changed --create
cp $model/tokenizer.json odd
fault "POST .*batch" "\"truncate $PWD/odd/model.safetensors\""
expect 1 "a file has become shorter while it was sent to http://localhost" push odd hf:org/changed2 --create
check "nothing was committed" [ "$(commits org/changed/main)$(commits org/changed2/main)" = 11 ]
rm -r odd

# --- and back
expect 0 "model: {from: back}" "$drover" model get hf:org/tiny --out back
check "what was pushed comes back" cmp $model/model.safetensors back/model.safetensors
expect 0 "token" "$drover" generate back --prompt "The fox" --max-tokens 2

# --- answers that no hub gives: one line, nothing committed
sum=$(sha256sum $model/model.safetensors | cut -d' ' -f1) size=$(stat -c %s $model/model.safetensors)
fault "POST .*batch" 413
expect 1 "(413)" push $model hf:org/odd --create
odd() { # TEXT AT BODY [STATUS [HEADERS]]: the push fails with this text when the answer is this body
    fault "$2" "{\"body\": \"${3//\"/\\\"}\", \"status\": ${4:-200}, \"headers\": ${5:-{\}}}"
    expect 1 "$1" push $model hf:org/odd --tries 2
    check "one line says why: $3" [ "$(grep -c '^drover: ' out)" = 1 ]
}
deep=$(printf '[%.0s' $(seq 5000))
for body in "" "no JSON" "$deep" '{"sha": "x"}' '{"sha": 7}' '[]' 'null' '{"sha": "0123456789012345678901234567890123456789", "sha'; do odd "/revision/main" "GET .*revision" "$body"; done
for body in "" '{}' '[]' '{"files": 7}' '{"files": [{"path": "config.json", "uploadMode": "odd"}]}' '{"files": [7, {"path": 7}, null]}'; do odd "/preupload/main" "preupload" "$body"; done
object='"oid": "'$sum'", "size": '$size
batch() { odd "$1" "POST .*batch" "{\"objects\": [{$object, $2}]}"; }
upload() { batch "$1" "\"actions\": {\"upload\": $2}"; }
odd 'not among "objects"' "POST .*batch" '{"objects": []}'
odd 'not among "objects"' "POST .*batch" '{"objects": {"oid": 7}}'
odd "batch" "POST .*batch" '{"objects":'
odd "batch" "POST .*batch" ""
batch "refused: no room" '"error": {"code": 507, "message": "no room"}'
batch "refused: ?" '"error": 7'
upload "an action without href" '{}'
upload "an action without href" '{"href": 7}'
for url in file:///etc/passwd ftp://localhost/x http://example.org/x http://localhost@example.org/x gopher://localhost http://127.0.0.1.example.org/ https:// "https://a b/" /x ''; do
    upload "expected https://" "{\"href\": \"$url\"}"
    upload "expected https://" "{\"href\": \"http://localhost:$storage/s3/0/0\", \"header\": {\"chunk_size\": $size, \"1\": \"$url\"}}"
done
chunks() { upload "$1" "{\"href\": \"http://localhost:$storage/\", \"header\": {\"chunk_size\": $2}}"; }
for chunk in 0 -1 1 '"x"' '""' '[]' 1e3 null '"-5"' 23; do chunks "expected 1 to 10000 parts" "$chunk"; done
part='"http://localhost:'$storage'/s3/0/1"'
chunks "0 addresses of parts, expected $parts" '"65536"'
chunks "1 addresses of parts, expected $parts" "65536, \"1\": $part"
for number in 0 9 99999999999999999999999 01; do chunks "each once, with an address" "65536, \"1\": $part, \"$number\": $part"; done
chunks "each once, with an address" "65536, \"1\": 7"
odd "without a usable ETag" "PUT /s3/[0-9]*/1" ""
odd "verify: not found" "POST .*verify" "" 404
for body in "" '{}' '{"commitOid": "x"}' '[]'; do odd "/commit/main" "POST .*commit" "$body"; done
odd "forbidden: the token needs the permission to write there (403): you are ***" "preupload" '{"error": "you are hf_secret"}' 403
odd 'YAML header: ***' "validate-yaml" '{"errors": [{"message": "hf_secret"}]}' 400
batch "refused: ***" '"error": {"message": "\u0068f_secret"}'
upload 'the address "file:///***"' '{"href": "file:///hf_secret"}'
odd "it leads elsewhere: has the repository another name now? (307) http://localhost/***" "preupload" "" 307 '{"Location": "http://localhost/hf_secret"}'
check "nothing was committed" [ "$(commits org/odd/main)" = 1 ]
fault "commit" "{\"body\": \"{\\\"commitOid\\\": \\\"$(printf 'a%.0s' {1..40})\\\", \\\"commitUrl\\\": \\\"http://x/hf_secret\\\"}\"}"
expect 0 "http://x/***" push $model hf:org/odd
check "the server saw no fault of its own" [ ! -s server.err ]
finish
