// drover launch stop and clean: a job ends with a save; what it made is removed, after a list.
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/launch_ask.h"
#include "launch/jobs/job_commands.h"
#include "launch/jobs/shell_words.h"

// A save is waited for a minute longer than it may take; the scheduler is asked every two seconds.
enum { MORE_S = 60, FIRST_TURN_MS = 200, TURN_MS = 2000 };

static const char *line_of(arena *a, const program_words *words) {
    str line = {0};
    shell_words(&line, words->words, words->n);
    return str_keep(a, &line);
}

static drv_status call(arena *a, const asked_job *job, program_words words) {
    program_end end;
    return launch_call(a, job, &words, &end);
}

static bool is_over(const asked_job *job) {
    return job->state.phase != JOB_QUEUED && job->state.phase != JOB_RUNNING && job->n_pods == 0;
}

// --- stop
static const char *number(const asked_job *job) {
    return *job->state.id ? job->state.id : job->record.id;
}

// A job that does not run has nothing to save; one of Kubernetes saves when its pods are deleted.
static drv_status ask_to_end(arena *a, const asked_job *job) {
    if (job_is_slurm(&job->record) && job->state.phase == JOB_RUNNING)
        return call(a, job, job_save_command(number(job)));
    return call(a, job, job_end_command(&job->record, number(job)));
}

// Until it has ended. A job of Slurm that is queued again by then is taken out of the queue.
static drv_status wait_for_end(arena *a, asked_job *job, double wait_s) {
    const double until = clock_s() + wait_s;
    for (int turn_ms = FIRST_TURN_MS; clock_s() < until; turn_ms = TURN_MS) {
        usleep((useconds_t)turn_ms * 1000);
        DRV_TRY(launch_ask(a, job));
        if (is_over(job)) return DRV_OK;
        if (job_is_slurm(&job->record) && job->state.phase == JOB_QUEUED)
            DRV_TRY(call(a, job, job_end_command(&job->record, number(job))));
    }
    const program_words words = job_end_command(&job->record, number(job));
    return drv_fail(DRV_E_BUSY, "\"%s\" has been asked to save, and still runs after %g s%s%s",
            job->record.name, wait_s, job_is_slurm(&job->record) ? "; without a save: " : "",
            job_is_slurm(&job->record) ? line_of(a, &words) : "");
}

static drv_status stop(arena *a, const cli_args *args, asked_job *job) {
    double wait_s = job->record.grace_s + MORE_S;
    DRV_TRY(cli_get_f64(args, "--wait", 1, 1e6, &wait_s));
    DRV_TRY(launch_ask(a, job));
    if (is_over(job)) {
        printf("%s: %s; there is nothing to stop\n", job->record.name,
                job_phase_name(job->state.phase));
        return DRV_OK;
    }
    const bool saves = job->state.phase == JOB_RUNNING;
    if (saves) log_info("%s: asking for a save, and waiting for %g s", job->record.name, wait_s);
    DRV_TRY(ask_to_end(a, job));
    DRV_TRY(wait_for_end(a, job, wait_s));
    launch_read_run(a, job);
    printf("%s: ended\n", job->record.name);
    if (job->run_dir) printf("  run        %s\n", launch_run_words(a, job));
    return DRV_OK;
}

drv_status launch_run_stop(arena *a, const cli_args *args) {
    asked_job job;
    DRV_TRY(launch_open_job(a, args, &job));
    if (!job.is_known)
        return drv_fail(DRV_E_USAGE,
                "%s: drover has not submitted \"%s\" (--submit), so its number is not known; scancel --signal=USR1 NUMBER asks for a save",
                args->name, job.dir);
    DRV_TRY_CTX(stop(a, args, &job), "%s", args->name);
    return DRV_OK;
}

// --- clean
typedef struct removal {
    const char *objects[MAX_JOB_OBJECTS], **files;
    int n_objects, n_files;
} removal;

// Finds the objects of a job that are there and have its label.
static drv_status find_objects(arena *a, const asked_job *job, removal *out) {
    program_end end;
    int n;
    const char *const *ours = job_objects(a, &job->record, &n);
    const program_words words = job_objects_command(a, &job->record);
    if (!job->record.kind->is_kubernetes) return DRV_OK;
    DRV_TRY(launch_call(a, job, &words, &end));
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(ours[i]);
        for (const char *line = end.out; *line;) {
            const size_t here = strcspn(line, "\n");
            if (here == length && strncmp(line, ours[i], length) == 0) {
                out->objects[out->n_objects++] = ours[i];
                break;
            }
            line += here + (line[here] == '\n');
        }
    }
    return DRV_OK;
}

static void add_file(removal *out, const char *path) {
    if (file_exists(path)) out->files[out->n_files++] = path;
}

// Finds what the scheduler wrote beside the job, and the folder of the job itself, file by file.
static void find_files(arena *a, const asked_job *job, removal *out) {
    const job_record *r = &job->record;
    out->files = ARENA_ARRAY(a, const char *, r->n_files + 4);
    if (job_is_slurm(r) && *r->id) {
        add_file(out, path_join(a, r->folder, arena_printf(a, "%s-%s.log", r->name, r->id)));
        add_file(out, path_join(a, r->folder, arena_printf(a, ".%s.tries", r->name)));
    }
    for (int i = 0; i < r->n_files; i++)
        add_file(out, path_join(a, job->dir, r->files[i]));
    add_file(out, path_join(a, job->dir, JOB_RECORD)); // last: until then it can be called again
}

static drv_status confirm(const cli_args *args, const removal *list) {
    char answer[16];
    printf("to be removed:\n");
    for (int i = 0; i < list->n_objects; i++)
        printf("  %s\n", list->objects[i]);
    for (int i = 0; i < list->n_files; i++)
        printf("  %s\n", list->files[i]);
    if (cli_has(args, "--yes")) return DRV_OK;
    printf("remove them? [y/N] ");
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y')) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "nothing was removed; expected y, or --yes");
}

static drv_status clean(arena *a, const cli_args *args, asked_job *job) {
    removal list = {0};
    DRV_TRY(launch_ask(a, job));
    if (!is_over(job))
        return drv_fail(DRV_E_USAGE, "\"%s\" is %s; expected drover launch stop %s before",
                job->record.name,
                job_phase_name(job->state.phase == JOB_QUEUED ? JOB_QUEUED : JOB_RUNNING),
                path_for_shell(a, job->dir));
    DRV_TRY(find_objects(a, job, &list));
    find_files(a, job, &list);
    DRV_TRY(confirm(args, &list));
    for (int i = 0; i < list.n_objects; i++)
        DRV_TRY(call(a, job, job_remove_command(&job->record, list.objects[i])));
    for (int i = 0; i < list.n_files; i++)
        if (unlink(list.files[i]) != 0) return file_fail("remove", list.files[i]);
    if (rmdir(job->dir) != 0)
        log_info("%s: \"%s\" has other files, and is not removed", args->name, job->dir);
    return DRV_OK;
}

drv_status launch_run_clean(arena *a, const cli_args *args) {
    asked_job job;
    DRV_TRY(launch_open_job(a, args, &job));
    DRV_TRY_CTX(clean(a, args, &job), "%s", args->name);
    return DRV_OK;
}
