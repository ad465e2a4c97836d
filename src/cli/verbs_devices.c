// drover devices: lists the accelerators that PJRT plugins find here.
#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/plugin_report.h"
#include "search/device_profile.h"

json_t *plugin_reports_json(const plugin_report *reports, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const plugin_report *r = &reports[i];
        const bool works = !r->lacks;
        char version[32];
        snprintf(version, sizeof version, "%d.%d", r->major, r->minor);
        json_t *memory = r->memory_bytes ? json_integer(r->memory_bytes) : json_null();
        json_array_append_new(list,
                json_pack("{so so so ss? ss? ss? ss? si so}", "name", json_of_text(r->name), "path",
                        json_of_text(r->path), "lacks", json_of_text(r->lacks), "pjrt",
                        works ? version : NULL, "stablehlo", works ? r->stablehlo : NULL,
                        "platform", works ? r->platform : NULL, "kind", works ? r->kind : NULL,
                        "devices", r->n_devices, "memory_bytes", memory));
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

static drv_status print_profiles(arena *a, bool as_json) {
    json_t *list = json_array();
    if (!as_json)
        printf("%-12s %9s %9s %11s %9s %15s %9s  %s\n", "profile", "bf16", "fp8", "memory",
                "memory", "links in a host", "between", "source");
    for (int i = 0; i < device_profile_count(); i++) {
        device_profile d;
        DRV_TRY(device_profile_read(a, device_profile_name(i), &d));
        json_array_append_new(list,
                json_pack("{ss sf sf sI sf sf sf sI ss}", "name", d.name, "bf16_flops",
                        d.bf16_flops, "fp8_flops", d.fp8_flops, "memory_bytes",
                        (json_int_t)d.memory, "memory_bytes_per_s", d.bytes_per_s,
                        "link_inside_bytes_per_s", d.links.inside, "link_between_bytes_per_s",
                        d.links.between, "ranks_per_host", (json_int_t)d.links.ranks_per_host,
                        "source", d.source));
        if (as_json) continue;
        printf("%-12s %4.0f TF/s", d.name, d.bf16_flops / 1e12);
        printf(d.fp8_flops > 0 ? " %4.0f TF/s" : "         -", d.fp8_flops / 1e12);
        printf(" %11s %4.0f GB/s %4lld x %3.0f GB/s %4.3g GB/s  %s\n", str_bytes((double)d.memory),
                d.bytes_per_s / 1e9, (long long)d.links.ranks_per_host, d.links.inside / 1e9,
                d.links.between / 1e9, d.source);
    }
    if (as_json)
        cli_puts_json(list, json_dumps(list, JSON_INDENT(2)));
    else
        json_decref(list);
    return DRV_OK;
}

static drv_status run(arena *a, const cli_args *args) {
    if (cli_has(args, "--profiles")) return print_profiles(a, cli_has(args, "--json"));
    plugin_report reports[MAX_PLUGINS];
    const char *wanted = args->n_positional ? args->positional[0] : NULL;
    int works = 0;
    fflush(stdout); // so that two processes do not print the same bytes
    const int n = plugins_look(a, wanted, reports);
    for (int i = 0; i < n; i++)
        works += !reports[i].lacks;
    json_t *list = cli_has(args, "--json") ? plugin_reports_json(reports, n) : NULL;
    if (list) cli_puts_json(list, json_dumps(list, JSON_INDENT(2)));
    for (int i = 0; i < n && !list; i++) {
        printf("%-7s %s\n", reports[i].name, plugin_report_text(a, &reports[i]));
        if (!reports[i].lacks) printf("%-7s %s\n", "", reports[i].path);
    }
    if (wanted && works == 0) return drv_fail(DRV_E_DEVICE, "%s", reports[0].lacks);
    return DRV_OK;
}

static const cli_option options[] = {
        CLI_JSON,
        {"--profiles", NULL, "list the devices that drover plan --device knows by name"},
};
const verb verb_devices = {
        .name = "devices",
        .summary = "list the accelerators that drover can use",
        .usage = "[PLUGIN] [--json]\n--profiles [--json]",
        .help = "Looks for PJRT plugins, opens each in a process of its own and prints its devices, their memory\n"
                "and its versions, or what it lacks. PLUGIN is cuda, rocm, tpu, neuron, cpu or the path of a\n"
                "plugin's file; the exit status is 1 if that plugin cannot be used.\n"
                "\n"
                "Plugins are searched in $DROVER_PJRT_DIR/NAME/*.so (default: ~/.cache/drover/pjrt);\n"
                "tools/fetch_pjrt.py gets those for the CPU and for NVIDIA GPUs.\n"
                "\n"
                "--profiles lists devices whose figures are known; they need not be present, since drover plan\n"
                "--device NAME predicts a run on them. Your own profile is a YAML file with the same fields.\n"
                "\n"
                "Example: drover train run.yaml --set backend=pjrt --set pjrt.plugin=cuda",
        CLI_OPTIONS(options),
        .max_positional = 1,
        .run = run,
};
