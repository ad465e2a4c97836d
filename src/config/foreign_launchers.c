// Options of programs that start others: how many processes there are. Sources: torch/distributed/
// run.py of PyTorch 2.8, accelerate/commands/launch.py of Accelerate 1.15.0, deepspeed/launcher/
// runner.py of DeepSpeed 0.17, mpirun(1) of Open MPI 5.0 and of MPICH 4.2, srun(1) of Slurm 24.05.
#include "config/foreign_key.h"
#include "config/foreign_tables.h"

#define TORCHRUN   FOREIGN_TORCHRUN
#define ACCELERATE FOREIGN_ACCELERATE
#define DEEPSPEED  FOREIGN_DEEPSPEED
#define MPIRUN     FOREIGN_MPIRUN
#define SRUN       FOREIGN_SRUN

const foreign_key foreign_launchers[] = {
        FACT(TORCHRUN, "nproc_per_node", "parallel.data", "devices"),
        FACT(TORCHRUN, "nnodes", "parallel.data", "nodes"),
        FACT(ACCELERATE | FOREIGN_ARGS, "num_processes", "parallel.data", "ranks"),
        FACT(ACCELERATE | FOREIGN_ARGS, "num_machines", "parallel.data", "nodes"),
        FACT(ACCELERATE, "mixed_precision", "training.precision", "bf16"),
        FACT(DEEPSPEED, "num_gpus num_accelerators", "parallel.data", "devices"),
        FACT(DEEPSPEED, "num_nodes", "parallel.data", "nodes"),
        FACT(MPIRUN, "n np c", "parallel.data", "ranks"),
        FACT(MPIRUN, "N npernode ppn", "parallel.data", "devices"),
        FACT(SRUN, "n ntasks", "parallel.data", "ranks"),
        FACT(SRUN, "ntasks_per_node", "parallel.data", "devices"),
        FACT(SRUN, "N nodes", "parallel.data", "nodes"),
        CHANGES(ACCELERATE, "use_deepspeed use_fsdp use_megatron_lm use_parallelism_config",
                "sharding is parallel.zero here, and its other settings are not read"),
        CHANGES(ACCELERATE | FOREIGN_ARGS, "config_file accelerate_config",
                "that file is not read: give its settings on the command line"),
        CHANGES(ACCELERATE, "gradient_accumulation_steps",
                "give --gradient_accumulation_steps of the program"),
        CHANGES(DEEPSPEED, "include exclude hostfile",
                "how many devices that leaves is not known: give --ranks N, and accept it"),
        NONE(TORCHRUN | ACCELERATE | DEEPSPEED,
                "rdzv_* master_addr master_port node_rank standalone tee log_dir redirects max_restarts monitor_interval "
                "role start_method local_addr logs_specs no_python run_path dynamo_backend dynamo_* main_process_port "
                "main_process_ip machine_rank same_network multi_gpu cpu num_cpu_threads_per_process rdzv_backend debug quiet "
                "gpu_ids enable_cpu_affinity launcher launcher_args force_multinode module m module_path",
                "it changes how or where the result is computed, not the result"),
        NONE(MPIRUN | SRUN, "*", "it changes how or where the result is computed, not the result"),
        {.names = NULL},
};
