// Makes the secrets that open the page of a run, and writes them to a file that only the owner of
// the run may read.
#pragma once
#include "base/status.h"
#include "watch/server/page_request.h"

// Draws 128 random bits from the system, as hexadecimal digits. DRV_E_IO: it has none.
DRV_CHECKED drv_status page_secret_make(char out[SECRET_BYTES]);

// Writes RUN_DIR/http.json: the address, the token, and an address that a browser can open once.
// Only its owner may read the file. DRV_E_IO, DRV_E_FULL.
DRV_CHECKED drv_status page_secrets_write(const char *run_dir, const char *address,
        const page_keys *keys);
void page_secrets_remove(const char *run_dir);

// Reads a token of at least `least` characters, without surrounding white space. `what` names it in
// messages: "token", "password". DRV_E_IO: the file cannot be read. DRV_E_DATA: it holds no such
// token.
DRV_CHECKED drv_status page_token_read(const char *path, const char *what, int least,
        char out[TOKEN_MAX]);
