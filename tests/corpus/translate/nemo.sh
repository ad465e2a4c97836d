3: ${GBS:=256}
export TRAIN_ITERS=500 TP=8
if [ $TP -gt 4 ]; then UBS=2; fi
torchrun megatron_gpt_pretraining.py trainer.devices=32 trainer.num_nodes=4 trainer.max_steps=$TRAIN_ITERS model.tensor_model_parallel_size=$TP \
    model.global_batch_size=${GBS} model.micro_batch_size=$UBS model.optim.lr=3.0e-4 model.optim.sched.name=CosineAnnealing model.encoder_seq_length=4096
