#!/usr/bin/env python3
"""Writes the bash completion from the program's own help. usage: make_completion.py [EMULATOR] DROVER FILE"""
import re
import sys
from program_help import ask, read_verbs

program = sys.argv[1:-1]
_, verbs = read_verbs(program)
every = [v for verb in verbs for v in [verb, *verb.subverbs]]
words = [f"    ['drover {v.name}']='{' '.join([s.name.split()[-1] for s in v.subverbs] + [o[0] for o in v.options] + ['--help'])}'"
         for v in every]
values = sorted({o[0] for v in every for o in v.options if o[1]})


def choices_of_keys(program):
    """{key: its names, separated by spaces} for the keys of the config that have names for values."""
    reference = ask(program, "config", "--reference")
    found = {}
    for key, value in re.findall(r"^\| `([a-z_.0-9]+)` \| ([^|]*) \|", reference.partition("## ")[0], re.M):
        names = [n for n in re.split(r", | or ", value) if re.fullmatch(r"[a-z0-9-]+", n) and n not in ("text", "null")]
        if names:
            found[key] = " ".join(names)
    shapes = re.search(r"^Built-in shapes.*?: (.*)\.$", reference, re.M).group(1)
    found["model.preset"] = " ".join(re.findall(r"`([^`]+)`", shapes))
    return found


choices = "\n".join(f"    ['{key}']='{names}'" for key, names in choices_of_keys(program).items())
script = f"""# bash completion of drover, made from its help by tools/make_completion.py.
declare -gA _drover_words=(
    ['drover']='{" ".join(v.name for v in verbs)} help version --help --version'
    ['drover help']='{" ".join(v.name for v in verbs)}'
{chr(10).join(words)}
)

# The names that a key of a config has for its values.
declare -gA _drover_choices=(
{choices}
)

# The keys of a config, as "section.key=".
_drover_keys() {{
    drover config --set model.preset=tiny 2>/dev/null | sed -nE \\
        -e '/^[a-z_]+:( *#.*)?$/{{s/:.*//;h;d}}' \\
        -e '/^  [a-z_0-9]+:/{{s/^  ([a-z_0-9]+):.*/\\1/;H;x;s/\\n/./;p;s/\\..*//;x;d}}' \\
        -e '/^[a-z_]+: /s/^([a-z_]+):.*/\\1/p' | sed 's/$/=/'
}}

_drover() {{
    local current previous name=drover word i
    current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    for ((i = 1; i < COMP_CWORD; i++)); do # the longest known "VERB SUBVERB"
        word=${{COMP_WORDS[i]}}
        [[ -n ${{_drover_words[$name $word]+known}} ]] || break
        name="$name $word"
    done
    if [[ ${{COMP_WORDS[1]}} == help && $COMP_CWORD -gt 2 ]]; then
        name="drover ${{COMP_WORDS[2]}}" # help VERB SUBVERB
        mapfile -t COMPREPLY < <(compgen -W "${{_drover_words[$name]//--+([a-z-])/}}" -- "$current")
        return
    fi
    # "KEY=VALUE" is three words where = parts words (COMP_WORDBREAKS), and one elsewhere.
    local key= value=
    if [[ $current == "=" ]]; then
        key=$previous
    elif [[ $previous == "=" ]]; then
        key=${{COMP_WORDS[COMP_CWORD - 2]}} value=$current
    elif [[ $previous == --set && $current == *=* ]]; then
        key=${{current%%=*}} value=${{current#*=}}
        mapfile -t COMPREPLY < <(compgen -P "$key=" -W "${{_drover_choices[$key]}}" -- "$value")
        return
    fi
    if [[ -n $key && -n ${{_drover_choices[$key]+known}} ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${{_drover_choices[$key]}}" -- "$value")
        return
    fi
    [[ -z $key ]] || return # a file, by -o default
    if [[ $previous == --set ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_drover_keys)" -- "$current")
        [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null # outside of a completion, as in tests, it has no meaning
        return
    fi
    case $previous in {"|".join(values)}) return ;; esac # files, by -o default
    local unasked='-*' # options are offered once a dash is there
    [[ $current != -* ]] || unasked=
    mapfile -t COMPREPLY < <(compgen -W "${{_drover_words[$name]}}" -X "$unasked" -- "$current")
}}
shopt -s extglob
complete -o default -F _drover drover
"""
open(sys.argv[-1], "w").write(script)
