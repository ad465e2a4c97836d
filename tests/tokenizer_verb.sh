#!/bin/bash
# drover tokenizer as a user sees it: special tokens and their roles, ids and text through files,
# full disks, wrong ids. The last line is "N passed, N failed".
golden=$(realpath "$(dirname "$0")"/golden)
. "$(dirname "$0")"/story.bash
# has TEXT FILE
has() { if grep -qF -- "$1" "$2"; then ok; else bad "no $1 in $2" "$2"; fi; }
lacks() { if grep -qF -- "$1" "$2"; then bad "$1 in $2" "$2"; else ok; fi; }
same() { if [ "$1" = "$2" ]; then ok; else bad "$3: \"$1\", expected \"$2\""; fi; }

awk 'BEGIN { for (i = 0; i < 3000; i++) printf "Document %d tells of the fox, the dog and %d lazy hens.\n\n", i, i * i % 97 }' >text.txt
train() { "$drover" tokenizer train --input text.txt --vocab-size 400 "$@"; }

# --- roles of special tokens
expect 0 "special token <|endoftext|>: id 0, beginning of text (bos), end of text (eos)" train --out plain
expect 0 "special token <s>: id 0, beginning of text (bos), put before each text" \
    train --out roles --bos "<s>" --eos "</s>" --pad "<pad>" --unk "<unk>"
has '"bos_token": "<s>"' roles/tokenizer_config.json
has '"unk_token": "<unk>"' roles/special_tokens_map.json
has '"TemplateProcessing"' roles/tokenizer.json
same "$(printf 'the fox' | "$drover" tokenizer encode --tokenizer roles | cut -d' ' -f1)" 0 "BOS in front"
expect 0 "special token </s>: id 1, end of text (eos)" train --out named --special "<s>" --special "</s>"
lacks '"TemplateProcessing"' named/tokenizer.json
expect 0 "special token <one>: id 0, no role" train --out none --special "<one>"
has "no token ends a text" out
lacks bos_token none/tokenizer_config.json
expect 2 '"<one>" is given twice' train --out twice --special "<one>" --special "<one>"
expect 2 "--eos is empty" train --out empty --eos ""
expect 2 "--pad is \"?\", which is not UTF-8" train --out bytes --pad $'\xff'
expect 0 "special token a: id 0" train --out letter --special a # a symbol of the alphabet: one id
same "$(printf 'a' | "$drover" tokenizer encode --tokenizer letter)" 0 "a special token of one letter"

# --- a tokenizer for conversations: markers, template and ends of a turn
expect 0 "special token <|im_end|>: id 2, end of a turn" train --out chatml --chat chatml
says "special token <|endoftext|>: id 0, beginning of text (bos), end of text (eos)" "special token <|im_start|>: id 1, mark of a turn"
same "$(tr -d ' \n' <chatml/generation_config.json)" '{"bos_token_id":0,"eos_token_id":[0,2]}' "the ends of chatml"
echo '[{"role": "user", "content": "hens?"}, {"role": "assistant", "content": "12"}, {"role": "user", "content": " foxes? "}]' >turns.json
text() { "$drover" chat "$1" --messages turns.json --print --generation-prompt; }
same "$(text chatml)" "$(printf '<|im_start|>user\nhens?<|im_end|>\n<|im_start|>assistant\n12<|im_end|>\n<|im_start|>user\n foxes? <|im_end|>\n<|im_start|>assistant\n')" chatml
same "$(text chatml | "$drover" tokenizer encode --tokenizer chatml | tr ' ' '\n' | grep -cx '[12]')" 7 "markers of chatml are tokens"
expect 0 "special token <|begin_of_text|>: id 0, beginning of text (bos), put before each text" train --out llama3 --chat llama3 --pad "<|pad|>"
same "$(tr -d ' \n' <llama3/generation_config.json)" '{"bos_token_id":0,"eos_token_id":[1,5],"pad_token_id":2}' "the ends of llama3"
h='<|start_header_id|>%s<|end_header_id|>\n\n'
same "$(text llama3)" "$(printf "<|begin_of_text|>${h}hens?<|eot_id|>${h}12<|eot_id|>${h}foxes?<|eot_id|>$h" user assistant user assistant)" llama3
expect 2 '--chat is "vicuna", expected chatml or llama3' train --out vicuna --chat vicuna
expect 0 "chatml/chat_template.jinja exists already and stays unchanged" train --out chatml

