// Bytes per second that this machine's cores read from memory: 1 GiB summed by all threads, the
// best of ten passes. usage: cc -O3 -march=native -fopenmp read_bandwidth.c -o /tmp/read_bandwidth
// && /tmp/read_bandwidth
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    const size_t n = (size_t)1 << 27;
    uint64_t *words = aligned_alloc(1 << 21, n * sizeof *words), sink = 0;
    if (!words) return 1;
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        words[i] = i;
    double best = 1e9;
    for (int pass = 0; pass < 10; pass++) {
        const double begin = omp_get_wtime();
        uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (size_t i = 0; i < n; i++)
            sum += words[i];
        const double seconds = omp_get_wtime() - begin;
        sink ^= sum;
        if (seconds < best) best = seconds;
    }
    printf("%.2f GB/s read (checksum %llu)\n", (double)(n * sizeof *words) / best / 1e9,
            (unsigned long long)sink);
    return 0;
}
