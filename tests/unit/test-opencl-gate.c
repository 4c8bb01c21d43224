/* SPDX-License-Identifier: Apache-2.0
 *
 * Nobody is inside of the gate who is not counted, also where membarrier(2) is refused, as some
 * containers do. Each case is a process of its own, as filters stay.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>

#include "opencl/icd/gate.h"
#include "opencl/track/callback.h"
#include "tests/unit/chance.h"

enum { CALL = 200 /* looks of one call */, HELD = 200 /* of who closes */ };
enum { NO_FILTERS = 3 /* an exit status */ };
enum { LINE = 64, LINES = 1 << 19, WRITES = 32 };

static volatile unsigned char lines[LINES][LINE];

/* In place of opencl/track/callback.c. */
_Thread_local unsigned vg_cl_in_callback;

static atomic_bool is_closed, is_over;
static atomic_uint n_wrong, n_calls;

static void
refuse_membarrier(int command)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)command, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(NO_FILTERS);
}

/* A processor that still waits for lines of memory makes what it stores next visible much later. */
static void
delay_stores(void)
{
    static unsigned at;

    for (unsigned i = 0; i < WRITES; i++) {
        at = (at + 40503) % LINES;
        lines[at][0] = 1;
    }
}

static void *
call(void *arg)
{
    unsigned calls = 0, wrong = 0;

    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        delay_stores();
        vg_cl_gate_enter();
        for (unsigned i = 0; i < CALL; i++)
            if (atomic_load_explicit(&is_closed, memory_order_relaxed))
                wrong++;
        vg_cl_gate_leave();
        atomic_store_explicit(&n_calls, ++calls, memory_order_relaxed);
    }
    n_wrong = wrong;
    return arg;
}

/* Closes the gate again and again while a thread calls, and waits for a call between. */
static int
race(void)
{
    const unsigned rounds = chance_rounds(300, 1500);
    pthread_t thread;

    if (pthread_create(&thread, NULL, call, NULL) != 0)
        return 3;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned n = n_calls; n_calls == n;)
            sched_yield();
        if (!vg_cl_gate_set(VG_CL_GATE_CLOSED))
            return 2;
        while (vg_cl_gate_inside() > 0)
            sched_yield();
        atomic_store_explicit(&is_closed, true, memory_order_relaxed);
        for (unsigned i = 0; i < HELD; i++)
            atomic_signal_fence(memory_order_seq_cst);
        atomic_store(&is_closed, false);
        vg_cl_gate_set(VG_CL_GATE_OPEN);
    }
    is_over = true;
    pthread_join(thread, NULL);
    return n_wrong ? 1 : 0;
}

/* 0; 1: somebody was inside of the closed gate; 2: it said that it cannot be closed. */
static int
race_refused(int command)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        refuse_membarrier(command);
        _exit(race());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTERS) {
        print_message("# no filters of system calls here, as in an emulator of programs\n");
        skip();
    }
    return WEXITSTATUS(status);
}

static void
test_allowed(void **state)
{
    (void)state;
    assert_int_equal(race_refused(0), 0);
}

static void
test_all_is_refused(void **state)
{
    (void)state;
    assert_int_equal(race_refused(~0), 0);
}

/* As with a filter that came after the first call. */
static void
test_refused_later(void **state)
{
    (void)state;
    assert_int_equal(race_refused(MEMBARRIER_CMD_PRIVATE_EXPEDITED), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_all_is_refused),
        cmocka_unit_test(test_refused_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
