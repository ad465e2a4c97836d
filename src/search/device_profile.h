// A device as one rank has it: what it can do, and how much of that training reaches. One YAML file
// a device; those that ship with the program are in search/devices.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "ir/mesh.h"
#include "search/link_time.h"

// All rates are per second and of one rank. `reached`: the share of its peak at which each kind of
// work runs.
typedef struct device_profile {
    const char *name;   // "h100", or the path of the file
    const char *source; // where the figures are from
    const char *target; // for which drover compile --target compiles; NULL: none without the device
    int64_t memory;     // bytes
    double bf16_flops;  // peak of dense products, FLOP/s
    double fp8_flops;   // 0: there are none
    double bytes_per_s; // memory
    link_speeds links;  // one way, peak
    double reached_products, reached_fp8, reached_attention, reached_memory, reached_inside,
            reached_between;
    double small_product;  // a product of M x N x K takes 1 + small (1/M + 1/N + 1/K) as long
    double launch_s;       // of each op
    double message_s;      // of each collective or message, beside its bytes
    double overlap_tensor; // share of the tensor ranks' traffic that goes beside products
    double overlap_data;   // share of a micro-batch beside which the data ranks' traffic can go
    double price_per_hour; // 0: unknown
} device_profile;

// Reads what --device names: a profile that ships with the program, a machine that drover launch
// --instance knows, or a file (a name with a '.' or a '/'), and after commas fields that replace
// its own: "h100,memory=96GB". Lives in `a`. DRV_E_USAGE: there is no such profile, with those
// there are; a field that is missing, unknown, or out of its range, with its place.
DRV_CHECKED drv_status device_profile_read(arena *a, const char *text, device_profile *out);

// Checks that hosts of so many ranks divide `ranks`. DRV_E_USAGE.
DRV_CHECKED drv_status device_profile_check_ranks(const device_profile *d, int64_t ranks);
// Makes a profile of what is known of a rank without measuring it: the shares of the peak that are
// reached are those of all devices together, and memory limits nothing.
device_profile device_profile_by_hand(const char *name, double flops, int64_t memory,
        const link_speeds *links);

// The profiles that ship with the program, by name.
int device_profile_count(void);
const char *device_profile_name(int i);
const char *device_profile_text(int i); // its YAML
