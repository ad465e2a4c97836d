// drover launch KIND: from options, a config and a type of machine to the files of a job, and then
// the next commands, or the submission.
#include "cli/launch_jobs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "launch/jobs/job_commands.h"
#include "launch/jobs/job_config.h"
#include "launch/jobs/job_names.h"
#include "launch/jobs/job_submit.h"
#include "launch/jobs/pod.h"
#include "launch/jobs/shell_words.h"
#include "launch/nodes.h"
#include "search/job_fit.h"

enum { DEFAULT_GRACE_S = 600, DEFAULT_TRIES = 3, MAX_TRIES = 1000 };

static const job_kind *find_kind(const cli_args *args) {
    for (int i = 0; i < n_job_kinds; i++)
        if (strcmp(job_kinds[i].name, args->verb->name) == 0) return &job_kinds[i];
    DRV_ASSERT(false, "no kind of job is called %s", args->verb->name);
    return NULL;
}

static bool takes(const cli_args *args, const char *option) {
    return cli_find_option(args->verb, option);
}

static const char *text_of(const cli_args *args, const char *option) {
    return takes(args, option) ? cli_get(args, option, NULL) : NULL;
}

// Reads one of two words; *second: the second was given. Left alone where neither was.
static drv_status read_choice(const cli_args *args, const char *option, const char *words,
        bool *second) {
    int index = *second;
    if (takes(args, option)) DRV_TRY(cli_get_choice(args, option, words, &index));
    *second = index == 1;
    return DRV_OK;
}

static drv_status check_node_launch(const cli_args *args, const job_spec *spec,
        const char *option) {
    if (spec->work != WORK_TRAIN)
        return drv_fail(DRV_E_USAGE, "%s: --job %s has no ranks, expected no %s", args->name,
                cli_get(args, "--job", ""), option);
    if (spec->is_node_launch) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: %s is an option of drover launch node, expected a job that runs it (%s)",
            args->name, option,
            takes(args, "--policy") ? "--policy torch"
            : takes(args, "--tasks")
                    ? "--tasks node"
                    : "pytorchjob, ray, slurm --tasks node, trainjob --policy torch");
}

static drv_status hand_on(const cli_args *args, job_spec *spec, const char *option,
        const char *value) {
    DRV_TRY(check_node_launch(args, spec, option));
    spec->node_options[spec->n_node_options++] = option;
    spec->node_options[spec->n_node_options++] = value;
    return DRV_OK;
}

// Reads the options that `drover launch node` gets, as they were given. Slurm's script measures
// nodes itself where srun starts the ranks, or where it alone can go on without one: no spare node
// takes its place.
static drv_status read_node_options(arena *a, const cli_args *args, job_spec *spec) {
    supervisor_rules rules;
    preflight_use how;
    DRV_TRY(launch_read_rules(args, spec->nodes, &rules));
    DRV_TRY(launch_read_preflight(args, &how));
    spec->spares = rules.n_spares;
    spec->fewest = rules.min_nodes;
    spec->restarts = rules.max_restarts > 0;
    spec->node_options = ARENA_ARRAY(a, const char *, 2 * N_LAUNCH_RULE_OPTIONS + 2);
    for (int i = 0; i < N_LAUNCH_RULE_OPTIONS; i++) {
        const char *option = launch_rule_names[i], *value = cli_get(args, option, NULL);
        if (value) DRV_TRY(hand_on(args, spec, option, value));
    }
    const bool none_waits = how == PREFLIGHT_EXCLUDE && spec->spares == 0,
               has_script = takes(args, "--tasks") && spec->work == WORK_TRAIN;
    if (has_script && (!spec->is_node_launch || none_waits))
        spec->preflight = how;
    else if (how != PREFLIGHT_OFF)
        return hand_on(args, spec, "--preflight", preflight_words[how]);
    return DRV_OK;
}

// By the torch policy Trainer gives its token to the pods of ranks by itself; by the mpi policy to
// the launcher alone. The token is made for a job in a namespace.
static drv_status read_progress(const cli_args *args, job_spec *spec) {
    if (!takes(args, "--progress") || !cli_has(args, "--progress")) return DRV_OK;
    if (spec->work != WORK_TRAIN || spec->is_node_launch)
        return drv_fail(DRV_E_USAGE,
                "%s: --progress is for ranks that mpirun starts, expected --policy mpi; with torch, Trainer gives its token to the pods itself",
                args->name);
    if (!spec->name_space)
        return drv_fail(DRV_E_USAGE,
                "%s: --progress needs --namespace: the token is for a job in it", args->name);
    spec->has_progress = true;
    return DRV_OK;
}

