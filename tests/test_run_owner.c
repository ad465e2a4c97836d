// Who holds a run directory: locks, file systems that have none, heartbeats that stand still, and
// directories that are moved, replaced or taken over.
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "watch/files/run_owner.h"

static int refused_with; // errno of flock; 0: it works

// In the place of the C library's.
int flock(int fd, int operation) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)operation;
    if (refused_with) {
        errno = refused_with;
        return -1;
    }
    // Locks of an open file, as flock's are.
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return 0;
    if (errno == EAGAIN || errno == EACCES) errno = EWOULDBLOCK;
    return -1;
}

static atomic_int beats; // that were written, whichever file they went to

// In the place of the C library's.
int fdatasync(int fd) {
    beats++;
    return (int)syscall(SYS_fdatasync, fd);
}

static void wait_for_beats(int n) {
    const double until = clock_s() + 60;
    for (n += beats; beats < n; usleep(1000))
        if (clock_s() > until) fail_msg("no heartbeat in a minute");
}

// Limits that a loaded machine does not reach where they are not what is tested.
static const run_owner_opts quick = {.beat_s = 0.05, .watch_s = 60, .settle_s = 0.01},
                            impatient = {.beat_s = 0.05, .watch_s = 0.3, .settle_s = 0.01};

static const char *run_folder(arena *a) {
    const char *dir = path_join(a, temporary_dir(a), "run");
    OK(dir_make(dir));
    return dir;
}

static char *owner_bytes(arena *a, const char *dir) {
    char *text;
    OK(file_read(a, path_join(a, dir, "owner.json"), &text, NULL));
    return text;
}

// An owner.json of another machine, whose clock is an hour ahead.
static void put_stranger(arena *a, const char *dir) {
    const char *text = arena_printf(a,
            "{\"job\": \"17\", \"attempt\": 2, \"host\": \"n9\", \"pid\": 4711, \"boot\": \"other\", "
            "\"since\": 1763938042.5, \"token\": \"00112233445566778899aabbccddeeff\", "
            "\"heartbeat\": %.3f}\n",
            clock_utc_s() + 3600);
    OK(file_write_atomic(path_join(a, dir, "owner.json"), text, strlen(text)));
}

TEST(locked_directory_names_its_owner) {
    const char *dir = run_folder(a);
    run_owner *first, *second;
    char pid[64];
    setenv("SLURM_JOB_ID", "1234", 1);
    OK(run_owner_take(a, dir, &quick, &first));
    OK(run_owner_check(first));
    snprintf(pid, sizeof pid, "process %d, job 1234, since 20", (int)getpid());
    FAILS(run_owner_take(a, dir, &quick, &second), DRV_E_BUSY, pid);
    OK(run_owner_check(first)); // the one that was refused changes nothing
    run_owner_release(first);
    assert_false(file_exists(path_join(a, dir, "owner.json")));
    OK(run_owner_take(a, dir, &quick, &second));
    run_owner_release(second);
    unsetenv("SLURM_JOB_ID");
}

TEST(without_locks_a_heartbeat_keeps_others_away) {
    static const int refusals[] = {ENOSYS, ENOTSUP, ENOLCK};
    for (size_t i = 0; i < 3; i++) {
        const char *dir = run_folder(a);
        run_owner *first, *second;
        refused_with = refusals[i];
        OK(run_owner_take(a, dir, &quick, &first));
        FAILS(run_owner_take(a, dir, &quick, &second), DRV_E_BUSY,
                "is in use by another drover (host");
        run_owner_release(first);
        OK(run_owner_take(a, dir, &quick, &second));
        run_owner_release(second);
        refused_with = 0;
    }
}

TEST(other_errors_of_locks_are_told) {
    run_owner *owner;
    refused_with = EIO;
    FAILS(run_owner_take(a, run_folder(a), &quick, &owner), DRV_E_IO, "Input/output error");
    refused_with = 0;
}

