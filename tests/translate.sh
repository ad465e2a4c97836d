#!/bin/bash
# drover config --from: other trainers' files become configs with their ranks, batches, steps and rates; what would
# change the result is refused until it is accepted; scripts are read and never run.
tests=$(realpath "$(dirname "$0")")
. "$tests"/story.bash

# --- NxD Training: each config that its users have, planned at its ranks
"$tests"/translate/make_nxdt.py . || bad "make_nxdt.py"
TIMEFORMAT="%U %S"
value() { sed -n "s/^ *$1: \([^ ]*\).*/\1/p" "$2" | head -1; }
for yaml in *.yaml; do
    name=${yaml%.yaml}
    read -r ranks data batch steps schedule <"$name".expected
    more=
    case $name in
    *ORPO*)
        expect 2 "is not supported" "$drover" config --from nxdt "$yaml" --accept all
        continue ;;
    megatron*) more="--set model.vocab_size=32000" ;;
    esac
    if "$drover" config --from nxdt "$yaml" --accept all $more >"$name".out 2>report; then ok; else bad "$name" report; fi
    got="$(value data "$name".out | tail -1) $(value global_batch_size "$name".out) $(value steps "$name".out) $(value type "$name".out)"
    got="$(sed -n '/^parallel:/,/^[a-z]/s/^  data: \([0-9]*\) .*/\1/p' "$name".out) ${got#* }"
    [ "$got" = "$data $batch $steps $schedule" ] && ok || bad "$name: $got, expected $data $batch $steps $schedule"
    accumulation=$(($(value global_batch_size "$name".out) / ($(value micro_batch_size "$name".out) * data)))
    [ $accumulation = $((batch / data)) ] && ok || bad "$name: $accumulation micro-batches of a row, not $((batch / data))"
    { time expect 0 " $ranks ranks" "$drover" plan "$name".out --ranks "$ranks"; } 2>seconds
    check "$name: planned in $(cat seconds) s of the processor" awk '{ exit $1 + $2 >= 5 }' seconds
    "$drover" config "$name".out >printed.txt
    "$drover" config - <printed.txt | cmp -s - printed.txt && ok || bad "$name: config - is not stable"
done
sft=hf_llama3_8B_SFT_lora_config
expect 2 "accept it by --accept data.dev_choose_samples (and 1 more, listed above)" "$drover" config --from nxdt $sft.yaml
says "translated" "no effect here" "would change the result" "make a Hugging Face folder of NxD's shards by drover ckpt import"
expect 0 "# nxdt: trainer.max_steps, line 9" "$drover" config --from nxdt $sft.yaml --accept dev_choose_samples --accept resume_from_checkpoint
says "rank: 16" "target_modules: [q_proj, k_proj, v_proj]" "loss: responses" "max_position_embeddings: 8192" "zero: 0"
grep -q "NxD Training takes 0.01 whatever it says" <("$drover" config --from nxdt hf_llama3_70B_config.yaml 2>&1) && ok || bad "weight decay is not told"

dpo=hf_llama3_8B_DPO_config
expect 2 "whose batch counts pairs" "$drover" config --from nxdt $dpo.yaml
says "data.dev_choose_samples" "max_prompt_length"
expect 0 "objective: dpo" "$drover" config --from nxdt $dpo.yaml --accept all
says "beta: 0.1" "data build --preference --input /data/training.jsonl"

# --- every key of a file lands in one of the lists, and one that nobody knows is an error with its line
for yaml in *.yaml; do
    "$drover" config --from nxdt "$yaml" --accept all --set model.vocab_size=32000 >/dev/null 2>report
    awk -F: '/^ *[a-z_0-9]+: *[^ ]/ { sub(/^ */, "", $1); print $1 }' "$yaml" | sort -u | while read -r key; do
        grep -qE "^  ([a-z_0-9]+\.)*$key \(" report || echo "$key"
    done >missing
    [ -s missing ] && bad "$yaml: keys in no list" missing || ok
done
printf 'trainer:\n  max_stepz: 5\n' >wrong.txt
expect 2 'wrong.txt:2: "trainer.max_stepz" is not a key of nxdt that drover knows; did you mean "trainer.max_steps"?' "$drover" config --from nxdt wrong.txt

# --- bad YAML, circles, depth
printf 'trainer:\n  max_steps: ${trainer.devices}\n  devices: ${trainer.max_steps}\n' >circle.txt
expect 2 "or in a circle" "$drover" config --from nxdt circle.txt
printf 'seed: ${oc.env:HOME}\n' >resolver.txt
expect 2 "whose resolver is not known" "$drover" config --from nxdt resolver.txt
printf 'seed: ${nothing}\n' >nothing.txt
expect 2 'nothing.txt:1: key "seed" is "${nothing}", which names a key that does not exist' "$drover" config --from nxdt nothing.txt
printf 'seed: 1\nseed: 2\n' >twice.txt
expect 2 'twice.txt:2: key "seed" is given twice' "$drover" config --from nxdt twice.txt
printf 'defaults: [../x]\n' >outside.txt
expect 2 "expected the name of a file in the same folder" "$drover" config --from nxdt outside.txt
printf 'defaults: [hf_llama3_8B_config, _self_]\ntrainer: {max_steps: 77}\n' >small.txt
expect 0 "steps: 77 " "$drover" config --from nxdt small.txt
says "warmup_steps: 100 "

