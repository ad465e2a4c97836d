// page.yaml: a Deployment that serves the page of the run from its files, and a Service. Their
// password is in a Secret that --submit or a person makes. They outlive the job; `drover launch
// clean` removes them.
#include "launch/jobs/pod.h"

enum { PAGE_PORT = 8080, UNHEALTHY_S = 90 };

#define SELECTOR "{app.kubernetes.io/name: " PAGE_NAME ", " JOB_LABEL ": \"%s\"}"

static void put_deployment(yaml_writer *w, arena *a, const job_spec *spec, const char *name) {
    const char *const command[] = {"drover", "page", spec->run_dir, "--listen",
            arena_printf(a, "0.0.0.0:%d", PAGE_PORT), "--password-file", PAGE_DIR "/password"};
    const pod page = {.container = "page",
            .command = command,
            .n_command = sizeof command / sizeof *command,
            .health_port = PAGE_PORT,
            .unhealthy_s = UNHEALTHY_S,
            .is_page = true,
            .restart = "Always"};
    manifest_begin(w, spec, "apps/v1", "Deployment", name, false);
    yaml_map(w, "spec");
    yaml_put(w, "replicas: 1\nselector: {matchLabels: " SELECTOR "}", spec->name);
    yaml_map(w, "template");
    pod_template(w, a, spec, &page);
}

static void put_service(yaml_writer *w, const job_spec *spec, const char *name) {
    manifest_begin(w, spec, "v1", "Service", name, false);
    yaml_put(w, "spec: {selector: " SELECTOR ", ports: [{name: http, port: %d, targetPort: http}]}",
            spec->name, PAGE_PORT);
}

void page_write(arena *a, const job_spec *spec, job_files *files) {
    const char *name = arena_printf(a, "%s-page", spec->name);
    yaml_writer *w = manifest_open(spec, job_files_add(files, PAGE_FILE, false));
    put_deployment(w, a, spec, name);
    put_service(w, spec, name);
    yaml_writer_close(w);
}
