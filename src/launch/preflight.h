// Judges nodes from what each has measured of itself and of its links: finds outliers, and excludes
// some from the job. src/measure/node_check.h measures; nothing here does.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

typedef enum node_figure {
    NODE_GEMM,       // FLOP/s
    NODE_MEMORY,     // bytes/s, copied
    NODE_DISK_WRITE, // bytes/s written to the run directory, with the fsync
    NODE_DISK_READ,  // bytes/s read from it
    NODE_FREE,       // bytes of memory that a process can still allocate
    NODE_BANDWIDTH,  // bytes/s, of its best link
    NODE_LATENCY,    // seconds, of its best link
    N_NODE_FIGURES
} node_figure;
const char *node_figure_text(node_figure figure, double value); // "123.4 GFLOP/s"

enum { NODE_HOST = 64, NODE_VERSION = 48 };

// The result of one node's check. Plain bytes: it is sent between ranks as it is.
typedef struct node_result {
    char host[NODE_HOST], version[NODE_VERSION];
    double value[N_NODE_FIGURES]; // NaN: not measured
    double fsync_s;               // of the written file; NaN: not measured
    double clock_s;               // its clock less node 0's
    int32_t sees_lock; // it finds node 0's lock in the run directory held: 1, 0; -1: no locks there
    int32_t sees_rename;    // it sees a file that node 0 renames there, within seconds
    int32_t sees_directory; // it can write there
} node_result;

// A node below this share of the median (for latency: above its inverse) is an outlier.
#define PREFLIGHT_SHARE     0.8
// Clocks that differ by more are reported; latencies must differ by at least this much, below which
// it is the system's noise.
#define PREFLIGHT_CLOCK_S   1.0
#define PREFLIGHT_LATENCY_S 20e-6

typedef struct preflight {
    int n_nodes;
    double median[N_NODE_FIGURES]; // NaN: not measured
    const char **said;             // [n_nodes], why a node is an outlier; "": it is not
    double *worst; // [n_nodes], its lowest share of a median; 0: it cannot be used at all
    int n_named;
} preflight;

// Judges the results of nodes 0 to n - 1. The result lives in `a`.
void preflight_judge(arena *a, const node_result *results, int n_nodes, preflight *out);
// Returns the verdict as a status. DRV_E_USAGE: nodes have different versions of drover.
// DRV_E_DEVICE: nodes stand out; the message has the first of them.
drv_status preflight_verdict(const preflight *judged, const node_result *results);
// Reads what `drover doctor --node --json` prints. DRV_E_DATA names the key that is wrong. Results
// live in `a`.
DRV_CHECKED drv_status preflight_read(arena *a, const char *path, const char *text, size_t n,
        node_result **results, int *n_nodes);
// Returns the object that is printed there; the caller owns it.
json_t *preflight_json(const preflight *judged, const node_result *results);
