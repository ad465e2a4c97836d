// drover train: starts or resumes the run of a config.
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "comm/comm.h"
#include "config/config.h"
#include "launch/expect.h"
#include "launch/nodes.h"
#include "train/train.h"

static const cli_option train_options[] = {
        CLI_SET,
        {"--fresh", NULL,
                "start at step 0; move the earlier contents of the run directory to before-N"},
        CLI_EXPECT,
};

drv_status cli_expect(const cli_args *args) {
    static const char *const options[] = {"--expect-ranks", EXPECT_RANKS, "--expect-nodes",
            EXPECT_NODES};
    for (int i = 0; i < 4; i += 2) {
        int64_t n;
        DRV_TRY(cli_get_i64(args, options[i], 1, 1 << 24, &n));
        if (cli_has(args, options[i])) setenv(options[i + 1], cli_get(args, options[i], ""), 1);
    }
    return DRV_OK;
}

static drv_status run_train(arena *a, const cli_args *args) {
    run_config cfg;
    DRV_TRY(cli_expect(args));
    if (comm_launched() == 1)
        DRV_TRY(nodes_check_alone((const char *const *)environ, args->positional[0]));
    const drv_status status = cli_load_config(a, args, &cfg);
    if (status != DRV_OK) return train_refuse(a, status);
    return train(a, &cfg, cli_has(args, "--fresh"));
}

const verb verb_train = {
        .name = "train",
        .summary = "train a model, or resume a run where it stopped",
        .usage = "CONFIG [--fresh] [--expect-ranks N] [--expect-nodes N] [--set KEY=VALUE]...",
        .help = "Trains as the YAML file says; `drover config` prints all keys. The run directory gets\n"
                "config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N, each of which is a\n"
                "Hugging Face folder. The same command again resumes from the newest valid checkpoint, bit for\n"
                "bit. It reports what has changed in the config since, and refuses to continue with another\n"
                "model.\n"
                "\n"
                "`mpirun -n N drover train CONFIG` (or srun --mpi=pmix) divides each step among N processes: by\n"
                "rows (data parallelism) unless parallel.tensor, parallel.pipeline or parallel.context say\n"
                "otherwise. parallel.accumulation_groups makes the result independent of the number of data\n"
                "ranks, to the bit. A run can resume on any other layout. Where neither mpirun nor srun reaches\n"
                "the nodes (PyTorchJob, TrainJob, Ray), run `drover launch node CONFIG` on each of them. With\n"
                "--expect-ranks or --expect-nodes the run refuses to start if the number of ranks or nodes\n"
                "differs.\n"
                "\n"
                "On SIGINT, SIGTERM, SIGHUP or SIGUSR1, drover finishes the current micro-batch, saves the last\n"
                "finished step and exits 3; the same command resumes. During compilation these signals end the\n"
                "run at once, also with 3. A second SIGINT ends it at once. On SIGUSR2 it saves and continues.\n"
                "Exit status: 0 all steps are done, 1 failed, 2 wrong usage, 3 stopped on request, 75 another try\n"
                "may succeed (a rank was lost, the disk is full). RUN_DIR/status.json records the same status, in\n"
                "case a launcher returns another one; events.jsonl has the history of all attempts.",
        CLI_OPTIONS(train_options),
        CLI_WORDS(1, 1),
        .run = run_train,
};
