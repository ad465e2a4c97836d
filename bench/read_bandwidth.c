// Bytes per second that this machine's cores read from memory: 1 GiB summed by all threads, each
// its own stretch of it, on huge pages as the weights of a model are. Prints the median of the
// passes. usage: cc -O3 -march=native -fopenmp read_bandwidth.c -o /tmp/read_bandwidth
//        OMP_NUM_THREADS=2 /tmp/read_bandwidth [PASSES (15)]
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int by_size(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    enum { MOST = 1000 };
    const size_t n_words = (size_t)1 << 27, bytes = n_words * sizeof(uint64_t);
    const int asked = argc > 1 ? atoi(argv[1]) : 15, passes = asked < 1      ? 1
                                                              : asked < MOST ? asked
                                                                             : MOST;
    uint64_t *words = aligned_alloc(1 << 21, bytes), sink = 0;
    double rate[MOST];
    if (!words) return 1;
    madvise(words, bytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n_words; i++)
        words[i] = i;
    for (int pass = 0; pass < passes; pass++) {
        uint64_t sum = 0;
        const double begin = omp_get_wtime();
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (size_t i = 0; i < n_words; i++)
            sum += words[i];
        rate[pass] = (double)bytes / (omp_get_wtime() - begin) / 1e9;
        sink ^= sum;
    }
    qsort(rate, (size_t)passes, sizeof *rate, by_size);
    printf("%.2f GB/s read, median of %d passes from %.2f to %.2f (checksum %llu)\n",
            rate[passes / 2], passes, rate[0], rate[passes - 1], (unsigned long long)sink);
    return 0;
}