# --- epochs need the data
make_data
sed 's/max_steps: [0-9]*$/max_steps: -1/; s/max_epochs: -1/max_epochs: 2/' hf_llama3_8B_config.yaml >epochs.txt
sed -i '0,/global_batch_size: 1024/s//global_batch_size: 8/; s/encoder_seq_length: 8192/encoder_seq_length: 64/' epochs.txt
expect 2 "give --data PREFIX" "$drover" config --from nxdt epochs.txt
tokens=$("$drover" data info data/set --json | tr ',' '\n' | sed -n 's/.*"tokens": *//p' | head -1 | tr -dc 0-9)
expect 0 "steps: $(((tokens - 1) / 64 / 8 * 2)) " "$drover" config --from nxdt epochs.txt --data data/set --accept all

# --- a translated config trains, with the rates of get_linear_schedule_with_warmup
toy="--set model.preset=tiny --set model.vocab_size=400 --set tokenizer=tok --set data.sequence_length=64 --set parallel.tensor=1
--set parallel.data=auto --set training.steps=20 --set schedule.warmup_steps=5 --set training.global_batch_size=4 --set run_dir=toy
--set checkpoint.every=0 --set training.log_every=1 --set model.hidden_size=64 --set model.num_hidden_layers=2
--set model.max_position_embeddings=512 --set model.rope_theta=10000"
if "$drover" config --from nxdt hf_llama3_8B_config.yaml --ranks 1 --data data/set $toy --accept all >toy.txt 2>report; then ok; else bad "toy" report; fi
expect 0 "" "$drover" train toy.txt
rates=$(grep -o '"lr": *[-0-9.e]*' toy/metrics.jsonl | sed 's/.*: *//' | awk '
    { s = NR - 1; want = s < 5 ? 1.5e-4 * s / 5 : 1.5e-4 * (20 - s) / 15; d = $1 - want; if (d < 0) d = -d; if (d > 1e-10) bad++ }
    END { print NR, bad + 0 }')
[ "$rates" = "20 0" ] && ok || bad "rates of the run: \"$rates\", expected 20 steps and 0 others"

# --- scripts of neuronx-nemo-megatron
cat >llama.sh <<'SH'
#!/usr/bin/env bash
export HS=4096 TP=8
export SEQ_LENGTH=4096
: ${GBS:=256}
touch was-run
export TRAIN_ITERS=20000
./train_llama.sh
SH
cat >train_llama.sh <<'SH'
ulimit -n 65535
if [ -z "$SLURM_NNODES" ]; then
    NODES=1
else
    NODES=$(touch was-run; echo 4)
fi
ARGS="--nproc_per_node 32 --nnodes $NODES"
$MAYBE torchrun $ARGS megatron_gpt_pretraining.py --config-path=conf --config-name=llama \
    trainer.devices=32 \
    trainer.num_nodes=$NODES \
    trainer.max_steps=$TRAIN_ITERS\
    model.tensor_model_parallel_size=$TP model.hidden_size=$HS model.ffn_hidden_size=11008 \
    model.num_layers=32 model.num_attention_heads=32 "model.encoder_seq_length=$SEQ_LENGTH" \
    model.max_position_embeddings=$SEQ_LENGTH model.global_batch_size=${GBS} model.micro_batch_size=${UBS:-1} \
    model.data.data_prefix=[.3,/data/a,.7,/data/b] \
    model.optim.name=adamw model.optim.lr=3.0e-4 model.optim.sched.name=CosineAnnealing \
    +exp_manager.checkpoint_callback_params.save_last=False 2>&1 | tee log
SH
sed 's/config-name=llama/config-name=megatron_llama_config/' train_llama.sh >own.sh
expect 0 "taken from neuronx-nemo-megatron 2.21" "$drover" config --from nemo-megatron own.sh --ranks 128 --set model.vocab_size=32000 --var TRAIN_ITERS=60000 \
    --var TP=8 --var HS=4096 --var SEQ_LENGTH=4096 --var GBS=256
says "betas: [0.9, 0.98] " "warmup_steps: 500 " "decay_steps: 9500 " "warmup_like: nemo" "differs from there"
expect 2 "NODES is set in the if in line 2 of ./train_llama.sh, which is not run (SLURM_NNODES is not set in ./train_llama.sh); give --ranks N" "$drover" config --from nemo-megatron llama.sh --set model.vocab_size=32000
expect 0 "data: 16 " "$drover" config --from nemo-megatron llama.sh --ranks 128 --set model.vocab_size=32000
says 'prefix: "/data/b", weight: 0.7' "steps: 20000 " "global_batch_size: 256 " "warmup_like: nemo" "train_llama.sh:10"
expect 0 "data: 8 " "$drover" config --from nemo-megatron llama.sh --var NODES=2 --set model.vocab_size=32000
[ -e was-run ] && bad "a script was run" || ok
printf 'X=$(date)\npython x_pretraining.py model.optim.lr=$X\n' >asks.sh
expect 2 "line 1 of asks.sh asks a command, which is not run" "$drover" config --from nemo-megatron asks.sh
printf 'if true; then\nA=1\n' >open.sh
expect 2 'open.sh:1: "if" is not closed' "$drover" config --from nemo-megatron open.sh
printf 'A="x\n' >quote.sh
expect 2 "quote.sh:1: a quote is not closed" "$drover" config --from nemo-megatron quote.sh

# --- a form of the shell that docs/translate.md does not list is refused by its name
printf 'python train.py --max_steps 7 --learning_rate 1e-3\n' >trains.txt
while IFS='|' read -r name form; do
    { cat trains.txt; printf '%b\n' "$form"; } >form.sh
    expect 2 "form.sh:2: $name is not supported" "$drover" config --from args --set model.preset=llama-3.1-8b --ranks 8 form.sh
    grep -qF -- "$name" "$tests"/../docs/translate.md && ok || bad "docs/translate.md does not name $name"
done <<'FORMS'
until|until false; do A=1; done
select|select a in b; do A=1; done
function|function f { A=1; }
time|time ls
local|local A=1
readonly|readonly A=1
typeset|typeset A=1
eval|eval A=1
a here-document (<<)|cat <<X\nX
a here-document (<<)|cat <<<x
<( or >(|cat < <(ls)
a subshell ( )|(cd x; A=1)
a subshell ( )|((A++))
+=(|A+=(x)
an operator in a list ( )|A=(x; y)
< or > in [[ ]]|[[ a < b ]] && A=1
( in a pattern of case|case x in @(x|y)) A=1;; esac
FORMS
awk 'BEGIN { for (i = 0; i < 400000; i++) printf "! "; print "true" }' >negated.sh
expect 2 "negated.sh: no command that trains" "$drover" config --from args negated.sh

# --- what a script itself decides is worked out: files that it sources, branches, sums, lists
cat >run_7b.sh <<'SH'
: ${GBS:=256}
export TRAIN_ITERS=500 TP=8
./common.sh
SH
cat >common.sh <<'SH'
source ./setup.sh
case "$INSTANCE" in
    trn1*|x) PER_NODE=32 ;;
    *) PER_NODE=64; TP=1 ;;
esac
DP=$(($PER_NODE * 4 / $TP))
declare -a MODEL=(model.hidden_size=4096 model.ffn_hidden_size=11008 # wide
    "model.num_layers=32" model.num_attention_heads=32)
[ $DP -gt 8 ] && UBS=2 || UBS=1
while getopts "a:" opt; do GBS=1; done
torchrun megatron_gpt_pretraining.py --config-path=conf --config-name=llama trainer.devices=$PER_NODE trainer.num_nodes=4 \
    trainer.max_steps=$TRAIN_ITERS model.tensor_model_parallel_size=$TP "${MODEL[@]}" model.encoder_seq_length=4096 \
    model.max_position_embeddings=4096 model.global_batch_size=$(( GBS * 2 )) model.micro_batch_size=$UBS \
    model.megatron_amp_O2=$amp model.wrap_with_zero=$zero model.zero_use_master_weight=$zero model.zero_use_fp32_grad_accum=$sums \
    model.data.data_prefix=[1.0,$HOME/data] model.optim.name=$OPTIM model.optim.lr=3.0e-4 model.optim.sched.name=CosineAnnealing \
    +exp_manager.checkpoint_callback_params.train_time_interval=36000 trainer.max_time=00:12:30:00
SH
cat >setup.sh <<'SH'
INSTANCE=trn1.32xlarge
mode="bf16SR"
if [[ $mode == "bf16SR" ]]; then
    export XLA_USE_BF16=1 OPTIM=adamw amp=false zero=false
elif [[ $mode == "masters" ]]; then
    export XLA_DOWNCAST_BF16=1 OPTIM=adamw amp=false zero=true sums=true
else
    echo no such mode
fi
if [ "$COMPILE" = "1" ]; then
    TRAIN_ITERS=4
fi
SH
nemo="$drover config --from nemo-megatron run_7b.sh --set model.vocab_size=32000"
expect 0 "steps: 500 " env HOME=/home/me $nemo
says "global_batch_size: 512 " "data: 16 " "micro_batch_size: 2 " "state_dtype: bf16" "zero: 0 " 'prefix: "/home/me/data"' "hidden_size: 4096 " \
    "every_minutes: 600 " "max_minutes: 750 " "(./setup.sh:4)"
expect 0 "master_dtype: fp32" $nemo --var mode=masters
says "zero: 1 "
expect 0 "steps: 4 " $nemo --var COMPILE=1
expect 0 "data: 256 " $nemo --var INSTANCE=trn2
expect 2 "UBS is set in the list in line 9 of ./common.sh, which is not run" $nemo --var TP='$x'

# --- keys of other keys' kind, and the defaults of a program
printf 'exp_manager:\n  ema: {enable: False, decay: 0.99}\nmodel: {flash_attention: False}\n' >off.txt
expect 2 '"training.steps" is not given, and has no default there; give --set training.steps=N' "$drover" config --from nxdt off.txt --set model.preset=tiny
says "optimizer.lr (--from nxdt)" "data.sequence_length (--from nxdt)"
least="--set model.preset=tiny --set training.steps=9 --set optimizer.lr=1e-4 --set training.global_batch_size=8 --set data.sequence_length=64"
expect 0 "seed: 1234 " "$drover" config --from nxdt off.txt $least
says "sequence: false " "clip_grad_norm: 0 " "betas: [0.9, 0.999] " "exp_manager.ema.decay (off.txt:2): exp_manager.ema.enable says"
expect 0 "stop_at_step: 10 " "$drover" config --from args --set model.preset=llama-2-7b --ranks 8 -- python3 ray_train_llama2.py --steps_this_run 10
expect 0 "micro_batch_size: 1 " "$drover" config --from args --set model.preset=llama-3-70b --ranks 512 -- torchrun run_llama_nxd.py \
    --train_batch_size 512 --num_microbatches 512 --pipeline_parallel_size 8 --tensor_parallel_size 32 --lr 1.5e-5 --warmup_steps 2000 --max_steps 30000
says "global_batch_size: 1024 " "data: 2 " "warmup_like: nemo" "type: cosine" "seed: 1234 "

# --- one budget for all that is read: files, words, bytes
for i in 0 1 2 3 4 5 6; do
    awk -v next_one=$((i + 1)) 'BEGIN { for (k = 0; k < 12; k++) print "source ./deep" next_one ".sh" }' >deep$i.sh
    awk -v next_one=$((i + 1)) 'BEGIN { printf "defaults: ["; for (k = 0; k < 12; k++) printf "deep%d, ", next_one; print "_self_]" }' >deep$i.yaml
done
echo 'A=1' >deep7.sh
echo 'seed: 1' >deep7.yaml
bounded="timeout 300 $drover config --set model.preset=tiny"
expect 2 "more than 100 files are read, which may call each other in a circle" $bounded --from args deep0.sh
expect 2 "more than 100 files are read, which may call each other in a circle" $bounded --from nxdt deep0.yaml
awk 'BEGIN { for (i = 0; i < 50000; i++) print "V" i "=1" }' >many.sh
expect 2 "many.sh:10001: more than 10000 words and assignments" $bounded --from args many.sh
awk 'BEGIN { print "A=x"; for (i = 0; i < 15; i++) print "A=$A$A"; for (i = 0; i < 9000; i++) print "B" i "=$A" }' >long.sh
expect 2 "long.sh: its variables and values become longer than 64 MiB together" $bounded --from args long.sh
awk 'BEGIN { printf "a: "; for (i = 0; i < 60000; i++) printf "x"; print ""; for (i = 0; i < 5000; i++) print "b" i ": ${a}y" }' >inter.txt
expect 2 "become longer than 64 MiB together" $bounded --from nxdt inter.txt
awk 'BEGIN { for (i = 0; i < 9000; i++) print "j" i ": 1" }' >base.yaml
(echo 'defaults: [base, _self_]' && sed s/j/k/ base.yaml) >flat.txt
expect 2 "become longer than 64 MiB together" $bounded --from nxdt flat.txt
awk 'BEGIN { for (i = 0; i < 200000; i++) print "# a script" }' >big.sh
expect 1 '"big.sh" has 2200000 bytes, expected at most 1048576' $bounded --from args big.sh

# --- command lines
args="$drover config --from args --set model.preset=llama-3.1-8b"
expect 0 "data: 16 " $args -- bash run_llama3.1_8b.sh -w 500 -n 16 -l 4e-4 -s 8192
says "warmup_steps: 500 " "lr: 4e-4 " "tensor: 32 " "global_batch_size: 1024 " "sequence_length: 8192 " "steps: 10000 "
expect 0 "global_batch_size: 24 " $args -- torchrun --nproc_per_node=8 train.py --learning_rate 2e-5 --max_steps 1200 --bf16 \
    --per-device-train-batch-size 1 --gradient_accumulation_steps=3 --lora_r 16 --lora_target_modules q_proj v_proj
says "rank: 16 " "target_modules: [q_proj, v_proj]" "betas: [0.9, 0.999]" "weight_decay: 0 " "eps: 1e-8 " "seed: 42 "
expect 2 'depends on the data; give --data PREFIX, or --set training.steps=N or training.epochs=N' $args -- python run_clm.py --block_size 512
expect 2 "1 ranks are fewer than tensor x pipeline x context = 8; give --ranks N" $args -- python3 ray_train_llama2.py
expect 2 "drover model get hf:some/llama" "$drover" config --from args -- python3 train.py --model_name_or_path some/llama --max_steps 5
expect 2 '"foo" is not a key of args' $args -- python train.py --max_steps 5 --foo 1
expect 0 "recompute: none " $args -- trl sft --max_steps 5 --no-gradient-checkpointing --no_bf16 --no_remove_unused_columns
says "precision: fp32 "
expect 2 '"no_foo" is not a key of args' $args -- trl sft --max_steps 5 --no_foo
expect 2 '"train_iters" is not a key of args that drover knows; here it is "training.steps"' $args --set training.steps=5 -- torchrun pretrain_gpt.py --train-iters 5 --lr 1e-4
expect 2 "training.epochs=N; 1 key is refused, listed above" $args -- torchrun pretrain_gpt.py --train-iters 5 --lr 1e-4
expect 0 "recompute: full " $args -- python sft.py --max_steps 5 --gradient_checkpointing 1 --tf32 True
expect 2 'expected one of true, 1, false, 0' $args -- python sft.py --max_steps 5 --gradient_checkpointing maybe
expect 2 '"1.5", expected a number from 0 to 0.9999999 (args: adam_beta1, command line)' $args -- python sft.py --max_steps 5 --adam_beta1 1.5
for wrong in bf16 packing use_mix_precision use_peft; do
    expect 2 "\"$wrong\" is \"maybe\", expected true or false" $args -- python sft.py --max_steps 5 --$wrong maybe
done
expect 2 "--ranks is 7, expected a multiple of tensor x pipeline x context = 2" $args --ranks 7 -- torchrun sft.py --max_steps 5 --tp_size 2
expect 2 "command line lr_scheduler_kwargs={a: not YAML" $args -- python sft.py --max_steps 5 --lr_scheduler_kwargs '{a'
expect 2 'did you mean "optimizer.lr"' $args --set optimizer.lrr=1 -- python sft.py --max_steps 5
expect 2 '--set "training.steps": expected KEY=VALUE' $args --set training.steps -- python sft.py --max_steps 5
expect 2 "--set optimizer={lr: 1}: expected one of the keys" $args --set "optimizer={lr: 1}" -- python sft.py --max_steps 5
expect 2 '--accept optim' $args -- python train.py --max_steps 5 --optim adafactor
expect 2 "\"ls\": no command that trains, expected a program" $args -- ls -l
expect 2 "drover config --from axolotl FILE translates its YAML" $args -- accelerate launch -m axolotl.cli.train x.yml
expect 2 "docs/keys.md lists the names of its options here" $args -- torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file x.toml
expect 2 "script \"no/run_llama3.1_8b.sh\" does not exist; expected its path" $args -- bash no/run_llama3.1_8b.sh
printf 'echo python train.py --lr 1\nFOO=1\npython prepare.py --input x\n' >nothing.sh
expect 2 "nothing.sh: no command that trains, expected a program that ends in .py" $args nothing.sh
printf 'export OMP_NUM_THREADS=1\nsrun bash /far/away.sh\n' >alone.sh
expect 2 "alone.sh: no command that trains" $args alone.sh
: >empty.sh
expect 2 "empty.sh: no command that trains" $args empty.sh
expect 2 "empty.sh: no command that trains, expected ... megatron_gpt_pretraining.py" "$drover" config --from nemo-megatron empty.sh
printf 'MODEL_ID=some/llama\nMAX_TRAINING_STEPS=7\nLEARNING_RATE=2e-5\n' >jobspec.sh
expect 0 "steps: 7 " $args --ranks 8 jobspec.sh
printf 'python train.py --max_steps 7 --learning_rate 1e-3\npython convert.py --input_dir x\n' >convert.sh
expect 0 "steps: 7 " $args --ranks 8 convert.sh
printf 'python train.py --max_steps 7 --learning_rate 1e-3 --lora_target_modules q_\225proj\n' >latin.sh
expect 2 'latin.sh:1: "lora_target_modules" is not text in UTF-8' $args --ranks 8 latin.sh
odd=$(printf 'a\nmodel: 1\377.sh')
cp convert.sh "$odd"
expect 0 "steps: 7 " $args --ranks 8 "$odd"
says 'args a?model: 1?.sh; for 8 ranks'

# --- scripts at a path, with their arguments and what stands before the command
cat >run_llama3.1_8b.sh <<'SH'
TP_DEGREE=8
KV=`expr $TP_DEGREE / 8`
: ${GBS:=1024}
MBS=1 MAX_STEPS=10000 WARMUP_STEPS=100 LR=1.5e-4 SEQ_LEN=2048 NUM_NODES=2
while getopts t:w:l:s:n:g:h flag
do
    case "${flag}" in
        t) MAX_STEPS=${OPTARG};;
        w) WARMUP_STEPS=${OPTARG};;
        l) LR=${OPTARG};;
        s) SEQ_LEN=${OPTARG};;
        n) NUM_NODES=${OPTARG};;
        g) GBS=${OPTARG};;
        h) exit;;
    esac