static drv_status read_instance(arena *a, const cli_args *args, job_spec *spec) {
    const char *file = cli_get(args, "--instance-file", NULL),
               *name = cli_get(args, "--instance", NULL);
    if (file) {
        char *text;
        size_t n;
        instance_type *t = ARENA_NEW(a, instance_type);
        DRV_TRY(file_read(a, file, &text, &n));
        DRV_TRY(instance_read(a, file, text, n, t));
        spec->instance = t;
        return DRV_OK;
    }
    if (!name)
        return drv_fail(DRV_E_USAGE, "%s: --instance is missing: %s, or --instance-file",
                args->name, instance_names(a));
    spec->is_hyperpod = str_starts(name, "ml.");
    spec->instance = instance_find(spec->is_hyperpod ? name + 3 : name);
    if (spec->instance && !(spec->is_hyperpod && !spec->instance->label)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: --instance \"%s\" is unknown, expected %s, or --instance-file", args->name, name,
            instance_names(a));
}

// Takes the profile of --device, such as one that was learned from a run, for that of the type.
static drv_status read_device(arena *a, const cli_args *args, job_spec *spec) {
    instance_type *t = ARENA_NEW(a, instance_type);
    DRV_TRY(read_instance(a, args, spec));
    if (!cli_has(args, "--device")) return DRV_OK;
    *t = *spec->instance;
    t->device = cli_get(args, "--device", NULL);
    spec->instance = t;
    return DRV_OK;
}

static drv_status read_numbers(const cli_args *args, job_spec *spec) {
    int64_t nodes = 1, ranks = instance_ranks(spec->instance), tries = DEFAULT_TRIES,
            grace = DEFAULT_GRACE_S;
    DRV_TRY(cli_get_i64(args, "--nodes", 1, MAX_NODES, &nodes));
    DRV_TRY(cli_get_i64(args, "--ranks-per-node", 1, MAX_RANKS_PER_NODE, &ranks));
    DRV_TRY(cli_get_i64(args, "--tries", 0, MAX_TRIES, &tries));
    DRV_TRY(cli_get_i64(args, "--grace", 1, MAX_GRACE_S, &grace));
    if (spec->work != WORK_TRAIN && nodes > 1)
        return drv_fail(DRV_E_USAGE, "%s: --job %s works on one machine, expected --nodes 1",
                args->name, cli_get(args, "--job", ""));
    if (spec->work != WORK_TRAIN && cli_has(args, "--ranks-per-node"))
        return drv_fail(DRV_E_USAGE, "%s: --job %s has no ranks, expected no --ranks-per-node",
                args->name, cli_get(args, "--job", ""));
    spec->nodes = (int)nodes;
    spec->ranks = (int)ranks;
    spec->tries = (int)tries;
    spec->grace_s = (int)grace;
    spec->shm = spec->instance->pod_memory / 8 >> 20 << 20;
    if (takes(args, "--shm")) DRV_TRY(cli_get_bytes(args, "--shm", 1 << 20, &spec->shm));
    double time_s = 0;
    if (takes(args, "--time")) DRV_TRY(cli_get_seconds(args, "--time", 1, 1e4 * 86400, &time_s));
    spec->time_s = llround(time_s);
    return DRV_OK;
}

// The config, with its bytes, or the words of data work.
static drv_status read_subject(arena *a, const cli_args *args, job_spec *spec, run_config *cfg) {
    spec->sets = cli_get_all(a, args, "--set", &spec->n_sets);
    if (spec->work == WORK_DATA) {
        if (spec->n_sets)
            return drv_fail(DRV_E_USAGE, "%s: --set changes no data, expected none", args->name);
        spec->words = (const char *const *)args->positional;
        spec->n_words = args->n_positional;
        if (STR_ONE_OF(args->positional[0], "data", "tokenizer", "model", "ckpt")) return DRV_OK;
        return drv_fail(DRV_E_USAGE,
                "%s: --job data runs \"drover %s\", expected data, tokenizer, model or ckpt",
                args->name, args->positional[0]);
    }
    if (args->n_positional > 1)
        return drv_fail(DRV_E_USAGE, "%s: unexpected argument \"%s\", expected one CONFIG",
                args->name, args->positional[1]);
    spec->config = args->positional[0];
    return job_read_config(a, spec->work == WORK_TRAIN && !cli_has(args, "--grace"), spec, cfg);
}

