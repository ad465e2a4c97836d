// Any bytes as launch.json: refused by one line, or a record that is written back to the same text.
// Legend: a arena, n bytes.
#include "fuzz.h"

#include "launch/jobs/job_names.h"
#include "launch/jobs/job_record.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    job_record read, again;
    const drv_status status =
            job_record_parse(a, "launch.json", (const char *)bytes, n_bytes, &read);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_USAGE, "status %d", status);
    if (status != DRV_OK) DRV_ASSERT(*drv_message() && !strchr(drv_message(), '\n'), "no line");
    if (status == DRV_OK) {
        str text = {0}, twice = {0};
        job_record_text(&read, &text);
        DRV_ASSERT(job_record_parse(a, "again", text.p, text.n, &again) == DRV_OK, "%s",
                drv_message());
        job_record_text(&again, &twice);
        DRV_ASSERT(str_is(&twice, text.p), "another text");
        DRV_ASSERT(name_is_dns_label(read.name, 63) && read.nodes > 0 && read.n_files > 0 &&
                           !strchr(read.files[0], '/') && *read.files[0] != '.',
                "a record that is none");
        str_free(&text);
        str_free(&twice);
    }
}
