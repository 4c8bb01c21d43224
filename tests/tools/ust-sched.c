/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a host for LTTng: writes events of the scheduler and of KVM, as a program traced by
 * LTTng-UST, in the order of its standard input. Each is written on the CPU it is said to be of,
 * where the program goes for it. Words of a line are parted by tabs:
 *
 *     CPU switch PREV_TID PREV_COMM PREV_STATE NEXT_TID NEXT_COMM
 *     CPU wakeup TID COMM TARGET_CPU
 *     CPU entry VCPU
 *     CPU exit REASON ISA
 *     0 sleep MICROSECONDS
 *     0 sync                     a line is written to standard output
 *     0 wait                     a line, as soon as a session has enabled sched_switch
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>
#include <sched.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/tools/ust-kvm-tp.h"
#include "tests/tools/ust-sched-tp.h"

#define WORDS_MAX 7
#define WAIT_US   2000

static int
number(const char *word)
{
    return (int)g_ascii_strtoll(word, NULL, 10);
}

static void
go_to(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0) {
        perror("sched_setaffinity");
        exit(EXIT_FAILURE);
    }
}

static void
answer(void)
{
    puts("ok");
    fflush(stdout);
}

static void
wait_for_session(void)
{
    while (!lttng_ust_tracepoint_enabled(sched, sched_switch))
        usleep(WAIT_US);
    answer();
}

/* false: no such line. */
static bool
play(char **words, unsigned int n)
{
    const char *what = n > 1 ? words[1] : "";

    if (strcmp(what, "switch") == 0 && n == 7)
        lttng_ust_tracepoint(sched, sched_switch, words[3], number(words[2]), number(words[4]),
                             words[6], number(words[5]));
    else if (strcmp(what, "wakeup") == 0 && n == 5)
        lttng_ust_tracepoint(sched, sched_wakeup, words[3], number(words[2]), number(words[4]));
    else if (strcmp(what, "entry") == 0 && n == 3)
        lttng_ust_tracepoint(kvm, kvm_entry, (unsigned int)number(words[2]));
    else if (strcmp(what, "exit") == 0 && n == 4)
        lttng_ust_tracepoint(kvm, kvm_exit, (unsigned int)number(words[2]),
                             (unsigned int)number(words[3]));
    else if (strcmp(what, "sleep") == 0 && n == 3)
        usleep((useconds_t)number(words[2]));
    else if (strcmp(what, "sync") == 0)
        answer();
    else if (strcmp(what, "wait") == 0)
        wait_for_session();
    else
        return false;
    return true;
}

int
main(void)
{
    char *line = NULL;
    size_t room = 0;
    int cpu = -1;

    while (getline(&line, &room, stdin) > 0) {
        g_auto(GStrv) words = g_strsplit(g_strchomp(line), "\t", WORDS_MAX);
        unsigned int n = g_strv_length(words);
        if (n > 0 && number(words[0]) != cpu) {
            cpu = number(words[0]);
            go_to(cpu);
        }
        if (!play(words, n)) {
            fprintf(stderr, "ust-sched: not understood: %s\n", line);
            return EXIT_FAILURE;
        }
    }
    free(line);
    return EXIT_SUCCESS;
}
