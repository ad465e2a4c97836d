// The performance of a device for one rank: its peaks, and the share of them that training reaches.
// A profile is a YAML file; the profiles that ship with the program are in search/devices.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "ir/mesh.h"
#include "search/link_time.h"

// All rates are per second and of one rank. `reached`: the share of its peak at which each kind of
// work runs.
typedef struct device_profile {
    const char *name;   // "h100", or the path of the file
    const char *source; // the origin of the figures
    const char *target; // for drover compile --target; NULL: programs can only be compiled on a
                        // machine with the device
    int64_t memory;     // bytes
    double bf16_flops;  // peak of dense products, FLOP/s
    double fp8_flops;   // 0: there are none
    double bytes_per_s; // memory
    link_speeds links;  // one way, peak
    double reached_products, reached_fp8, reached_attention, reached_memory, reached_inside,
            reached_between;
    double small_product;  // a product of M x N x K takes 1 + small_product (1/M + 1/N + 1/K) times
                           // as long
    double launch_s;       // of each op
    double message_s;      // latency of each collective or message
    double overlap_tensor; // share of the tensor ranks' traffic that overlaps with products
    double overlap_context; // share of the context ranks' traffic beside attention that costs no
                            // time; 0: measured on CPUs, which send between computing
    double overlap_data;    // share of the data ranks' traffic beside a micro-batch that costs no
                            // time; the rest slows the products down
} device_profile;

// Reads the argument of --device: the name of a profile that ships with the program, a machine type
// of drover launch --instance, or a file (a name with a '.' or a '/'), and after commas fields that
// replace its own: "h100,memory=96GB". Lives in `a`. DRV_E_USAGE: there is no such profile (the
// message lists them), or a field is missing, unknown or out of range (the message has its line).
DRV_CHECKED drv_status device_profile_read(arena *a, const char *text, device_profile *out);

// Checks that the profile's ranks per host divide `ranks`. DRV_E_USAGE: they do not.
DRV_CHECKED drv_status device_profile_check_ranks(const device_profile *d, int64_t ranks);
// Makes a profile without measurements: the shares of the peaks are the typical ones of all
// devices, and memory bandwidth is unlimited.
device_profile device_profile_by_hand(const char *name, double flops, int64_t memory,
        const link_speeds *links);

// The profiles that ship with the program, by name.
int device_profile_count(void);
const char *device_profile_name(int i);
const char *device_profile_text(int i); // its YAML
