// drover devices: lists the accelerators that PJRT plugins find here.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/plugin_report.h"

json_t *plugin_reports_json(const plugin_report *reports, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const plugin_report *r = &reports[i];
        const bool works = !r->lacks;
        char version[32];
        snprintf(version, sizeof version, "%d.%d", r->major, r->minor);
        json_t *memory = r->memory_bytes ? json_integer(r->memory_bytes) : json_null();
        json_array_append_new(list,
                json_pack("{ss ss? ss? ss? ss? ss? ss? si so}", "name", r->name, "path", r->path,
                        "lacks", r->lacks, "pjrt", works ? version : NULL, "stablehlo",
                        works ? r->stablehlo : NULL, "platform", works ? r->platform : NULL, "kind",
                        works ? r->kind : NULL, "devices", r->n_devices, "memory_bytes", memory));
    }
    return list;
}

const char *plugin_report_text(arena *a, const plugin_report *report) {
    if (report->lacks) return report->lacks;
    return arena_printf(a, "%d x %s (%s)%s%s; PJRT %d.%d, StableHLO %s", report->n_devices,
            report->kind, report->platform, report->memory_bytes ? ", " : "",
            report->memory_bytes ? str_bytes((double)report->memory_bytes) : "", report->major,
            report->minor, report->stablehlo);
}

static void print_json(const plugin_report *reports, int n) {
    json_t *list = plugin_reports_json(reports, n);
    char *text = json_dumps(list, JSON_INDENT(2));
    puts(text);
    free(text);
    json_decref(list);
}

static drv_status run(arena *a, const cli_args *args) {
    plugin_report reports[MAX_PLUGINS];
    const char *wanted = args->n_positional ? args->positional[0] : NULL;
    int works = 0;
    fflush(stdout); // so that two processes do not print the same bytes
    const int n = plugins_look(a, wanted, reports);
    for (int i = 0; i < n; i++)
        works += !reports[i].lacks;
    if (cli_has(args, "--json"))
        print_json(reports, n);
    else
        for (int i = 0; i < n; i++) {
            printf("%-8s%s\n", reports[i].name, plugin_report_text(a, &reports[i]));
            if (!reports[i].lacks) printf("%-8s%s\n", "", reports[i].path);
        }
    if (wanted && works == 0) return drv_fail(DRV_E_DEVICE, "%s", reports[0].lacks);
    return DRV_OK;
}

static const cli_option options[] = {CLI_JSON};
const verb verb_devices = {
        .name = "devices",
        .summary = "list the accelerators that drover can use",
        .usage = "[PLUGIN] [--json]",
        .help = "Looks for PJRT plugins, opens each in a process of its own and prints its devices, their\n"
                "memory and its versions, or what it lacks. PLUGIN: one of cuda, rocm, tpu, neuron, cpu,\n"
                "or the path of a plugin's file; exit status 1 when that cannot be used.\n"
                "\n"
                "Plugins lie in $DROVER_PJRT_DIR/NAME/*.so (default: ~/.cache/drover/pjrt);\n"
                "tools/fetch_pjrt.py gets those for the CPU and for NVIDIA GPUs.\n"
                "\n"
                "A run computes on one with   drover train RUN.yaml --set backend=pjrt --set pjrt.plugin=cuda",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .max_positional = 1,
        .run = run,
};