done
export NEURON_RT_NUM_CORES=32
ACC_STEPS=$(($GBS / $MBS / ($NEURON_RT_NUM_CORES * $NUM_NODES / $TP_DEGREE)))
python ray_train_llama3.py --num_nodes $NUM_NODES --tensor_parallel_size $TP_DEGREE --train_batch_size $MBS \
    --max_steps $MAX_STEPS --warmup_steps $WARMUP_STEPS --lr $LR --grad_accum_usteps $ACC_STEPS --seq_len $SEQ_LEN \
    --use_fp32_optimizer 0 --use_zero1_optimizer 1 --scheduler_type 'linear' --kv_replicator $KV |& tee log
SH
expect 0 "tensor: 8 " $args -- bash ./run_llama3.1_8b.sh -w 500 -n16 -l 4e-4 -s 8192
says "data: 64 " "warmup_steps: 500 " "global_batch_size: 1024 " "sequence_length: 8192 " "master_dtype: bf16 " "run_llama3.1_8b.sh:20"
expect 0 "global_batch_size: 512 " $args -- GBS=512 ./run_llama3.1_8b.sh -n 4
expect 0 "steps: 50 " $args run_llama3.1_8b.sh -- -t 50
expect 0 "steps: 10000 " $args run_llama3.1_8b.sh
expect 0 "tensor: 32 " $args -- bash elsewhere/run_llama3.1_8b.sh -w 500
says "differs from there" "is not here, or not named by its path: read as data-on-eks has it"
expect 0 "data: 1 " $args -- NEURON_NUM_DEVICES=2 bash elsewhere/run_llama3.1_8b.sh -n 16
expect 0 "FOO (command line): a variable of the environment" $args -- env FOO=1 python train.py --max_steps 5
cat >words.sh <<'SH'
while [ $# -gt 0 ]; do
    case "$1" in
        --steps) STEPS="$2"; shift 2 ;;
        *) REST="$1 $2"; shift; shift ;;
    esac
