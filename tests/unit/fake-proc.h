/* SPDX-License-Identifier: Apache-2.0
 *
 * A /proc of files in a temporary directory, for tests. What fails ends the test.
 */
#ifndef VG_TESTS_FAKE_PROC_H
#define VG_TESTS_FAKE_PROC_H

#include <stddef.h>
#include <stdint.h>

struct fake_task {
    int pid;
    int tid;
    const char *comm;
    char state; /* 0: S */
    int parent; /* 0: 1 */
    uint64_t start;
    uint64_t run_ns;
    uint64_t wait_ns;
    uint64_t timeslices;
    uint64_t ticks;       /* utime */
    uint64_t child_ticks; /* cutime */
    uint64_t guest_ticks;
    uint64_t voluntary;
    uint64_t nonvoluntary;
    int cpu;
};

/* A new, empty one; its path. */
char *fake_proc_new(void);

/* Fixture of a cmocka test: *state is the path of a new, empty one, removed after the test. */
int fake_proc_setup(void **state);
int fake_proc_teardown(void **state);
#define FAKE_PROC_TEST(test)                                                                       \
 cmocka_unit_test_setup_teardown(test, fake_proc_setup, fake_proc_teardown)

/* Removes a file or a directory with all that is in it. */
void fake_proc_remove(const char *path);

/* A process: its command line (size bytes, NULs between the words), and its main thread. */
void fake_proc_process(const char *proc, int pid, const char *comm, uint64_t start, int threads,
                       const char *cmdline, size_t size);

/* A process with one thread that another one started. */
void fake_proc_child(const char *proc, int pid, int parent, const char *comm, uint64_t start);

/* Writes the files of a thread, anew or in place. */
void fake_proc_task(const char *proc, const struct fake_task *task);

void fake_proc_write(const char *path, const char *text, size_t size);

#endif
