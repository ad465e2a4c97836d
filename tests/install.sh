#!/bin/bash
# The man page and the completion that are made from the program's help. usage: install.sh DROVER
tools=$(realpath "$(dirname "$0")/../tools")
. "$(dirname "$0")"/story.bash
same() { # TEXT GOT WANT
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    printf 'FAILED: %s\n    got:      %s\n    expected: %s\n' "$1" "$2" "$3"
}
ln -s "$drover" drover
PATH=$dir:$PATH

# --- man page: every verb, subverb and option is there
python3 -B "$tools/make_man.py" "$drover" drover.1
names() { sed -n "/^$1:/,/^\$/s/^  \([a-z-]*\) .*/\1/p"; }
for verb in $(drover help | names verbs); do
    same "man: $verb" "$(grep -c "^.SS \"drover $verb\"" drover.1)" 1
    for sub in $(drover help "$verb" | names subverbs); do
        same "man: $verb $sub" "$(grep -c "^.SS \"drover $verb ${sub//-/\\\\-}\"" drover.1)" 1
    done
done
all=$(for v in $(drover help | names verbs); do drover help "$v"; for s in $(drover help "$v" | names subverbs); do drover help "$v" "$s"; done; done | grep -cE '^  --')
same "man: all options" "$(grep -c '^\\fB\\-\\-' drover.1)" "$all"
same "man: prose is filled" "$(grep -B 1 '^Trains as the YAML' drover.1 | head -n 1)" .PP
same "man: a list is not" "$(grep -B 1 '^/system TEXT' drover.1 | head -n 1)" .nf
same "man: no key is broken by a hyphen" "$(grep -cx '\.nh' drover.1)" 1
# Each variable that the program reads is there, but for those that drover sets for processes of its own, and two for tests.
own='DROVER_LAUNCH_(DIR|NODE|SOCKET)|DROVER_JOB_SECRET|DROVER_CKPT_BLOCK_BYTES|DROVER_PROGRESS_LAST_S'
same "man: variables" "$(grep -rhoE '"DROVER_[A-Z_]+"' "$tools/../src" | tr -d '"' | grep -vxE "$own" | sort -u)" \
    "$(sed -n 's/^\\fB\(DROVER_[A-Z_]*\)\\fR$/\1/p' drover.1 | sort)"
same "man: levels of kernels" "$(grep -c '^ref, plain, avx2, avx512 or avx512_bf16: ' drover.1)" 1
if command -v groff >/dev/null; then
    same "man: no warnings of groff" "$(groff -man -Tascii -ww drover.1 2>&1 >/dev/null)" ""
else
    echo "groff is not here: the man page's format is not checked"
fi

# --- completion
python3 -B "$tools/make_completion.py" "$drover" completion
same "completion: bash takes it" "$(bash -n completion 2>&1)" ""
source ./completion
shopt -s extglob
compopt() { :; } # only inside of a real completion
complete_words() { # WORDS...: what the last one is completed to
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _drover
    echo "${COMPREPLY[*]}"
}
same "completion: verbs" "$(complete_words drover tr)" "train"
same "completion: all verbs" "$(complete_words drover "")" "$(drover help | names verbs | tr '\n' ' ')help version"
same "completion: subverbs" "$(complete_words drover data "")" "$(drover help data | names subverbs | tr '\n' ' ' | sed 's/ $//')"
same "completion: options of a subverb" "$(complete_words drover bench data --th)" "--threads"
same "completion: not of another one" "$(complete_words drover bench data --prof)" ""
same "completion: help" "$(complete_words drover help tok)" "tokenizer"
same "completion: help of a subverb" "$(complete_words drover help data b)" "build"
same "completion: keys" "$(complete_words drover train run.yaml --set schedule.warmup_s)" "schedule.warmup_steps="
same "completion: keys without a section" "$(complete_words drover train run.yaml --set run_d)" "run_dir="
same "completion: every key is one" "$(for key in $(complete_words drover config --set ""); do
    drover config --set model.preset=tiny --set "$key" 2>&1 | grep "unknown key"; done)" ""
same "completion: values of a key" "$(complete_words drover train run.yaml --set training.precision=)" "training.precision=bf16 training.precision=fp32 training.precision=fp8"
same "completion: values where = parts words" "$(complete_words drover train run.yaml --set schedule.type = c)" "cosine constant"
same "completion: at the =" "$(complete_words drover train run.yaml --set parallel.sequence =)" "true false"
same "completion: auto beside a number" "$(complete_words drover train run.yaml --set training.steps = a)" "auto"
same "completion: presets" "$(complete_words drover plan --set model.preset=llama-3.1-8)" "model.preset=llama-3.1-8b"
same "completion: no names" "$(complete_words drover train run.yaml --set optimizer.lr=)$(complete_words drover train run.yaml --set optimizer.lr = 1)" ""
same "completion: each value is taken" "$(for key in "${!_drover_choices[@]}"; do
    [ "$key" != model.preset ] || continue
    for value in ${_drover_choices[$key]}; do drover config --set model.preset=tiny --set "$key=$value" 2>&1 | grep "is $value, expected\|is \"$value\", expected"; done; done)" ""
same "completion: --help" "$(complete_words drover data build --he)" "--help"
same "completion: no options unasked" "$(complete_words drover train "")" ""
same "completion: files for values" "$(complete_words drover data build --input "")" ""

# --- the commit of a tarball, of a checkout, of a copy that is neither
tree=$(dirname "$tools")
commit_of() { GIT_CEILING_DIRECTORIES=$dir cmake -P "$1"/cmake/commit.cmake 2>&1 | sed 's/^-- //'; }
mkdir -p tarball copy/cmake
cp "$tree"/cmake/commit.cmake copy/cmake
echo '$Format:%h$' >copy/cmake/commit.txt # git archive has put a commit in its place where this is a tarball
same "commit: of a copy" "$(commit_of copy)" "unknown"
mkdir -p copy/.git && echo "ref: refs/heads/main" >copy/.git/HEAD
echo "0123456789abcdef0123456789abcdef01234567 refs/heads/main" >copy/.git/packed-refs
same "commit: of a checkout that git does not read" "$(commit_of copy)" "01234567"
if git -C "$tree" rev-parse HEAD >head 2>/dev/null; then
    git -C "$tree" archive HEAD cmake | tar -x -C tarball
    found=$(commit_of tarball)
    same "commit: of a tarball" "$(head -c ${#found} head)" "${found:-none}"
    same "commit: of a checkout" "$(commit_of "$tree")" "$(git -C "$tree" describe --always --dirty --exclude='*')"
else
    echo "skipped: git archive (this is no checkout)"
fi
finish