done
./inner.sh --lr 2e-4 "$REST"
SH
echo 'python train.py --max_steps ${STEPS:-9} --learning_rate ${2:-1} ${3} $4' >inner.sh
expect 0 "steps: 70 " $args words.sh -- --seed 5 --steps 70
says "lr: 2e-4 " "seed: 5 "
expect 0 "steps: 9 " $args words.sh -- --seed 5
expect 2 'convert.sh: "foo" is given after --, but the script uses no arguments' $args convert.sh -- foo --bar
expect 2 'convert.sh:1 starts a training, and so does "train.py" after --' $args convert.sh -- python train.py --max_steps 5

# --- launchers: the one next to the program counts
args="$drover config --from args --set model.preset=llama-3.1-8b"
clm="run_clm.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_steps 100"
expect 0 "global_batch_size: 256 " $args -- accelerate launch --num_processes 32 --num_machines 4 --machine_rank 0 --mixed_precision bf16 $clm
says "data: 32 " "precision: bf16 "
expect 0 "global_batch_size: 256 " $args -- torchrun --nnodes 4 --nproc_per_node 8 $clm
expect 0 "global_batch_size: 256 " $args -- mpirun -x PATH --bind-to none -n32 python $clm
expect 0 "global_batch_size: 256 " $args -- srun -N4 --ntasks-per-node=8 python $clm
expect 0 "global_batch_size: 256 " $args -- srun -N4 --ntasks-per-node=1 torchrun --nnodes=4 --nproc-per-node=8 $clm
expect 0 "global_batch_size: 256 " $args --ranks 32 -- torchrun --nnodes 1:4 --nproc_per_node auto $clm
expect 2 '"nproc_per_node" is "auto", expected a number of processes; or give --ranks N' $args -- torchrun --nproc_per_node auto $clm
expect 2 "the number of processes that accelerate starts is not known; give --ranks N" $args -- accelerate launch --multi_gpu $clm
expect 2 "accept it by --accept config_file" $args -- accelerate launch --config_file fsdp.yaml --num_processes 8 $clm

