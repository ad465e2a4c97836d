// A file of the compile cache: a compiled program, its description, and a hash of both. The hash is
// needed because a plugin may accept a damaged program and crash or compute wrong numbers.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/program_facts.h"
#include "base/status.h"

enum { ABOUT_TEXT = 64 };
typedef struct program_about {  // texts end with a NUL
    uint64_t key[2];            // hash of everything that the program depends on, the file's name
    char program[ABOUT_TEXT];   // "whole_step"
    char plugin[ABOUT_TEXT];    // "cuda", or the name of a file
    char kind[ABOUT_TEXT];      // of the devices: "NVIDIA H200"
    char interface[ABOUT_TEXT]; // "PJRT 0.116"
    char drover[ABOUT_TEXT];    // version of drover that wrote it
    int64_t n_devices;
    double compile_s;
    program_facts facts;
    int64_t has_facts; // 1: they were read
} program_about;

// Sets `out` to the XXH3 hash of 128 bits of the bytes.
void program_hash(const void *bytes, size_t n, uint64_t out[2]);

// Copies text, truncated to the size of `to`.
void program_about_set(char to[ABOUT_TEXT], const char *text);

// Checks the bytes of a file and finds the program in them: *payload points into `bytes`.
// DRV_E_DATA: they are damaged.
DRV_CHECKED drv_status program_file_check(const unsigned char *bytes, size_t n,
        program_about *about, const unsigned char **payload, size_t *n_payload);

// Writes a file atomically. Several processes, also on several machines, may write the same file:
// each writes a temporary file and renames it. Open files of readers are not affected.
DRV_CHECKED drv_status program_file_write(const char *path, const program_about *about,
        const void *payload, size_t n);
