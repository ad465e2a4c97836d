# Sourced by layouts.sh, layout_bytes.sh and link.sh after drover=PROGRAM: a folder of their own with run.yaml, the layouts that
# are measured, and how one is run. Layouts that are named on the command line go into `names`.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
launcher=(mpirun --oversubscribe) # of several ranks

# name | ranks | keys | bubble (share of the time that ranks wait by the schedule)
layouts="
one|1||0
data 2, zero 0|2|parallel.zero=0|0
data 2, zero 1|2||0
data 2, zero 2|2|parallel.zero=2|0
data 2, zero 3|2|parallel.zero=3|0
tensor 2|2|parallel.tensor=2 parallel.sequence=false|0
tensor 2, sequence|2|parallel.tensor=2|0
gpipe 2|2|parallel.pipeline=2 parallel.schedule=gpipe|1/9
1f1b 2|2|parallel.pipeline=2|1/9
interleaved 2|2|parallel.pipeline=2 parallel.schedule=interleaved parallel.virtual_stages=2|1/17
zb-h1 2|2|parallel.pipeline=2 parallel.schedule=zb-h1|1/9
context 2|2|parallel.context=2|0
data 8|8||0
tensor 2, pipeline 2, data 2|8|parallel.tensor=2 parallel.pipeline=2|1/5
tensor 2, context 2, zero 2|8|parallel.tensor=2 parallel.context=2 parallel.zero=2|0
"
# Data set and run.yaml: MODEL (a YAML mapping), rows of SEQUENCE tokens, BATCH of them in STEPS steps.
set_up() {
    awk 'BEGIN { for (i = 0; i < 4000; i++) print "Document " i " tells of " i * i % 9973 " lazy hens and a fox.\n" }' >text.txt
    {
        "$drover" tokenizer train --input text.txt --vocab-size 400 --out tok &&
            "$drover" data build --input text.txt --separator $'\n\n' --tokenizer tok --out data
    } >setup.log 2>&1 || { cat setup.log; exit 1; }
    cat >run.yaml <<YAML
model: $1
data: {train: data, sequence_length: $2}
training: {steps: $4, global_batch_size: $3, micro_batch_size: 1, eval_every: 0, log_every: 1, precision: bf16}
schedule: {warmup_steps: 5}
checkpoint: {every: 0}
YAML
}
wanted() { # NAME: no names given, or this one
    [ ${#names[@]} = 0 ] || printf '%s\n' "${names[@]}" | grep -qxF "$1"
}
# run_layout RANKS KEYS [WRAPPER...]: into the folder run, output into log.txt; `sets` has the keys as options.
run_layout() {
    local n=$1 launch=() key
    sets=()
    for key in $2; do sets+=(--set "$key"); done
    shift 2
    rm -rf run
    [ "$n" = 1 ] || launch=("${launcher[@]}" -n "$n")
    "${launch[@]}" "$@" "$drover" train run.yaml --set run_dir=run "${sets[@]}" </dev/null >log.txt 2>&1
}
