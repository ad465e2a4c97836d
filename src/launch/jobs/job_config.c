// Derives settings of a job from the config of its run and from the journal of earlier attempts.
#include "launch/jobs/job_config.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/host_port.h"
#include "base/log.h"
#include "watch/files/run_events.h"

// Sets the grace to twice the longest save of the run and a minute for the ranks to notice, so that
// a slower file system or a larger neighbour does not cost a save.
static drv_status set_grace(job_spec *spec) {
    enum { NOTICE_S = 60 };
    run_event_list list;
    double longest = 0;
    DRV_TRY(run_events_read(spec->run_dir, &list));
    for (int64_t i = 0; i < list.n; i++) {
        const double seconds = run_event_f64(&list.events[i], "seconds");
        if (list.events[i].kind == EVENT_SAVE && seconds > longest) longest = seconds;
    }
    run_events_free(&list);
    if (longest <= 0) return DRV_OK;
    const double grace = ceil(2 * longest) + NOTICE_S;
    spec->grace_s = grace < MAX_GRACE_S ? (int)grace : MAX_GRACE_S;
    log_info("--grace %d: twice the longest save of \"%s\", %.1f s, and a minute", spec->grace_s,
            spec->run_dir, longest);
    return DRV_OK;
}

// A home in a container is gone with it: compiled programs are kept on the volume, beside the runs.
static void keep_programs(arena *a, job_spec *spec) {
    const char **sets = ARENA_ARRAY(a, const char *, spec->n_sets + 1);
    const char *slash = strrchr(spec->run_dir, '/');
    const int n = slash ? (int)(slash + 1 - spec->run_dir) : 0;
    if (spec->n_sets) memcpy(sets, spec->sets, sizeof *sets * (size_t)spec->n_sets);
    sets[spec->n_sets++] = arena_printf(a, "pjrt.cache=%.*scompiled", n, spec->run_dir);
    spec->sets = sets;
}

// Returns the port of training.http where a probe of Kubernetes reaches it, which is not by a
// loopback; 0: it is none, or any.
static int health_port(const run_config *cfg) {
    host_port where;
    const char *http = config_http(cfg);
    if (!http || !host_port_parse(http, &where) || where.port <= 0 || !*where.host) return 0;
    if (str_starts(where.host, "127.") || strcmp(where.host, "localhost") == 0 ||
            strcmp(where.host, "::1") == 0)
        return 0;
    return where.port;
}

drv_status job_read_config(arena *a, bool grace_by_saves, job_spec *spec, run_config *cfg) {
    size_t n_bytes;
    char *text;
    DRV_TRY(config_load(a, spec->config, spec->sets, spec->n_sets, cfg));
    DRV_TRY(file_read(a, spec->config, &text, &n_bytes));
    spec->config_text = text;
    spec->run_dir = cfg->run_dir;
    spec->health_port = health_port(cfg);
    if (spec->mount && config_backend(cfg)->has_devices && !*cfg->pjrt.cache)
        keep_programs(a, spec);
    return grace_by_saves ? set_grace(spec) : DRV_OK;
}