# --- programs: what trains something else is refused, and each has its own defaults
for program in "trl kto" "trl orpo" "trl grpo" "trl reward" "python grpo.py" "python run_mlm.py" "python run_glue.py" "python run_clm_no_trainer.py"; do
    expect 2 "trains something else than the next token" $args -- $program --max_steps 10
done
expect 0 "precision: fp32 " $args -- python $clm
says "pack: stream" "keep: 0 " "eval_every: 0 " "sequence_length: 1024 " "default of transformers 5.24.0"
expect 0 "lr: 2e-5 " $args -- trl sft --max_steps 10
says "log_every: 10 " "recompute: full" "precision: bf16 " "differs from there" "packing (default of TRL 1.16.0, SFTConfig): is off"
expect 0 "offload: activations" $args --set backend=pjrt -- trl sft --max_steps 10 --activation_offloading True
printf 'max_steps: 10\nlearning_rate: 3.0e-4\nlora_target_modules: [q_proj, v_proj]\nuse_peft: true\nseed: 7\nenv: {X: 1}\n' >trl.txt
expect 0 "seed: 8 " $args -- trl sft --seed 8 --config trl.txt
says "lr: 3.0e-4 " "target_modules: [q_proj, v_proj]" "learning_rate, trl.txt:2" "steps: 10 "
expect 1 "nowhere.txt" $args -- trl sft --config=nowhere.txt
expect 2 'config (command line): is "trl.txt"; only TRL' $args -- python train.py --max_steps 10 --config trl.txt
expect 0 "lr: 1e-6 " $args -- trl dpo --max_steps 10
says "objective: dpo" "beta: 0.1 "
expect 0 "rank: 16 " $args -- trl sft --max_steps 10 --use_peft
says "alpha: 32 " "dropout: 0.05 " "target_modules: [q_proj, v_proj]"
expect 0 'lora_r (command line): LoRA is off' $args -- trl sft --max_steps 10 --lora_r 8
expect 2 '"use_lora" asks for LoRA without a rank' $args -- python train.py --max_steps 10 --use_lora
expect 0 "sequence_length: 512 " "$drover" config --from args --set model.preset=tiny -- python $clm

