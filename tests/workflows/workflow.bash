# Sourced by tests/workflows/*.sh, each of which goes through a page of docs/workflows in small: files of another system with
# toy numbers in them, the commands of the page, a stop, a resume with the bits of a run that nothing stopped, and a model that
# `drover generate` reads. Needs mpirun.
tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")"/..)
. "$tests"/ranks.bash
unset HWLOC_SYNTHETIC # launch node deals the cores out by itself
export HWLOC_COMPONENTS=-pci,-linuxio # as ranks.bash: no devices
export OMPI_MCA_btl_tcp_if_include=lo TMPDIR=$dir
LIMIT=300 # seconds for a job, which takes two; what hangs fails

make_tokenizer() { # in $1
    make_text >text.txt
    expect 0 "400 tokens" "$drover" tokenizer train --input text.txt --vocab-size 400 --out "$1"
}
make_config_json() { # $1: of a Llama that trains in no time
    cat >"$1" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 400,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "initializer_range": 0.02,
 "tie_word_embeddings": false, "hidden_act": "silu", "torch_dtype": "bfloat16"}
JSON
}
# make_model DIR: a published model of that shape; needs the folder tokenizer and a data set $2
make_model() {
    cat >base.yaml <<YAML
model: {preset: tiny, vocab_size: 400, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,
  num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: tokenizer
data: {train: $2, sequence_length: 16}
training: {steps: 1}
run_dir: base
YAML
    expect 0 "step 1" "$drover" train base.yaml
    expect 0 "proved" "$drover" ckpt export base --out "$1"
}
# translate ARGUMENT...: drover config ARGUMENT... into run.yaml, its report in `out`; a refusal fails
translate() {
    if "$drover" config "$@" >run.yaml 2>out; then ok; else bad "drover config $*" out; fi
}
# has KEY VALUE: run.yaml has it, in whatever section
has() {
    if grep -qE "^ *$1: $2( |\$)" run.yaml; then ok; else bad "run.yaml has no \"$1: $2\"" run.yaml; fi
}
# state FIELD RUN: of status.json
state() { sed -nE "s/^ *\"$1\": \"?([^\",]*)\"?,?$/\1/p" "$2/status.json"; }
has_begun() { grep -qE '"step":([7-9]|[1-9][0-9]+),' "$1/metrics.jsonl" || is_gone "$2"; }
# begun RUN PID: some steps are done and one checkpoint is there; else, or if PID has ended, the test ends
begun() {
    wait_for has_begun "$1" "$2"
    [ -e "$1/metrics.jsonl" ] && return
    bad "$1 did not begin" job-0.out
    finish
    exit 1
}
# ended WHAT CODE PID...: all have ended with that status
ended() {
    local what=$1 code=$2 got pid
    shift 2
    for pid in "$@"; do
        wait_end "$pid"
        got=$?
        if [ $got = "$code" ]; then ok; else bad "$what: exit $got, expected $code" job-0.out; fi
    done
}
# bits RUN STEP: of all that a resume depends on, also of an adapter
bits() { (cd "$1/checkpoints/step-$2" && sha256sum -- *.safetensors trainer.json); }
# like_unbroken RUN START: RUN, which something stopped, goes four steps on from its newest checkpoint, a new run as far at once:
# the same bytes. START SETTING... starts the run and returns its status.
like_unbroken() {
    local run=$1 start=$2 from to code
    from=$((10#$(newest_step "$run")))
    to=$((from + 4))
    "$start" training.stop_at_step=$to
    code=$?
    check "the resumed run exits $code instead of 3" [ $code = 3 ]
    "$start" training.stop_at_step=$to run_dir=unbroken
    code=$?
    check "the unbroken run exits $code instead of 3" [ $code = 3 ]
    to=$(printf %06d $to)
    check "step $to: the bits of a run that nothing stopped" test "$(bits "$run" "$to")" = "$(bits unbroken "$to")"
    grep -q "\"event\":\"resume\",\"step\":$from," "$run/events.jsonl"
    check "events.jsonl has the resume from $from" [ $? = 0 ]
}
# writes MODEL: generate reads it
writes() { expect 0 '"finish_reason"' "$drover" generate "$1" --prompt "Document 7" --max-tokens 5 --json; }