// The command without what changes no file, for a comment. Of --env it has the names alone: a value
// may be a secret, and files without the variables have the comment too.
static const char *command_of(arena *a, const cli_args *args) {
    str line = {0};
    str_printf(&line, "drover %s", args->name);
    for (int i = 0; i < args->n_options; i++) {
        const char *name = args->option[i].name, *value = args->option[i].value;
        if (strcmp(name, "--out") == 0 || strcmp(name, "--submit") == 0) continue;
        str_printf(&line, " %s", name);
        if (!value) continue;
        str_puts(&line, " ");
        if (strcmp(name, "--env") == 0)
            shell_word(&line, arena_printf(a, "%.*s=...", (int)strcspn(value, "="), value));
        else
            shell_word(&line, value);
    }
    str_puts(&line, strcmp(cli_get(args, "--job", ""), "data") == 0 ? " -- " : " ");
    shell_words(&line, (const char *const *)args->positional, args->n_positional);
    return str_keep(a, &line);
}

static const char *default_name(arena *a, const job_spec *spec) {
    if (spec->work == WORK_DATA) return "data";
    const char *name = name_of_file(a, spec->config);
    return spec->work == WORK_COMPILE ? arena_printf(a, "%s-compile", name) : name;
}

static drv_status read_pod_options(arena *a, const cli_args *args, job_spec *spec) {
    for (int option = 0; option < N_POD_OPTIONS; option++) {
        int n;
        if (!takes(args, pod_option_names[option])) continue;
        const char **values = cli_get_all(a, args, pod_option_names[option], &n);
        DRV_TRY(pod_options_take(a, &spec->pods, (pod_option)option, values, n));
    }
    return DRV_OK;
}