expect 0 "master_dtype: bf16 " $args -- python $clm --torch_dtype bfloat16
says "precision: bf16 " "state_dtype: bf16 " "without fp32 masters"
expect 0 "master_dtype: fp32 " $args -- trl sft --max_steps 10 --dtype bfloat16 --use_peft
expect 0 "dtype (command line): is that of the model's files" $args -- python $clm --torch_dtype auto
expect 2 "accept it by --accept dtype" $args -- trl sft --max_steps 10 --dtype float16
expect 2 '"foo" is neither an option nor an option'"'s value" $args -- python train.py foo --max_steps 5
expect 2 '"args.json" is neither an option' $args -- trl sft args.json --max_steps 5
expect 0 "the last batch of an epoch may be short there" $args --data data/set -- python run_clm.py --num_train_epochs 3 --block_size 64

# --- Optimum Neuron: the words of its example and of HyperPod's
expect 0 "global_batch_size: 64 " $args -- torchrun --nproc_per_node 32 finetune_llama.py --model_id x --num_train_epochs 3 --do_train --max_steps 90 \
    --gradient_accumulation_steps 16 --learning_rate 1e-4 --bf16 --tensor_parallel_size 8 --async_save --warmup_steps 5 --logging_steps 1 \
    --output_dir x --overwrite_output_dir
says "micro_batch_size: 1 " "data: 4 " "sequence: true " "zero: 1 " "default of Optimum Neuron 0.4.5"
for program in train.py peft_train.py; do
    expect 0 "global_batch_size: 3 " $args -- torchrun --nproc_per_node=8 --nnodes=1 $program --bf16=True --checkpoint_frequency=400 --dataset=dolly \
        --max_seq_length=1024 --max_steps=1200 --epochs=1 --gradient_accumulation_steps=3 --learning_rate=2e-5 --model_path=/fsx/model \
        --tokenizer_path=/fsx/tok --model_checkpoint_path=/fsx/ck --model_final_path=/fsx/ck/final --tp_size=8 --pp_size=1 --train_batch_size=1 \
        --warmup_steps=100 --weight_decay=0.01
    says "rank: 16 " "target_modules: [q_proj, v_proj]" "every: 400 " "tensor: 8 " 'run_dir: "/fsx/ck"' "loss: all " "data build --sft --input dolly"
