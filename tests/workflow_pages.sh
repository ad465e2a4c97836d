#!/bin/bash
# The commands of docs/workflows as they stand, up to the point where a device, a network or a cluster is needed: what a page
# configures, plans, compiles and launches is taken, without a warning, and the layouts are those of its text. Only the mount points
# /shared and /fsx are folders of the test. usage: workflow_pages.sh DROVER
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash
pages=$tests/../docs/workflows
top=$PWD
"$tests"/translate/make_nxdt.py . || bad "make_nxdt.py"

# What the reader of a page has, in small: a folder of a tokenizer and a data set, a model's config.json.
make_data
folder() { mkdir -p "$1" && cp "$top"/tok/tokenizer.json "$1"/; } # DIR: where a page keeps its tokenizer
config_json() { # DIR HIDDEN FFN LAYERS HEADS
    cat >"$1"/config.json <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "hidden_size": $2,
 "intermediate_size": $3, "num_hidden_layers": $4, "num_attention_heads": $5, "num_key_value_heads": 8, "vocab_size": 128256,
 "rope_theta": 500000.0, "max_position_embeddings": 8192, "tie_word_embeddings": false, "initializer_range": 0.02}
JSON
}
has_mpi_operator() {
    folder shared/llama7b_tokenizer
    cat >llama_7b.sh <<'SH'
export SEQ_LENGTH=4096 HS=4096 TP=8 PP=1 N_LAYERS=32 N_AH=32 FFN_HS=11008
: ${GBS:=256}
: ${TRAIN_ITERS:=10000}
./test_llama.sh
SH
    cat >test_llama.sh <<'SH'
torchrun --nproc_per_node 32 --nnodes $NTASKS megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_config \
    trainer.devices=32 trainer.num_nodes=$NTASKS trainer.max_epochs=null trainer.max_steps=$TRAIN_ITERS trainer.val_check_interval=$TRAIN_ITERS \
    model.micro_batch_size=1 model.global_batch_size=$GBS model.tensor_model_parallel_size=$TP model.max_position_embeddings=$SEQ_LENGTH \
    model.encoder_seq_length=$SEQ_LENGTH model.hidden_size=$HS model.ffn_hidden_size=$FFN_HS model.num_layers=$N_LAYERS \
    model.num_attention_heads=$N_AH model.data.data_prefix=[1.0,/shared/redpajama_text_document] model.optim.lr=3.0e-4 \
    model.optim.sched.constant_steps=0 model.use_scaled_init_method=False +exp_manager.checkpoint_callback_params.train_time_interval=36000
SH
}
has_nxd_training() {
    mkdir conf Meta-Llama-3-70B
    cp "$top"/hf_llama3_70B_config.yaml conf/
    config_json Meta-Llama-3-70B 8192 28672 80 64
    cp "$top"/tok/tokenizer.json Meta-Llama-3-70B/
}
has_optimum_lora() {
    mkdir Meta-Llama-3.1-8B
    config_json Meta-Llama-3.1-8B 4096 14336 32 32
    cp "$top"/tok/tokenizer.json Meta-Llama-3.1-8B/
    cp "$top"/data/set.* .
    for file in set.*; do mv "$file" "dolly-sft.${file#set.}"; done
    cat >generate-jobspec.sh <<'SH'
export MODEL_ID=NousResearch/Meta-Llama-3.1-8B
export CHECKPOINT_DIR=/fsx/peft_ft/model_checkpoints
export MAX_SEQ_LENGTH=1024
export LEARNING_RATE=2e-5
export TP_SIZE=8
export PP_SIZE=1
export TRAIN_BATCH_SIZE=1
export MAX_TRAINING_STEPS=1200
SH
}
has_set() { # PREFIX
    mkdir -p shared
    for file in "$top"/data/set.*; do cp "$file" "$1.${file##*/set.}"; done
}
has_ray_lightning() { has_set shared/fineweb && folder shared/llama3.1; }
has_ray_train() { has_set shared/wikicorpus_llama2_7B_4k && folder shared/llama2; }

# Each command of the blocks without a language, on one line, then those in the text that name run.yaml.
commands_of() {
    awk '/^```/ { fence = !fence; inside = fence && $0 == "```"; next }
         inside { if (sub(/ *\\$/, " ")) { line = line $0; next }
                  print line $0; line = ""; next }
         !fence { text = text " " $0 }
         END { while (match(text, /`drover [^`]*run\.yaml[^`]*`/)) {
                   print substr(text, RSTART + 1, RLENGTH - 2); text = substr(text, RSTART + RLENGTH) } }' "$1" | sed -E "s#(/shared|/fsx)#$PWD\\1#g"
}
ranks_of() { sed -n 's/^drover plan run.yaml --ranks \([0-9]*\)$/\1/p'; }

n_run=0
for page in mpi-operator nxd-training optimum-lora ray-lightning ray-train; do
    mkdir "$top/$page" && cd "$top/$page" || exit 1
    "has_${page//-/_}"
    commands_of "$pages/$page.md" >commands
    check "$page: it has commands" [ -s commands ]
    while read -r command <&3; do
        case $command in
        "drover config "* | "drover plan "* | "drover compile "* | "drover launch "*) ;;
        *) continue ;; # a network, a run or its checkpoints, or mpirun: the page's own story runs them
        esac
        case $command in *" launch node "* | *" launch clean "* | *" launch logs "*) continue ;; esac
        (eval "${command/#drover/\"\$drover\"}") >out 2>&1
        code=$?
        n_run=$((n_run + 1))
        if [ "${command#drover compile}" != "$command" ] && grep -q 'plugin "neuron" is not there' out; then code=0; fi
        if [ $code = 0 ] && ! grep -q "^warning: launch" out; then ok; else bad "$page: exit $code: $command" out; fi
    done 3<commands
    for rendered in jobs/train/*; do
        grep -q "expect-ranks" "$rendered" || continue
        check "$page: $rendered has the ranks that the page plans" \
            grep -qE -- "expect-ranks[^0-9]*$(ranks_of <commands)[^0-9]" <(tr '\n' ' ' <"$rendered")
    done
    cd "$top" || exit 1
done
check "the pages have $n_run such commands" [ $n_run -ge 16 ]
finish
