/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that has a node open and mapped, and children that have it from there: forked NODE
 * KIND... It says "child KIND PID" for each, and "ready" when all wait for what their kind says;
 * with a line on its input it has them go on, and says "KIND PID WHAT" for each: kept, gone (they
 * have /dev/null in the place of the node now, and nothing in that of the map), or what is wrong
 * with them. exec=PROGRAM: a child that runs this. chroot=DIR: one that has this as its root.
 */
#include "config.h"

#include "tests/guest/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/futex.h>

enum {
    CHILDREN_MAX = 512,
    MEMORY = 1 << 20,
    SIGNALS = 20000,
};

static struct child *children;
static int n_children;
static int other_fd;
static unsigned char *memory;
static bool storms_end;
const char *node;
int node_fd, passed_fd;
unsigned char *map;
/* ---- a child ---- */

static unsigned char
pattern(size_t i)
{
    return (unsigned char)(i * 131 >> 3 ^ i);
}

/* What it has of the node now. */
static const char *
look_at_node(const struct child *child)
{
    struct stat first, second, kept;
    unsigned char seen;

    if (fstat(node_fd, &first) != 0 || fstat(passed_fd, &second) != 0)
        return "has no descriptor there";
    if (fcntl(node_fd, F_GETFD) != FD_CLOEXEC || fcntl(passed_fd, F_GETFD) != 0)
        return "has other flags";
    if (fstat(other_fd, &kept) != 0 || kept.st_rdev != makedev(1, 5))
        return "has lost another file";
    /* What cannot be read is an error for the kernel, and no more. */
    bool mapped = write(child->socket[0], map, 1) == 1;
    bool null = S_ISCHR(first.st_mode) && S_ISCHR(second.st_mode) &&
                first.st_rdev == second.st_rdev && write(node_fd, "x", 1) == 1 &&
                read(passed_fd, &seen, 1) == 0;
    if (null)
        return mapped ? "has the map" : "gone";
    if (S_ISCHR(first.st_mode) || S_ISCHR(second.st_mode))
        return "has lost one of two";
    return mapped ? "kept" : "has lost the map";
}

/* Says what it found, and does not return. */
static void
run_child(struct child *child, bool (*wait_for_it)(struct child *child))
{
    bool ok;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < MEMORY; i++)
        memory[i] = pattern(i);
    child->pid = getpid();
    __atomic_store_n(&child->waits, true, __ATOMIC_RELEASE);
    errno = 0;
    ok = wait_for_it(child);
    /* Its time may be over before anything has happened to it. */
    while (!__atomic_load_n(&child->go, __ATOMIC_RELAXED))
        usleep(1000);
    snprintf(child->said, sizeof child->said, "%s", ok ? look_at_node(child) : "waited wrongly");
    for (size_t i = 0; i < MEMORY; i++) {
        if (memory[i] != pattern(i))
            snprintf(child->said, sizeof child->said, "has other memory");
    }
    _exit(0);
}

static void *
run_later(void *arg)
{
    struct child *child = arg;

    run_child(child, find_kind("read")->wait);
    return NULL;
}

/* The first thread ends before the others. */
static void
run_without_first(struct child *child)
{
    pthread_t thread;

    pthread_create(&thread, NULL, run_later, child);
    syscall(SYS_exit, 0);
}

static void
start_child(const char *kind)
{
    struct child *child = &children[n_children++];

    child->kind = kind;
    child->queue = msgget(IPC_PRIVATE, 0600);
    child->semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (pipe(child->from_parent) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, child->socket) != 0)
        exit(1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (strncmp(kind, "exec=", 5) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            child->waits = true;
            execl(kind + 5, kind + 5, "1000", (char *)NULL);
            _exit(127);
        }
        if (strncmp(kind, "chroot=", 7) == 0 && chroot(kind + 7) != 0)
            _exit(1);
        if (strcmp(kind, "zombie") == 0) {
            child->waits = true;
            _exit(0);
        }
        if (strcmp(kind, "no-first") == 0)
            run_without_first(child);
        run_child(child, find_kind(kind)->wait);
    }
    child->pid = pid;
    if (strcmp(kind, "traced") == 0)
        ptrace(PTRACE_SEIZE, pid, NULL, NULL);
    printf("child %s %d\n", kind, (int)pid);
}

