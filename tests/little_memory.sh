#!/bin/bash
# A process that may have little memory (ulimit -v) does its work or ends with exit status 1 and one line: never by an
# assertion. Limits begin where the program can be loaded at all.
. "$(dirname "$0")"/story.bash
sanitized && { echo "skipped: AddressSanitizer's program does not start where memory is bounded"; exit 77; }
make_data
make_chat
expect 0 "step-000001" "$drover" train run.yaml --set run_dir=run --set training.steps=1
echo '[{"role": "user", "content": "Where is fox 1?"}]' >question.json
least=20000
until (ulimit -v $least; "$drover" --version) >/dev/null 2>&1 || [ $least -gt 400000 ]; do least=$((least + 2000)); done
refused=0
# within KIB COMMAND...: with so much memory
within() {
    local kib=$1 code
    shift
    (ulimit -v "$kib"; exec "$drover" "$@") >out 2>err </dev/null
    code=$?
    [ $code != 1 ] || refused=$((refused + 1))
    case $code in
    0) ok ;;
    1) check "$kib KiB: one line of $1 $2: $(tail -n 2 err)" [ "$(grep -c '^drover: ' err)" = 1 ] ;;
    *) bad "$kib KiB: exit $code of $*" err ;;
    esac
}
for more in 0 500 1000 2000 4000 8000 16000 24000 32000 40000; do
    kib=$((least + more))
    within $kib data build --input text.txt --separator $'\n\n' --tokenizer tok --out little --workers 2
    within $kib tokenizer encode --tokenizer tok --input text.txt
    within $kib chat run --messages question.json --template chat.jinja --generation-prompt --print
    within $kib plan run.yaml
    rm -rf exported
    within $kib ckpt export run --out exported
done
check "some were refused, some not: $refused of 50" [ $refused -gt 0 -a $refused -lt 50 ]
finish
