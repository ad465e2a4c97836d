// The only file that sees mpi.h. Built as drover_mpi.so where MPI's headers are there.
#include "comm/mpi_module.h"

#include <mpi.h>
#include <string.h>

extern const mpi_module drover_mpi;

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a handle");

static const char *problem(int code) {
    static _Thread_local char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (code == MPI_SUCCESS) return NULL;
    MPI_Error_string(code, text, &n);
    return text;
}

static const char *open_mpi(int *rank, int *size, int *max_tag) {
    int provided, found = 0;
    int *limit = NULL;
    const char *bad = problem(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided));
    if (bad) return bad;
    if (provided < MPI_THREAD_SERIALIZED) return "this MPI serves one thread of a process alone";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
    *max_tag = found ? *limit : 32767; // what the standard grants
    return NULL;
}

static const char *started(int code, MPI_Request request, uint64_t *handle) {
    *handle = 0;
    memcpy(handle, &request, sizeof request);
    return problem(code);
}

static const char *send(const void *p, int bytes, int to, int tag, uint64_t *handle) {
    MPI_Request request;
    const int code = MPI_Isend(p, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
    return started(code, request, handle);
}

static const char *receive(void *p, int bytes, int from, int tag, uint64_t *handle) {
    MPI_Request request;
    const int code = MPI_Irecv(p, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
    return started(code, request, handle);
}

static const char *test(uint64_t *handle, bool *done, int *received) {
    MPI_Request request;
    MPI_Status status;
    int flag = 0;
    memcpy(&request, handle, sizeof request);
    const int code = MPI_Test(&request, &flag, &status);
    memcpy(handle, &request, sizeof request);
    *done = flag;
    if (flag && code == MPI_SUCCESS) MPI_Get_count(&status, MPI_BYTE, received);
    return problem(code);
}

static void close_mpi(void) {
    MPI_Finalize();
}

const mpi_module drover_mpi = {.version = MPI_MODULE_VERSION,
        .open = open_mpi,
        .send = send,
        .receive = receive,
        .test = test,
        .close = close_mpi};
