/* SPDX-License-Identifier: Apache-2.0
 *
 * What QEMUs look like from outside, without the QEMUs: N processes with a vCPU thread, a name and
 * a UUID each, until SIGTERM. The first AWAKE of the vCPUs run for RUN_MS of CPU time, then sleep
 * for what that leaves of 100 ms: 1 ms, the default, is a guest with little to do, 100 ms is one
 * that never sleeps. The others sleep. With "helpers", each of the others has a child that runs all
 * the time.
 *     fake-vms N [AWAKE [RUN_MS [helpers]]]
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_MS 100
#define MS_NS     1000000
#define UUID_FMT  "b0c6e1d4-77a2-4a5e-8d3c-0000%08d"

static int64_t
cpu_time_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void *
vcpu(void *arg)
{
    const int run_ms = *(const int *)arg;
    const struct timespec rest = {.tv_nsec = (PERIOD_MS - run_ms) * MS_NS};

    pthread_setname_np(pthread_self(), "CPU 0/KVM");
    while (run_ms > 0) {
        int64_t end_ns = cpu_time_ns() + (int64_t)run_ms * MS_NS;
        while (cpu_time_ns() < end_ns)
            continue;
        if (run_ms < PERIOD_MS)
            nanosleep(&rest, NULL);
    }
    for (;;)
        pause();
    return NULL;
}

static void
start_helper(void)
{
    const pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "helper");
    while (getppid() == parent)
        continue;
    _exit(0);
}

/* The process of one VM: fake-vms was started anew with the command line of a QEMU. */
static int
be_vm(int run_ms, bool has_helper)
{
    pthread_t thread;

    if (has_helper)
        start_helper();
    if (pthread_create(&thread, NULL, vcpu, &run_ms) != 0)
        return 1;
    for (;;)
        pause();
}

static void
start_vm(int i, int run_ms, bool has_helper)
{
    char name[64], uuid[64], run[16];
    const pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    snprintf(name, sizeof(name), "guest=bench-%03d,debug-threads=on", i);
    snprintf(uuid, sizeof(uuid), UUID_FMT, i);
    snprintf(run, sizeof(run), "%d", run_ms);
    execl("/proc/self/exe", "qemu-system-x86_64", "-name", name, "-uuid", uuid, "-run", run,
          "-helpers", has_helper ? "1" : "0", (char *)NULL);
    perror("fake-vms");
    _exit(1);
}

int
main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "-name") == 0)
        return be_vm(atoi(argv[6]), atoi(argv[8]) != 0);
    int n = argc > 1 ? atoi(argv[1]) : 0;
    int awake = argc > 2 ? atoi(argv[2]) : 0;
    int run_ms = argc > 3 ? atoi(argv[3]) : 1;
    bool helpers = argc > 4 && strcmp(argv[4], "helpers") == 0;
    if (n <= 0 || run_ms < 0 || run_ms > PERIOD_MS) {
        fprintf(stderr, "usage: fake-vms N [AWAKE [RUN_MS [helpers]]]\n");
        return 2;
    }
    for (int i = 0; i < n; i++)
        start_vm(i, i < awake ? run_ms : 0, helpers && i >= awake);
    for (;;)
        pause();
}
