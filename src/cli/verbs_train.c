// drover train: a run from its config, begun or resumed.
#include "cli/cli.h"
#include "config/config.h"
#include "train/train.h"

static const cli_option train_options[] = {
        CLI_SET,
        {"--fresh", NULL, "start at step 0; what is in the run directory moves to before-N"},
};

static drv_status run_train(arena *a, const cli_args *args) {
    run_config cfg;
    int n;
    const char **sets = cli_get_all(a, args, "--set", &n);
    const drv_status status = config_load(a, args->positional[0], sets, n, &cfg);
    if (status != DRV_OK) return train_refuse(a, status);
    return train(a, &cfg, cli_has(args, "--fresh"));
}

const verb verb_train = {
        .name = "train",
        .summary = "pre-train a model, or resume a run where it stopped",
        .usage = "CONFIG [--fresh] [--set KEY=VALUE]...",
        .help = "Trains as the YAML file says; `drover config` prints all keys. The run directory gets\n"
                "config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N, each a Hugging\n"
                "Face folder. Started again, it resumes the newest valid checkpoint, bit for bit; what has\n"
                "changed since is said, and another model is refused.\n"
                "\n"
                "`mpirun -n N drover train CONFIG` (or srun --mpi=pmix) shares the work of each step among\n"
                "N processes: rows, which is the default, and as parallel.tensor and parallel.pipeline say\n"
                "products and layers. parallel.lanes makes the result independent of how many share the rows,\n"
                "to the bit. Any layout resumes the checkpoints of any other.\n"
                "\n"
                "SIGINT, SIGTERM, SIGHUP and SIGUSR1 finish the current micro-batch, save the last finished\n"
                "step and exit 3: the same command resumes. While programs are compiled they end the run at\n"
                "once, with 3 too. A second SIGINT ends at once. SIGUSR2 saves and continues. Exit status:\n"
                "0 all steps are done, 1 failed, 2 wrong usage, 3 stopped on request, 75 another try may\n"
                "succeed (a rank was lost, the disk is full). RUN_DIR/status.json says the same, also where\n"
                "a launcher returns another status; events.jsonl has what happened in all attempts.",
        .options = train_options,
        .n_options = sizeof train_options / sizeof *train_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_train,
};