done
printf 'trainer: {gradient_clip_val: null, max_steps: 9}\n' >null.txt
expect 0 "clip_grad_norm: 0 " "$drover" config --from nxdt null.txt $least

# --- LoRA of NeMo, by its scheme
peft() { printf 'torchrun x_pretraining.py trainer.max_steps=5 model.optim.lr=1e-4 model.peft.peft_scheme=%s model.peft.lora_tuning.adapter_dim=32\n' "$1" >peft.sh; }
nemo_peft="$drover config --from nemo-megatron peft.sh --set model.preset=tiny"
peft lora
expect 0 "rank: 32 " $nemo_peft
peft null
expect 0 "adapter_dim (peft.sh:1): LoRA is off" $nemo_peft
sed -i 's/model.peft.peft_scheme=null//' peft.sh
expect 0 "taken for LoRA, since peft_scheme is left out" $nemo_peft
for scheme in ptuning ia3 adapter lora,ia3; do
    peft $scheme
    expect 2 "expected lora or null" $nemo_peft
done

# --- Axolotl
cat >axolotl.txt <<'YAML'
base_model: some/llama
datasets:
  - path: /data/alpaca.jsonl
    type: alpaca
val_set_size: 0.1
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
sequence_len: 2048
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
max_steps: 100
optimizer: adamw_torch
lr_scheduler: cosine
learning_rate: 0.0002
warmup_ratio: 0.1
bf16: auto
wandb_project: x
YAML
expect 2 "give --ranks N" "$drover" config --from axolotl axolotl.txt --set model.preset=llama-3.1-8b
expect 0 "global_batch_size: 64 " "$drover" config --from axolotl axolotl.txt --set model.preset=llama-3.1-8b --ranks 8
says "warmup_steps: 10 " "target_modules: all-linear" "pack: examples" 'train: "/data/alpaca"' "split: [0.9, 0.1, 0]" "rank: 8 "
expect 0 'train: "data/set"' "$drover" config --from axolotl axolotl.txt --set model.preset=llama-3.1-8b --ranks 8 --data data/set
for said in "activation_offloading: disk" "gradient_checkpointing: offload"; do
    { cat axolotl.txt; echo "$said"; } >offload.txt
    expect 0 "activations are in the host's memory already" "$drover" config --from axolotl offload.txt --set model.preset=llama-3.1-8b --ranks 8
    expect 0 "offload: activations" "$drover" config --from axolotl offload.txt --set model.preset=llama-3.1-8b --ranks 8 --set backend=pjrt
done
says "recompute: full"
{ cat axolotl.txt; echo "gradient_checkpointing: sometimes"; } >offload.txt
expect 2 'is "sometimes", expected true, false, offload' "$drover" config --from axolotl offload.txt --set model.preset=llama-3.1-8b --ranks 8
expect 0 'train: "data/set"' "$drover" config --from args --set model.preset=tiny --data data/set -- python train.py --max_steps 5
for optimizer in muon normuon; do
    sed "s/optimizer: .*/optimizer: $optimizer/" axolotl.txt >muon-lora.txt
    expect 2 "is \"$optimizer\", for LoRA's matrices, too" "$drover" config --from axolotl muon-lora.txt --set model.preset=llama-3.1-8b --ranks 8
    sed "/lora/d" muon-lora.txt >muon.txt
    expect 0 "type: $optimizer " "$drover" config --from axolotl muon.txt --set model.preset=llama-3.1-8b --ranks 8
done
says "axolotl: optimizer, line 11" "in bf16 alone there"
expect 0 "type: adamw " "$drover" config --from axolotl muon.txt --set model.preset=llama-3.1-8b --ranks 8 --set optimizer.type=adamw
sed "s/optimizer: .*/optimizer: adamw_bnb_8bit/" axolotl.txt >eight.txt
expect 2 'is "adamw_bnb_8bit"; optimizer.type is adamw, muon or normuon' "$drover" config --from axolotl eight.txt --set model.preset=llama-3.1-8b --ranks 8
expect 0 "rank: 8 " "$drover" config --from axolotl eight.txt --set model.preset=llama-3.1-8b --ranks 8 --accept optimizer
sed 's/adapter: lora/adapter: qlora/' axolotl.txt >qlora.txt
expect 2 "--accept adapter" "$drover" config --from axolotl qlora.txt --set model.preset=llama-3.1-8b --ranks 8
sed 's/learning_rate: .*/learning_rate: fast/' axolotl.txt >fast.txt
expect 2 '"optimizer.lr" is "fast", expected a number from 0 to 1000 (axolotl: learning_rate, line 17)' "$drover" config --from axolotl fast.txt \
    --set model.preset=llama-3.1-8b --ranks 8