// Its heartbeat stands still, so it is gone; that its clock is ahead makes it no younger.
TEST(stale_owner_is_taken_over) {
    static const int refusals[] = {0, ENOSYS};
    for (size_t i = 0; i < 2; i++) {
        const char *dir = run_folder(a);
        run_owner *owner;
        refused_with = refusals[i];
        put_stranger(a, dir);
        OK(run_owner_take(a, dir, &impatient, &owner));
        assert_null(strstr(owner_bytes(a, dir), "n9"));
        OK(run_owner_check(owner));
        run_owner_release(owner);
        refused_with = 0;
    }
}

TEST(heart_beats) {
    const char *dir = run_folder(a);
    run_owner *owner;
    OK(run_owner_take(a, dir, &quick, &owner));
    const char *first = owner_bytes(a, dir);
    wait_for_beats(2);
    const char *later = owner_bytes(a, dir);
    assert_string_not_equal(first, later);
    assert_int_equal(strlen(first), strlen(later));
    run_owner_release(owner);
}

TEST(lost_directory_is_noticed) {
    const char *dir = run_folder(a), *moved = arena_printf(a, "%s.moved", dir);
    run_owner *owner, *other;
    OK(run_owner_take(a, dir, &quick, &owner));
    OK(dir_remove(dir));
    FAILS(run_owner_check(owner), DRV_E_IO, "was moved or removed while the run went on");
    OK(dir_make(dir));
    OK(run_owner_take(a, dir, &quick, &other)); // another run begins there
    FAILS(run_owner_check(owner), DRV_E_IO, "and another is in its place");
    run_owner_release(owner); // leaves what is the other's
    OK(run_owner_check(other));
    assert_true(file_exists(path_join(a, dir, "owner.json")));
    assert_int_equal(rename(dir, moved), 0);
    FAILS(run_owner_check(other), DRV_E_IO, "was moved or removed");
    assert_false(run_owner_is_taken(other)); // the directory is still its own
    assert_int_equal(rename(moved, dir), 0); // back again
    OK(run_owner_check(other));
    run_owner_release(other);
}

#define START(n)                                                                                   \
    "{\"time\":" n ",\"mono\":" n ",\"attempt\":" n ",\"event\":\"start\",\"version\":\"0\","      \
    "\"ranks\":1,\"nodes\":1,\"host\":\"h\",\"pid\":1,\"job\":\"\",\"restarts\":null,\"steps\":9," \
    "\"backend\":\"cpu\"}\n"
static const char starts[] = START("1") START("2");

TEST(stolen_directory_is_noticed) {
    const char *dir = run_folder(a), *path = path_join(a, dir, "owner.json");
    run_owner *owner;
    OK(run_owner_take(a, dir, &quick, &owner));
    OK(dir_remove(path)); // by nobody who wants it
    OK(run_owner_check(owner));
    assert_true(file_exists(path));
    OK(file_write_atomic(path, "{\"tok", 5));
    OK(run_owner_check(owner));
    assert_false(run_owner_is_taken(owner));
    put_stranger(a, dir);
    assert_true(run_owner_is_taken(owner));
    FAILS(run_owner_check(owner), DRV_E_IO,
            "was taken over by another drover (host n9, process 4711, job 17, since 2025-11-23");
    char *stranger, *later;
    size_t n, n_later; // bytes that are added behind its end would not show in the text
    OK(file_read(a, path, &stranger, &n));
    wait_for_beats(2); // those of the one before go nowhere
    run_owner_release(owner);
    OK(file_read(a, path, &later, &n_later));
    assert_int_equal(n, n_later);
    assert_string_equal(stranger, later);
}

TEST(attempt_that_has_come_and_gone_is_noticed) {
    const char *dir = run_folder(a);
    run_owner *owner;
    OK(run_owner_take(a, dir, &quick, &owner));
    OK(dir_remove(path_join(a, dir, "owner.json")));
    assert_false(run_owner_is_taken(owner));
    OK(file_write_atomic(path_join(a, dir, "events.jsonl"), starts, strlen(starts)));
    assert_true(run_owner_is_taken(owner));
    FAILS(run_owner_check(owner), DRV_E_IO, "another drover has been in the run directory");
    run_owner_release(owner);
}
