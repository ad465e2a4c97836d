// Variables of scripts that start a run (llama_7b.sh of neuronx-nemo-megatron, generate-jobspec.sh
// of awsome-distributed-training, the environment of Neuron), and option letters of
// run_llama3.1_8b.sh.
#include "config/foreign_key.h"
#include "config/foreign_tables.h"

#define SCRIPT  FOREIGN_SCRIPT
#define OPTIONS FOREIGN_OPTIONS

const foreign_key foreign_scripts[] = {
        FACT(SCRIPT, "SEQ_LENGTH SEQ_LEN MAX_SEQ_LENGTH", "data.sequence_length",
                "sequence_length"),
        SAME(SCRIPT, "HS", "model.hidden_size"),
        SAME(SCRIPT, "TP TP_SIZE TP_DEGREE TENSOR_PARALLEL_SIZE", "parallel.tensor"),
        SAME(SCRIPT, "PP PP_SIZE PP_DEGREE PIPELINE_PARALLEL_SIZE", "parallel.pipeline"),
        SAME(SCRIPT, "N_LAYERS", "model.num_hidden_layers"),
        SAME(SCRIPT, "N_AH", "model.num_attention_heads"),
        SAME(SCRIPT, "NUM_KV_HEADS N_KV_HEADS", "model.num_key_value_heads"),
        SAME(SCRIPT, "FFN_HS", "model.intermediate_size"),
        SAME(SCRIPT, "GBS", "training.global_batch_size"),
        FACT(SCRIPT, "UBS MBS BATCH_SIZE TRAIN_BATCH_SIZE PER_DEVICE_TRAIN_BATCH_SIZE",
                "training.micro_batch_size", "micro"),
        FACT(SCRIPT, "GRADIENT_ACCUMULATION_STEPS", "training.global_batch_size", "accumulation"),
        FACT(SCRIPT, "TRAIN_ITERS MAX_TRAINING_STEPS MAX_STEPS TOTAL_STEPS", "training.steps",
                "steps"),
        FACT(SCRIPT, "EPOCHS NUM_EPOCHS", "training.steps", "epochs"),
        SAME(SCRIPT, "INIT_METHOD_STD", "model.initializer_range"),
        SAME(SCRIPT, "LAYERNORM_EPSILON", "model.rms_norm_eps"),
        SAME(SCRIPT, "WARMUP_STEPS", "schedule.warmup_steps"),
        SAME(SCRIPT, "LEARNING_RATE LR", "optimizer.lr"),
        FACT(SCRIPT, "MODEL_ID", "model.from", "from"),
        FACT(SCRIPT, "DATASET_NAME", "data.train", "train"),
        FACT(SCRIPT, "CHECKPOINT_DIR MODEL_CHECKPOINT_PATH", "run_dir", "run_dir"),
        FACT(SCRIPT, "TOKENIZER_PATH TOKENIZER_OUTPUT_PATH", "tokenizer", "tokenizer"),
        FACT(SCRIPT, "PROCESSES_PER_NODE NEURON_NUM_DEVICES NPROC_PER_NODE", "parallel.data",
                "devices"),
        FACT(SCRIPT, "XLA_USE_BF16", "training.precision", "xla_use_bf16"),
        FACT(SCRIPT, "XLA_DOWNCAST_BF16", "training.precision", "xla_downcast_bf16"),
        FACT(SCRIPT, "OPTIM_NAME", "optimizer.state_dtype", "optim"),
        FACT(SCRIPT, "megatron_amp_O2", "optimizer.master_dtype", "amp_O2"),
        NONE(SCRIPT,
                "NEURON_* FI_* XLA_* TF_* TPU_* CCOM_* RDMAV_* OMP_* NCCL_* MALLOC_* HYDRA_* NEMO_* SLURM_* TORCH* PYTORCH_* "
                "HF_* TRANSFORMERS_* TOKENIZERS_* LD_* PATH HOME HOSTS IPS NODEID NODE_ID NTASKS MASTER_ADDR MASTER_PORT "
                "MASTER_ADDRESS WORLD_SIZE DISTRIBUTED_ARGS BUCKET_CAP_MB LOG_PATH EXPLICIT_LOGDIR CREATE_TB_LOGGER "
                "CHECKPOINT_CALLBACK MAYBE_COMPILE COMPILE training_precision PJRT_* WANDB_*",
                "it is for the launcher, the runtime or the log"),
        NONE(SCRIPT,
                "NAMESPACE INSTANCE_TYPE EFA* NEURON_PER_NODE IMAGE* REGISTRY REGION AWS_* ACCOUNT* CLUSTER* FSX* PVC* JOB_NAME "
                "MODEL_OUTPUT_PATH OUTPUT_PATH MERGE* FINAL_MODEL_PATH ADAPTER_CONFIG_PATH LORA_SAFETENSORS_PATH INPUT_DIR OUTPUT_DIR "
                "SAVE_FORMAT HF_TOKEN NUM_NODES NODES TAG CHECKPOINT_DIR_COMPILE AUTO_RESUME MODEL_TOKENIZER_PATH",
                "it is for the cluster's job, or for a step that drover does not need"),
        // run_llama3.1_8b.sh
        FACT(OPTIONS, "t", "training.steps", "steps"),
        SAME(OPTIONS, "w", "schedule.warmup_steps"),
        SAME(OPTIONS, "l", "optimizer.lr"),
        FACT(OPTIONS, "m", "model.hidden_size", "model_config"),
        FACT(OPTIONS, "d", "data.train", "train"),
        NONE(OPTIONS, "c b",
                "checkpoints and TensorBoard's files are below run_dir; that script ignores -c"),
        FACT(OPTIONS, "s", "data.sequence_length", "row_length"),
        FACT(OPTIONS, "n", "parallel.data", "nodes"),
        FACT(OPTIONS, "r", "training.stop_at_step", "stop_at"),
        SAME(OPTIONS, "g", "training.global_batch_size"),
        SAME(OPTIONS, "z", "training.micro_batch_size"),
        NONE(OPTIONS, "p", "there is nothing to compile before a run"),
        {.names = NULL},
};
