#!/bin/bash
# The help of every verb and subverb, read as a user would, and the options held against it: each is
# either taken or refused by name. usage: cli_help.sh DROVER
. "$(dirname "$0")"/story.bash
same() { [ "$1" = "$2" ]; }
has() { [[ $1 == *"$2"* ]]; } # TEXT PART
says() { # CODE TEXT ARGUMENTS...: exit status and a text in the output (without a process to look for it: there are hundreds)
    local code=$1 text=$2 all
    shift 2
    "$drover" "$@" >out 2>&1
    check "drover $* exits $code" same $? "$code"
    IFS= read -r -d '' all <out
    check "drover $* says: $text" has "$all" "$text"
}
names() { sed -n "/^$1:/,/^\$/s/^  \([a-z-]*\) .*/\1/p"; } # of the verbs or subverbs in a help
options() { sed -n '/^options:/,$s/^  \(--[a-z-]*\).*/\1/p'; }
# Prints short lines that another line follows and that end no sentence: paragraphs that a short line of the source has broken.
broken() { awk '/^[^ ]/ && short { print short } { short = "" } /^[^ ]/ && !/  / && length < 50 && !/[.:;]$/ { short = $0 }' "$1"; }

# Prints the columns at which the texts of the options begin: one, if they are aligned.
columns() { awk '/^options:/ { lists = 1 } lists && match($0, /^  --[a-z-]*( [^ ]+)?  +/) { print RLENGTH }' "$1" | sort -u; }

# --- each verb explains itself, three ways alike
verbs=$("$drover" help | names verbs)
check "verbs are listed" same "$(echo "$verbs" | grep -cE '^(train|data|doctor)$')" 3
for verb in $verbs; do
    subverbs=$("$drover" help "$verb" | names subverbs)
    check "help $verb" same "$("$drover" help "$verb")" "$("$drover" "$verb" --help)"
    "$drover" help "$verb" >help.txt
    check "help $verb names itself" grep -q "^drover $verb: ." help.txt
    check "help $verb has a usage" grep -q "^usage: drover $verb" help.txt
    check "help $verb fits 80 columns" same "$(awk 'length > 80' help.txt)" ""
    check "help $verb breaks no paragraph" same "$(broken help.txt)" ""
    check "help $verb aligns its options" same "$(columns help.txt | sed 1d)" ""
    all=$(for s in $subverbs; do "$drover" help "$verb" "$s" | options; done | sort -u)
    for sub in $subverbs; do
        "$drover" help "$verb" "$sub" >help.txt
        check "help $verb $sub" same "$(cat help.txt)" "$("$drover" "$verb" "$sub" --help)"
        check "help $verb $sub has a usage" grep -q "^usage: drover $verb $sub" help.txt
        check "help $verb $sub fits 80 columns" same "$(awk 'length > 80' help.txt)" ""
        check "help $verb $sub breaks no paragraph" same "$(broken help.txt)" ""
        check "help $verb $sub aligns its options" same "$(columns help.txt | sed 1d)" ""
        own=$(options <help.txt)
        for option in $all; do
            has $'\n'"$own"$'\n' $'\n'"$option"$'\n' && continue
            says 2 "$verb $sub: $option is an option of $verb" "$verb" "$sub" "$option" x
        done
    done
done
says 0 "usage: drover VERB" help
check "help fits 80 columns" same "$("$drover" help | awk 'length > 80')" ""
says 0 "usage: drover VERB" --help
says 2 "usage: drover VERB"
check "help is on standard output" same "$("$drover" help 2>/dev/null | head -c 6)" drover
check "wrong usage says nothing there" same "$("$drover" 2>/dev/null)" ""
check "it says where output goes" grep -q "Results go to standard output" <("$drover" help)

# --- what is not there
says 2 'unknown verb "trian", did you mean "train"' trian
says 2 'unknown verb "hlep"' hlep
says 2 'data: unknown subverb "biuld", did you mean "build"' data biuld
says 2 'data: "x" is unknown, expected get, build' data x
says 2 'model: "import" is unknown, expected get or push; drover ckpt import is there' model import x
says 2 'subverb "biuld", did you mean "build"' help data biuld
says 2 'help: train has no subverb "x"' help train x
says 2 "data: the subverb is missing" data
says 2 'unknown option "--promt", did you mean "--prompt"' generate x --promt y
says 2 "train: unknown option \"-x\"" train -x
says 2 "config: --set needs a value: KEY=VALUE" config --set
says 2 "data build: --strict takes no value" data build --strict=yes
says 2 "generate: --seed is given twice" generate x --seed 1 --seed 2
says 2 "usage: drover train CONFIG" train
says 2 '"two" is one argument too many' train one two
says 2 'platform "one", expected cuda, rocm, tpu or neuron' doctor one
says 2 '"two" is one argument too many' doctor cuda two
says 1 'could not open "--x"' train -- --x
says 2 'generate: --top-p is "nan"' generate x --top-p nan
says 2 'generate: --min-p is "1.5", expected a number from 0 to 1' generate x --min-p 1.5

# --- the version
for way in --version version -V; do
    "$drover" $way >out
    check "$way" grep -qE '^drover [0-9]+\.[0-9]+\.[0-9]+ \(commit [^ ]+\)$' out
done
finish