// A job of one pod has nothing to be placed beside, and no cluster.
static drv_status read_place(const cli_args *args, job_spec *spec) {
    static const char *const options[] = {"--topology", "--cluster", "--gang", "--page"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (spec->work != WORK_TRAIN && takes(args, options[i]) && cli_has(args, options[i]))
            return drv_fail(DRV_E_USAGE, "%s: --job %s has one pod and no run, expected no %s",
                    args->name, cli_get(args, "--job", ""), options[i]);
    spec->topology = text_of(args, "--topology");
    spec->ray_cluster = text_of(args, "--cluster");
    spec->by_volcano = takes(args, "--gang") && cli_has(args, "--gang");
    spec->has_page = takes(args, "--page") && cli_has(args, "--page");
    return DRV_OK;
}

static drv_status resolve(arena *a, const cli_args *args, job_spec *spec, run_config *cfg) {
    int work = WORK_TRAIN;
    spec->kind = find_kind(args);
    DRV_TRY(cli_get_choice(args, "--job", "train, compile or data", &work));
    spec->work = (job_work)work;
    DRV_TRY(read_device(a, args, spec));
    DRV_TRY(read_numbers(args, spec));
    // Ranks on Neuron need addresses and cores that mpirun and srun do not give them.
    const bool has_both = takes(args, "--policy") || takes(args, "--tasks");
    spec->is_node_launch =
            spec->kind->is_node_launch || (has_both && spec->instance->family == DEVICE_NEURON);
    DRV_TRY(read_choice(args, "--policy", "mpi or torch", &spec->is_node_launch));
    DRV_TRY(read_choice(args, "--tasks", "rank or node", &spec->is_node_launch));
    DRV_TRY(read_node_options(a, args, spec));
    spec->image = text_of(args, "--image");
    spec->queue = text_of(args, "--queue");
    spec->name_space = text_of(args, "--namespace");
    spec->claim = text_of(args, "--pvc");
    DRV_TRY(read_place(args, spec));
    DRV_TRY(read_progress(args, spec));
    DRV_TRY(read_pod_options(a, args, spec));
    spec->mount = takes(args, "--mount") ? cli_get(args, "--mount", DEFAULT_MOUNT) : NULL;
    DRV_TRY(read_subject(a, args, spec, cfg));
    spec->name = cli_get(args, "--name", default_name(a, spec));
    spec->command = command_of(a, args);
    return job_check(spec);
}

// Checks what concerns training alone. *says: what a rank needs and has.
static drv_status check_train(arena *a, const cli_args *args, run_config *cfg, const job_spec *spec,
        const char **says) {
    DRV_TRY_CTX(job_check_fit(a, cfg, spec, says), "%s", args->name);
    if (spec->instance->family == DEVICE_NEURON && !spec->is_node_launch)
        log_warn("%s: mpirun and srun give ranks on Neuron neither NEURON_RT_ROOT_COMM_ID nor cores of their own; drover launch node does (slurm --tasks node, trainjob --policy torch, pytorchjob, ray)",
                args->name);
    return DRV_OK;
}

// --- what to do next
static void print_command(const char *before, const program_words *c, const char *why) {
    str line = {0};
    shell_words(&line, c->words, c->n);
    printf("  %s%s", before, line.p);
    printf(why ? "   # %s\n" : "\n", why);
    str_free(&line);
}

static void print_secret(arena *a, const job_record *record, const char *secret, const char *made) {
    program_words create = job_kubectl(record), label = job_kubectl(record);
    const char *name = arena_printf(a, "%s-%s", record->name, secret),
               *key = strcmp(secret, "page") == 0 ? "password" : secret;
    program_add(&create, "create", "secret", "generic", name,
            arena_printf(a, "--from-file=%s=/dev/stdin", key));
    print_command(made, &create, "once");
    program_add(&label, "label", "secret", name, arena_printf(a, JOB_LABEL "=%s", record->name),
            "app.kubernetes.io/name=drover");
    print_command("", &label, NULL);
}

static void print_secrets(arena *a, const job_record *record) {
    if (record->has_secret && record->kind->is_kubernetes)
        print_secret(a, record, "secret", "head -c 32 /dev/urandom | ");
    if (job_record_has_page(record))
        print_secret(a, record, "page", "head -c 18 /dev/urandom | base64 | ");
}

// Prints how to open the page: its password, and a way to its port.
static void print_page(arena *a, const job_record *record) {
    program_words show = job_kubectl(record), forward = job_kubectl(record);
    if (!job_record_has_page(record)) return;
    program_add(&show, "get", "secret", arena_printf(a, "%s-page", record->name),
            "--output=go-template={{.data.password | base64decode}}");
    print_command("", &show, "the page's password; any name goes with it");
    program_add(&forward, "port-forward", arena_printf(a, "service/%s-page", record->name), "8080");
    print_command("", &forward, "the page, at http://127.0.0.1:8080/");
}

static void print_next(arena *a, const job_record *record, const char *dir) {
    printf("wrote");
    for (int i = 0; i < record->n_files; i++)
        printf("%s %s/%s", i ? "," : "", dir, record->files[i]);
    printf("\nnext:\n");
    print_secrets(a, record);
    const program_words test = job_submit_command(a, record, dir, true),
                        submit = job_submit_command(a, record, dir, false);
    print_command("", &test, "asks whether the scheduler would accept it");
    print_command("", &submit, NULL);
    if (!record->kind->is_kubernetes) return;
    program_words look = {0};
    program_add(&look, "drover", "launch", "status", dir);
    print_command("", &look, "or logs, stop, clean");
    print_page(a, record);
}

static drv_status submit(arena *a, const char *dir, job_record *record) {
    program_end said;
    DRV_TRY_CTX(job_submit(a, dir, record, &said), "--submit");
    if (!job_is_slurm(record)) launch_print_bytes(NULL, said.out, said.n_out);
    printf("submitted%s%s\n", *record->id ? " as job " : "", record->id);
    print_page(a, record);
    printf("next: drover launch status|logs|stop|clean %s\n", path_for_shell(a, dir));
    return DRV_OK;
}

// --- the verb
drv_status launch_job_run(arena *a, const cli_args *args) {
    run_config cfg;
    job_spec spec = {0};
    job_files files = {0};
    const char *says = NULL;
    DRV_TRY(resolve(a, args, &spec, &cfg));
    if (spec.work == WORK_TRAIN) DRV_TRY(check_train(a, args, &cfg, &spec, &says));
    if (spec.work == WORK_COMPILE) DRV_TRY_CTX(job_check_compile(&cfg, &spec), "%s", args->name);
    const bool submits = cli_has(args, "--submit");
    const char *dir =
            cli_get(args, "--out", arena_printf(a, "launch/%s-%s", spec.name, spec.kind->name));
    drv_status status = job_write(a, &spec, &files);
    job_record record = job_record_of(a, &spec, &files);
    if (status == DRV_OK && submits) {
        status = program_find(a, job_program(&record));
        if (status != DRV_OK) status = drv_context(status, "--submit");
    }
    if (status == DRV_OK) job_record_text(&record, job_files_add(&files, JOB_RECORD, false));
    if (status == DRV_OK) status = job_files_write(a, &files, dir);
    if (status == DRV_OK && says) printf("%s\n", says);
    if (status == DRV_OK && submits)
        status = submit(a, dir, &record);
    else if (status == DRV_OK)
        print_next(a, &record, dir);
    job_files_free(&files);
    return status;
}
