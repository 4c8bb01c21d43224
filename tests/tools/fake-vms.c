/* SPDX-License-Identifier: Apache-2.0
 *
 * What QEMUs look like from outside, without the QEMUs: N processes with a vCPU thread, a name and
 * a UUID each, until SIGTERM. The first AWAKE of the vCPUs run for 1 ms of every 100 ms, as a guest
 * with little to do does; the others sleep.
 *     fake-vms N [AWAKE]
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000000
#define RUN_NS    1000000
#define UUID_FMT  "b0c6e1d4-77a2-4a5e-8d3c-0000%08d"

static int64_t
cpu_time_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void *
vcpu(void *awake)
{
    const struct timespec rest = {.tv_nsec = PERIOD_NS - RUN_NS};

    pthread_setname_np(pthread_self(), "CPU 0/KVM");
    while (awake) {
        int64_t end_ns = cpu_time_ns() + RUN_NS;
        while (cpu_time_ns() < end_ns)
            continue;
        nanosleep(&rest, NULL);
    }
    for (;;)
        pause();
    return NULL;
}

/* The process of one VM: fake-vms was started anew with the command line of a QEMU. */
static int
be_vm(int awake)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, vcpu, awake ? &thread : NULL) != 0)
        return 1;
    for (;;)
        pause();
}

static void
start_vm(int i, int awake)
{
    char name[64], uuid[64];
    const pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    snprintf(name, sizeof(name), "guest=bench-%03d,debug-threads=on", i);
    snprintf(uuid, sizeof(uuid), UUID_FMT, i);
    execl("/proc/self/exe", "qemu-system-x86_64", "-name", name, "-uuid", uuid, "-awake",
          i < awake ? "1" : "0", (char *)NULL);
    perror("fake-vms");
    _exit(1);
}

int
main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "-name") == 0)
        return be_vm(atoi(argv[6]));
    int n = argc > 1 ? atoi(argv[1]) : 0;
    if (n <= 0) {
        fprintf(stderr, "usage: fake-vms N [AWAKE]\n");
        return 2;
    }
    for (int i = 0; i < n; i++)
        start_vm(i, argc > 2 ? atoi(argv[2]) : 0);
    for (;;)
        pause();
}