# --- files of folders by their ending
mkdir code && printf 'the fox and the hen and the dog\n' >code/a.py
expect 2 "--ending" "$drover" tokenizer train --input code --out coded
expect 0 "coded/tokenizer.json" "$drover" tokenizer train --input code --ending py --vocab-size 260 --out coded

# --- nothing is replaced silently
expect 0 "letter/tokenizer.json is there already; it is replaced" train --out letter --special b
mkdir model && echo '{}' >model/config.json
expect 2 "holds a model (config.json), expected a folder of its own" train --out model
[ ! -e model/tokenizer.json ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: a model's tokenizer was replaced"; }

# --- ids and text
printf 'the fox and 12 hens' | "$drover" tokenizer encode --tokenizer plain >ids
same "$("$drover" tokenizer decode --tokenizer plain --input ids)" "the fox and 12 hens" "there and back"
printf '{"text": "a \\"fox\\""}\n{"text": ""}\n{"text": "hens\\n"}\n' >three.jsonl
"$drover" tokenizer encode --tokenizer plain --json-key text --input three.jsonl >three.ids
same "$(wc -l <three.ids)" 3 "an array for each record"
same "$("$drover" tokenizer decode --tokenizer plain --json-key text --input three.ids | tr '\n' ' ')" \
    '{"text": "a \"fox\""} {"text": ""} {"text": "hens\n"} ' "a record for each array"
same "$("$drover" tokenizer decode --tokenizer plain --json-key body --input three.ids | head -n 1)" \
    '{"body": "a \"fox\""}' "under the key that was asked for"
printf '1 2\n3 x4\n' >wrong
expect 1 'wrong:2: "x4" is not a token id' "$drover" tokenizer decode --tokenizer plain --input wrong
printf '1 400' >large
expect 1 "large:1: token id 400 is not in the vocabulary, expected 0 to 399" \
    "$drover" tokenizer decode --tokenizer plain --input large

# --- nothing silent
mkdir lines && sed 's/"added_tokens": *\[/&{"id": 9999, "content": "a\\nb", "special": false}, /' plain/tokenizer.json >lines/tokenizer.json
printf 'the fox' | "$drover" tokenizer encode --tokenizer lines >/dev/null 2>out
has 'added token "a?b" has id 9999' out
same "$(wc -l <out)" 1 "a warning is one line, whatever a token's name holds"
expect 2 "--vocab-size" "$drover" tokenizer encode --tokenizer plain --vocab-size 3
expect 2 "tokenizer decode" "$drover" tokenizer decode --tokenizer plain --input ids wrong
expect 1 "could not write to standard output" sh -c "'$drover' tokenizer encode --tokenizer plain --input text.txt >/dev/full"
expect 1 "could not write to standard output" sh -c "'$drover' tokenizer decode --tokenizer plain --input ids >/dev/full"
expect 1 "could not open" "$drover" tokenizer decode --tokenizer plain --input gone

# --- a model of sentencepiece becomes tokenizer.json where that gives the same ids
python3 - "$golden/model_files.jsonl" <<'PYTHON'
import base64, json, sys
for case in map(json.loads, open(sys.argv[1], encoding="utf-8")):
    if case["name"] in ("llama", "llama_unused", "unigram_plain"):
        open(case["name"] + ".model", "wb").write(base64.b64decode(case["bytes"]))
PYTHON
encode() { "$drover" tokenizer encode --tokenizer "$1" --input text.txt; }
expect 0 "give the same ids" "$drover" tokenizer convert --tokenizer llama.model --out converted/of-llama
same "$(encode converted/of-llama | cksum)" "$(encode llama.model | cksum)" "ids of the conversion"
expect 2 'tokenizer.json" is there already' "$drover" tokenizer convert --tokenizer llama.model --out converted/of-llama
expect 1 "cannot express it: unused pieces" "$drover" tokenizer convert --tokenizer llama_unused.model --out none-written
expect 1 "in double precision and sentencepiece in single" "$drover" tokenizer convert --tokenizer unigram_plain.model --out none-written
check "nothing was written" test ! -e none-written

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
