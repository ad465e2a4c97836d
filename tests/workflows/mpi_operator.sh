#!/bin/bash
# docs/workflows/mpi-operator.md in small: the scripts of neuronx-nemo-megatron, a set that preprocess_data_for_megatron.py has
# made, mpirun, a rank that is killed, the job again, a published model. usage: mpi_operator.sh DROVER
. "$(dirname "$0")"/workflow.bash
make_tokenizer llama7b_tokenizer
cat >llama_7b.sh <<'SH'
#!/usr/bin/env bash
export SEQ_LENGTH=16
export HS=64
export TP=2
export PP=1
export N_LAYERS=2
export N_AH=4
export FFN_HS=128
export GBS=8
export TRAIN_ITERS=10000
export INIT_METHOD_STD=0.021
export LAYERNORM_EPSILON=1e-5
export WARMUP_STEPS=2000
./test_llama.sh
SH
cat >test_llama.sh <<'SH'
#!/usr/bin/env bash
source ./train_setup.sh
: ${TRAIN_ITERS:=20000}
echo "SEQ_LEN=$SEQ_LENGTH, HS=$HS, FFN_HS=$FFN_HS TP=$TP PP=$PP N_LAYERS=$N_LAYERS GBS=$GBS"
$MAYBE_COMPILE torchrun $DISTRIBUTED_ARGS megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_config \
    trainer.devices=$PROCESSES_PER_NODE trainer.num_nodes=$NTASKS trainer.max_steps=$TRAIN_ITERS trainer.log_every_n_steps=1 \
    model.tokenizer.type=llama7b_tokenizer model.micro_batch_size=1 model.global_batch_size=$GBS \
    model.tensor_model_parallel_size=$TP model.pipeline_model_parallel_size=$PP \
    model.max_position_embeddings=$SEQ_LENGTH model.encoder_seq_length=$SEQ_LENGTH model.hidden_size=$HS \
    model.ffn_hidden_size=$FFN_HS model.num_layers=$N_LAYERS model.num_attention_heads=$N_AH \
    model.init_method_std=$INIT_METHOD_STD model.layernorm_epsilon=$LAYERNORM_EPSILON \
    model.data.data_prefix=[1.0,redpajama_text_document] model.data.splits_string=980,10,10 \
    model.sequence_parallel=True model.optim.name=adamw model.optim.lr=3.0e-4 model.optim.betas=[0.9,0.95] \
    model.optim.weight_decay=0.1 model.optim.sched.name=CosineAnnealing model.optim.sched.warmup_steps=$WARMUP_STEPS \
    model.optim.sched.constant_steps=0 model.optim.sched.min_lr=3.0e-5 exp_manager.resume_if_exists=False \
    exp_manager.checkpoint_callback_params.train_time_interval=36000 model.save_xser=True
SH
# The set as Megatron's builder writes it: 200 documents, little-endian, without what drover keeps beside its own.
python3 - <<'PY'
import random, struct
random.seed(1)
documents = [[random.randrange(5, 300) for _ in range(random.randrange(2, 40))] + [0] for _ in range(200)]
sizes, tokens = [len(d) for d in documents], [t for d in documents for t in d]
offsets = [2 * sum(sizes[:i]) for i in range(len(sizes))]
open("redpajama_text_document.bin", "wb").write(struct.pack(f"<{len(tokens)}H", *tokens))
with open("redpajama_text_document.idx", "wb") as f:
    f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(sizes) + 1))
    f.write(struct.pack(f"<{len(sizes)}i{len(sizes)}q{len(sizes) + 1}q", *sizes, *offsets, *range(len(sizes) + 1)))
PY
expect 0 "documents  200" "$drover" data info redpajama_text_document

translate --from nemo-megatron llama_7b.sh --ranks 4 --set model.vocab_size=400 --set run_dir=runs/llama2-7b --set checkpoint.every=5
has steps 10000
has tensor 2
has global_batch_size 8
has min_lr 3.0e-5
has num_hidden_layers 2
expect 0 "fits          yes" "$drover" plan run.yaml --ranks 4

start() { # SETTING...: in the background
    local sets=()
    for set in "$@"; do sets+=(--set "$set"); done
    timeout -s KILL $LIMIT mpirun --oversubscribe -n 4 "$drover" train run.yaml --expect-ranks 4 "${sets[@]}" >job-0.out 2>&1 &
    pid=$!
}
job() { start "$@" && wait $pid; }
patient_mpirun
start
begun runs/llama2-7b $pid
kill -KILL "$(pgrep -n -P "$(pgrep -P $pid)" drover)" # a rank
wait_end $pid
check "a rank is killed: mpirun exits $?" [ $? != 0 ]
unset OMPI_MCA_odls_base_sigkill_timeout # of patient_mpirun: it waits as long after each end that is not 0
check "status.json says $(state end runs/llama2-7b)" [ "$(state end runs/llama2-7b)" = failed ]
check "status.json has status $(state status runs/llama2-7b)" [ "$(state status runs/llama2-7b)" = 75 ]
like_unbroken runs/llama2-7b job

expect 0 "proved" "$drover" ckpt export runs/llama2-7b --out published
writes published
finish