axolotl="$drover config --from axolotl axolotl.txt --set model.preset=llama-3.1-8b --ranks 8"
expect 0 "steps: 7 " $axolotl -- --max-steps 7 --learning_rate=1e-5
says "lr: 1e-5 "
expect 2 '"learning_rates" is not a key of axolotl' $axolotl -- --learning_rates 1
expect 2 '"nonsense" is given after --, expected --KEY=VALUE' $axolotl -- nonsense
expect 2 '"axolotl.txt" is a second file' "$drover" config --from axolotl axolotl.txt axolotl.txt
expect 2 '"small.txt" is a second YAML' "$drover" config --from nxdt small.txt small.txt
{ cat axolotl.txt && printf 'rl: dpo\nrl_beta: 0.2\n'; } >dpo.txt
expect 2 '"rl" goes with DPO, whose batch counts pairs' "$drover" config --from axolotl dpo.txt --set model.preset=llama-3.1-8b --ranks 8
expect 0 "objective: dpo" "$drover" config --from axolotl dpo.txt --set model.preset=llama-3.1-8b --ranks 8 --accept rl
says "beta: 0.2" "data build --preference"
shards() { # ZERO|none YAML: what data ranks share
    { cat axolotl.txt && printf '%s\n' "$2"; } >shards.txt
    if [ "$1" = none ]; then expect 0 "rank: 8 " $of_shards; else expect 0 "zero: $1 " $of_shards; fi
    check "\"$2\" changes no result" eval '! grep -q "would change" out'
}
of_shards="$drover config --from axolotl shards.txt --set model.preset=llama-3.1-8b --ranks 8"
shards none 'fsdp_config: {offload_params: false, transformer_layer_cls_to_wrap: LlamaDecoderLayer}'
shards none $'fsdp_version: 2\ndp_shard_size: 4\ndp_replicate_size: 2\nfsdp: []'
shards 3 $'fsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_state_dict_type: FULL_STATE_DICT}'
shards 3 $'fsdp_version: 2\nfsdp_config: {reshard_after_forward: true, state_dict_type: FULL_STATE_DICT}'
shards 2 $'fsdp: [full_shard]\nfsdp_config: {reshard_after_forward: false}'
shards 2 'fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}'
for level in 1 2 3; do shards $level "deepspeed: deepspeed_configs/zero$level.json"; done
shards 3 'deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json'
says "by the file's name; its other settings are not read"
sed -i 's/^deepspeed: .*/deepspeed: other.json/' shards.txt
expect 2 '"deepspeed" is "other.json"; sharding is parallel.zero here' $of_shards
expect 0 "zero: 2" $of_shards --set parallel.zero=2
expect 0 "zero: 3 " $args -- torchrun --nproc_per_node 2 run_clm.py --max_steps 5 --fsdp "full_shard auto_wrap"
for tokens in '' '{pad_token: "<|end_of_text|>"}'; do
    { cat axolotl.txt && echo "special_tokens: $tokens"; } >tokens.txt
    expect 0 "rank: 8 " "$drover" config --from axolotl tokens.txt --set model.preset=llama-3.1-8b --ranks 8
done
sed -i 's/pad_token/eos_token/' tokens.txt
expect 2 'accept it by --accept special_tokens.eos_token' "$drover" config --from axolotl tokens.txt --set model.preset=llama-3.1-8b --ranks 8
echo "rl: orpo" >>axolotl.txt
expect 2 '"rl" is "orpo", which is not supported' "$drover" config --from axolotl axolotl.txt --set model.preset=llama-3.1-8b --ranks 8

# --- files of options that are no scripts, whatever their names are
of_trainer() { # TRAINER WAY LINE...: one line says whose file it is, and what to do
    printf '%s\n' "learning_rate: 1.0e-4" "${@:3}" >options.txt
    expect 2 "is a key of $1, not a command; $2" "$drover" config --from args options.txt
    check "one line" [ "$(wc -l <out)" = 1 ]
}
of_trainer LLaMA-Factory "drover config --from args -- trl sft --config FILE translates" "stage: sft" "finetuning_type: lora"
of_trainer torchtitan "docs/keys.md lists" "[training]" "steps = 10"
of_trainer Axolotl "--from axolotl translates it" "base_model: x"
of_trainer "NxD Training" "--from nxdt translates it" "distributed_strategy:" "  zero1: true"
echo "learning_rate: 1.0e-4" >any.yaml
expect 2 "any.yaml: expected a script or, after --, a command; drover config --from args -- trl sft" "$drover" config --from args any.yaml
expect 0 "lr: 1.0e-4 " "$drover" config --from args --set model.preset=tiny --set training.steps=5 -- trl sft --config any.yaml

# --- an entry of Axolotl's datasets: a format with its file, plain text, and parts that are taken there
entry() { # FIELDS: a configuration with one entry
    printf 'base_model: x\ndatasets: [{%s}]\nlearning_rate: 1e-4\nmax_steps: 9\nsample_packing: true\nsequence_len: 64\nwarmup_steps: 1\n' "$1" >entry.txt
}
of_entry="$drover config --from axolotl entry.txt --set model.preset=tiny --ranks 1"
entry 'path: json, data_files: chat.jsonl, type: alpaca'
expect 0 'train: "chat" ' $of_entry
says "data build --sft --input chat.jsonl" "warmup_steps: 2 " "keep: 4 " "too_long: drop" "seed: 42 " "log_every: 1 "
entry 'path: data/books, type: completion'
expect 0 "loss: all " $of_entry
says "data build --input data/books"
for part in 'split: "train[:10%]"' 'split: test' 'shards: 10' 'shards_idx: 2, shards: 4' 'name: subset'; do
    entry "path: data/chat, type: alpaca, $part"
    expect 2 "takes a part of the set" $of_entry
done
entry 'path: data/chat, type: alpaca, split: train, roles_to_train: [assistant]'
expect 0 "datasets[0].roles_to_train (entry.txt:2): text is made when the set is built" $of_entry
entry 'path: json, type: alpaca'
expect 2 "or one without a path" $of_entry
sed -i 's/sample_packing: true/save_total_limit: 0/' entry.txt
expect 0 "keep: 4 " $of_entry --data data/set
says "differs from there" "sample_packing (default of Axolotl 0.19.0): is off"

expect 2 '--from is "megatron", expected nxdt' "$drover" config --from megatron x
expect 2 "--accept needs --from" "$drover" config --accept x
finish
