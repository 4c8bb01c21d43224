/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with threads that fault: faulty READERS. It has that many threads that read memory
 * (readers.c), says "ready", and obeys the lines of its standard input, each with one line:
 *
 *   take HOW, give   takes the memory away from the threads, and gives it back
 *   more N           starts more of them
 *   count            says how often they have read it, and how often it was wrong
 *   null             writes where nothing is, which ends it
 *   guard            reads memory that never could be read; its own handler helps
 *   readonly         writes to memory that can only be read; likewise
 *   raise, queue     sends itself SIGSEGV, the second as if the kernel did
 *   usr1             says how often it has got SIGUSR1
 *   fork, vfork, clone  has a child, and says who traces that
 *   leave            its first thread ends
 *   exec             becomes the program itself anew, with as many readers
 */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sched.h>

#include "tests/guest/readers.h"

static const char *program, *n_readers;
static volatile sig_atomic_t got_usr1, caught;
static volatile char *page;
static sigjmp_buf again;
static pthread_t first;
static volatile uintptr_t nowhere;

static void
on_usr1(int number)
{
    (void)number;
    got_usr1++;
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    caught++;
    if (info->si_addr == (void *)(uintptr_t)page)
        siglongjmp(again, 1);
}

static void
on_usr2(int number)
{
    (void)number;
    pthread_exit(NULL);
}

static void
say(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

/* Does something that its own handler of SIGSEGV sees. */
static void
be_caught(const char *how)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = SEGV_ACCERR};

    caught = 0;
    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(again, 1) == 0) {
        if (strcmp(how, "guard") == 0) {
            (void)*page;
        } else if (strcmp(how, "readonly") == 0) {
            *page = 1;
        } else if (strcmp(how, "raise") == 0) {
            raise(SIGSEGV);
        } else {
            info.si_addr = readers_memory();
            syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
        }
    }
    sigaction(SIGSEGV, &before, NULL);
    say(caught == 1 ? "caught" : "not caught");
}

/* Writes the tracer of this process to the file descriptor. */
static int
write_tracer(int fd)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    int size = -1;

    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "TracerPid:", 10) == 0)
            size = (int)write(fd, line, strlen(line));
    }
    return size > 0 ? 0 : 1;
}

static int
be_cloned(void *fd)
{
    return write_tracer(*(int *)fd);
}

/* Has a child of this kind, and says who traces it. */
static void
have_child(const char *how)
{
    static char stack[1 << 16];
    char text[64] = "";
    int ends[2], status;
    pid_t child = -1;

    if (pipe(ends) != 0)
        return;
    if (strcmp(how, "fork") == 0) {
        child = fork();
        if (child == 0)
            _exit(write_tracer(ends[1]));
    } else if (strcmp(how, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            execl("/bin/grep", "grep", "TracerPid:", "/proc/self/status", (char *)NULL);
            _exit(1);
        }
    } else {
        /* The parent gets no SIGCHLD for it, as for a thread. */
        child = clone(be_cloned, stack + sizeof stack, 0, &ends[1]);
    }
    ssize_t got = child > 0 ? read(ends[0], text, sizeof text - 1) : -1;
    text[got > 0 ? got - 1 : 0] = '\0';
    if (waitpid(child, &status, __WALL) != child || status != 0)
        snprintf(text, sizeof text, "the child failed");
    close(ends[0]);
    close(ends[1]);
    say(text);
}

static void
count(void)
{
    unsigned long passes, wrong;
    char text[64];

    readers_count(&passes, &wrong);
    snprintf(text, sizeof text, "%lu %lu", passes, wrong);
    say(text);
}

static void
obey(const char *word, const char *argument)
{
    char text[32];

    if (strcmp(word, "take") == 0) {
        say(readers_take(argument) == 0 ? "ok" : strerror(errno));
    } else if (strcmp(word, "give") == 0) {
        say(readers_give() == 0 ? "ok" : strerror(errno));
    } else if (strcmp(word, "more") == 0) {
        say(readers_start((unsigned)atoi(argument)) == 0 ? "ok" : "no more");
    } else if (strcmp(word, "count") == 0) {
        count();
    } else if (strcmp(word, "null") == 0) {
        *(volatile char *)nowhere = 1;
    } else if (strcmp(word, "usr1") == 0) {
        snprintf(text, sizeof text, "%d", (int)got_usr1);
        say(text);
    } else if (strcmp(word, "leave") == 0) {
        pthread_kill(first, SIGUSR2);
        say(pthread_join(first, NULL) == 0 ? "ok" : "not left");
    } else if (strcmp(word, "exec") == 0) {
        execl(program, program, n_readers, (char *)NULL);
    } else if (strstr("fork vfork clone", word)) {
        have_child(word);
    } else {
        mprotect((void *)(uintptr_t)page, 4096, strcmp(word, "guard") == 0 ? PROT_NONE : PROT_READ);
        be_caught(word);
    }
}

static void *
read_lines(void *arg)
{
    char line[64], word[16], argument[16];

    (void)arg;
    while (fgets(line, sizeof line, stdin)) {
        argument[0] = '\0';
        if (sscanf(line, "%15s %15s", word, argument) >= 1)
            obey(word, argument);
    }
    _exit(0);
}

int
main(int argc, char **argv)
{
    struct sigaction usr1 = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
    struct sigaction usr2 = {.sa_handler = on_usr2};
    pthread_t reader;

    if (argc < 2)
        return 2;
    program = argv[0];
    n_readers = argv[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGUSR1, &usr1, NULL);
    sigaction(SIGUSR2, &usr2, NULL);
    first = pthread_self();
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || readers_init() != 0 || readers_start((unsigned)atoi(argv[1])) != 0)
        return 1;
    say("ready");
    if (pthread_create(&reader, NULL, read_lines, NULL) != 0)
        return 1;
    for (;;)
        pause();
}
