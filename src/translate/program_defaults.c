// The defaults of programs, for what their command line leaves out. Sources: TrainingArguments of
// transformers 4.48, the argparse calls of aws-neuron/neuronx-distributed examples/training/llama,
// run_llama3.1_8b.sh and ray_train_llama2.py of data-on-eks, DPO aside.
#include <string.h>

#include "translate/translation.h"

const char *const *program_defaults(const translation *self) {
    static const char *const transformers[] = {"learning_rate=5e-5", "weight_decay=0",
            "adam_beta1=0.9", "adam_beta2=0.999", "adam_epsilon=1e-8", "max_grad_norm=1.0",
            "lr_scheduler_type=linear", "warmup_steps=0", "num_train_epochs=3",
            "per_device_train_batch_size=8", "gradient_accumulation_steps=1", "seed=42",
            "logging_steps=500", "save_steps=500", NULL};
    // The one with pipelines: its rate follows lr.py, which is NeMo's cosine.
    static const char *const pipelines[] = {"weight_decay=0.01", "beta1=0.9", "beta2=0.95",
            "seed=1234", "seq_len=4096", "tensor_parallel_size=8", "train_batch_size=16",
            "num_microbatches=8", "max_steps=100", "scheduler_type=cosine", "use_zero1_optimizer=0",
            "use_sequence_parallel=1", "use_selective_checkpoint=0", NULL};
    // NxD Training's, of lib/.../get_attribute_from_cfg and of the optimizer beneath it.
    static const char *const nxdt[] = {"seed=1234", "distributed_strategy.zero1=true",
            "distributed_strategy.sequence_parallel=false", "trainer.gradient_clip_val=0",
            "model.optim.betas=[0.9, 0.999]", "model.optim.eps=1e-8",
            "model.optim.weight_decay=0.01", NULL};
    static const char *const nxd[] = {"lr=4e-4", "weight_decay=0.01", "beta1=0.9", "beta2=0.999",
            "warmup_steps=2000", "grad_accum_usteps=1", "seed=12349", "seq_len=4096",
            "tensor_parallel_size=2", "scheduler_type=linear", NULL};
    static const char *const ray[] = {"lr=3e-4", "weight_decay=0.01", "beta1=0.9", "beta2=0.999",
            "warmup_steps=100", "max_steps=10000", "grad_accum_usteps=32", "batch_size=1",
            "tensor_parallel_size=8", "seq_len=4096", "seed=12349", "logging_interval=10",
            "scheduler_type=linear", NULL};
    static const char *const options[] = {"t=10000", "w=100", "l=1.5e-4", "s=2048", "n=2", "g=1024",
            "z=1", NULL};
    static const char *const axolotl[] = {"lr_scheduler=cosine", "weight_decay=0", "adam_beta1=0.9",
            "adam_beta2=0.999", "gradient_accumulation_steps=1", "max_grad_norm=1.0", NULL};
    static const char *const none[] = {NULL};
    if (self->kinds & FOREIGN_OPTIONS) return options;
    if (self->kinds & FOREIGN_AXOLOTL) return axolotl;
    if (self->kinds & FOREIGN_NXDT) return nxdt;
    if (!(self->kinds & FOREIGN_ARGS) || !*self->program) return none;
    if (strcmp(self->program, "run_llama_nxd.py") == 0) return pipelines;
    if (str_starts(self->program, "ray_train")) return ray;
    return str_starts(self->program, "run_llama") || str_starts(self->program, "tp_")
                   ? nxd
                   : transformers;
}