/* ---- the parent ---- */

static char
state_of(pid_t pid)
{
    char path[64], text[512];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file)
        fclose(file);
    const char *end = strrchr(text, ')');
    return end ? end[2] : 'X';
}

static void
wait_until_it_waits(const struct child *child)
{
    bool runs = strcmp(child->kind, "busy") == 0 || strcmp(child->kind, "sleeps") == 0 ||
                strcmp(child->kind, "storm") == 0 || strcmp(child->kind, "threads-come") == 0;

    while (!__atomic_load_n(&child->waits, __ATOMIC_ACQUIRE) ||
           (!runs && !strchr("SDTZ", state_of(child->pid))))
        usleep(1000);
}

/* Sends signals without a pause while others do what they do. */
static void *
send_storm(void *arg)
{
    struct child *child = arg;

    for (unsigned i = 1; i <= SIGNALS && !__atomic_load_n(&storms_end, __ATOMIC_RELAXED); i++) {
        __atomic_store_n(&child->sent, i, __ATOMIC_RELEASE);
        while (sigqueue(child->pid, SIGRTMIN, (union sigval){.sival_int = (int)i}) != 0) {
            if (errno != EAGAIN)
                return NULL;
            usleep(100);
        }
        if (i % 16 == 0)
            usleep(50);
    }
    return NULL;
}

static void
have_go_on(struct child *child)
{
    struct {
        long type;
        char text[1];
    } message = {1, {'g'}};
    struct sembuf give = {.sem_op = 1};
    int number = find_kind(child->kind)->signal;

    __atomic_store_n(&child->go, 1, __ATOMIC_RELAXED);
    syscall(SYS_futex, &child->go, FUTEX_WAKE, 100, NULL);
    if (number)
        sigqueue(child->pid, number, (union sigval){.sival_int = 7});
    if (strncmp(child->kind, "exec=", 5) == 0)
        kill(child->pid, SIGTERM);
    if (strcmp(child->kind, "stopped") == 0)
        kill(child->pid, SIGCONT);
    if (write(child->from_parent[1], "ggg", 3) != 3 || write(child->socket[1], "g", 1) != 1 ||
        msgsnd(child->queue, &message, 1, 0) != 0 || semop(child->semaphore, &give, 1) != 0)
        snprintf(child->said, sizeof child->said, "cannot be told");
}

static void
end_child(struct child *child)
{
    int status;

    waitpid(child->pid, &status, __WALL);
    if (WIFSIGNALED(status) && strncmp(child->kind, "exec=", 5) != 0)
        snprintf(child->said, sizeof child->said, "killed by %d", WTERMSIG(status));
    msgctl(child->queue, IPC_RMID, NULL);
    semctl(child->semaphore, 0, IPC_RMID);
    printf("%s %d %s\n", child->kind, (int)child->pid, child->said);
}

int
main(int argc, char **argv)
{
    pthread_t storms[CHILDREN_MAX];
    char line[16];

    if (argc < 3 || argc - 2 > CHILDREN_MAX)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Until a child handles it. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    node = argv[1];
    node_fd = open(node, O_RDWR | O_CLOEXEC);
    passed_fd = fcntl(node_fd, F_DUPFD, 0);
    other_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, node_fd, 0);
    children = mmap(NULL, CHILDREN_MAX * sizeof *children, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (node_fd < 0 || passed_fd < 0 || map == MAP_FAILED || children == MAP_FAILED)
        return 1;
    for (int i = 2; i < argc; i++)
        start_child(argv[i]);
    for (int i = 0; i < n_children; i++) {
        wait_until_it_waits(&children[i]);
        if (strcmp(children[i].kind, "storm") == 0)
            pthread_create(&storms[i], NULL, send_storm, &children[i]);
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    /* None comes after a child has counted them. */
    __atomic_store_n(&storms_end, true, __ATOMIC_RELAXED);
    for (int i = 0; i < n_children; i++) {
        if (strcmp(children[i].kind, "storm") == 0)
            pthread_join(storms[i], NULL);
    }
    for (int i = 0; i < n_children; i++)
        have_go_on(&children[i]);
    for (int i = 0; i < n_children; i++)
        end_child(&children[i]);
    return 0;
}
