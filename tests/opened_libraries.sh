#!/bin/bash
# Libraries that only some runs need are opened by these: where one is broken, all else goes on, and what needs it says
# which it is and how to get it. usage: opened_libraries.sh DROVER
golden=$(realpath "$(dirname "$0")/golden")
. "$(dirname "$0")"/story.bash
make_text | head -n 60 >text.txt
expect 0 "300 tokens" "$drover" tokenizer train --input text.txt --vocab-size 300 --out tok

# broken NAME...: a folder with an empty file of each, where the loader looks first
names=()
for name in curl crypto snappy ncursesw microhttpd; do
    file=$(grep -aom 1 "lib$name\.so[.0-9]*" "$drover" | head -n 1)
    check "the program knows a file of lib$name" [ -n "$file" ]
    mkdir -p "without/$name" && : >"without/$name/$file" && cp "without/$name/$file" without/
    names+=("$file")
done
lacking() { # NAME COMMAND...
    local folder=without/$1
    shift
    LD_LIBRARY_PATH=$folder "$@"
}

# --- without any of them
for words in "--version" "config --set model.preset=tiny" "data build --input text.txt --tokenizer tok --out set" \
    "data verify set" "doctor --json"; do
    expect 0 "" lacking . "$drover" $words
done
cat >run.yaml <<YAML
model: {preset: tiny, vocab_size: 300, num_hidden_layers: 1}
data: {train: set, sequence_length: 8}
training: {steps: 1, global_batch_size: 1, micro_batch_size: 1, precision: bf16}
YAML
expect 0 "step-000001" lacking . "$drover" train run.yaml
check "the loader binds one at the start" [ -z "$(readelf -d "$drover" | grep -E "$(IFS='|'; echo "${names[*]}")")" ]

# --- what needs one
expect 1 "downloads need libcurl, which cannot be loaded: " lacking curl "$drover" data get http://127.0.0.1:1/x --out x
says "libcurl" "apt-get install libcurl4"
check "nothing was made" [ ! -e x ]
packed=("$drover" data build --tokenizer tok --out packed --input "$golden"/parquet/snappy*.parquet)
expect 1 "too short" lacking snappy "${packed[@]}"
says "libsnappy"
expect 0 "documents" "${packed[@]}"
# A page or posts of progress end no run.
expect 0 "step-000001" lacking microhttpd "$drover" train run.yaml --set run_dir=page --set training.http=0
says "page: the page of a run needs libmicrohttpd, which cannot be loaded: " "apt-get install libmicrohttpd12"
check "and no address is told" [ ! -e page/http.json ]
expect 0 "step-000001" lacking curl env KUBEFLOW_TRAINER_SERVER_URL=https://127.0.0.1:1/x KUBEFLOW_TRAINER_SERVER_CA_CERT=ca \
    KUBEFLOW_TRAINER_SERVER_TOKEN=token "$drover" train run.yaml --set run_dir=progress
says "progress: posts of progress need libcurl, which cannot be loaded: "
finish
