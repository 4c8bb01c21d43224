/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses the made-up GPU of fake-cuda.c: fake-cuda-worker DEV UUID MIB STEP_MS
 * KERNEL_MS [child]. It has DEV/nvidiactl and the GPU's node open and WORDS numbers of its own in
 * the latter mapped, as its device memory, and adds one to each in every step, which takes
 * KERNEL_MS and comes every STEP_MS. How many steps it has made is in
 * VG_FAKE_CUDA/programs/PID.steps. With SIGTERM it says how many numbers are wrong. child: has
 * another process that inherits its files, and looks after memory of its own; how often it has done
 * that is in the PID.steps of its. It loads libcuda. VG_FAKE_CUDA_READERS has the number of its
 * threads that read memory all the time, which is taken away from them, as VG_FAKE_CUDA_TAKES says
 * (readers.h), from the checkpoint to the restore, or for good if VG_FAKE_CUDA_KEEPS is set. It
 * obeys lines of its standard input:
 *
 * fork: it has one more such child, and answers "child PID".
 *
 * null: it writes where nothing is.
 *
 * second UUID MIB: it has memory on another GPU, too, none with 0. It answers "called".
 *
 * FUNCTION [ARGUMENT...]: it calls a function of libcuda, and answers "called". An argument is a
 * number; "to", which is room for a result; "on:DEVICE", which describes memory of a device; or
 * "for:DEVICE,...", which describes devices that may access memory. Without any, there are "to",
 * "to", 0 and 0.
 *
 * by:LIBRARY FUNCTION [ARGUMENT...]: it has this file make the call (fake-caller.c).
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

#include "tests/guest/fake-cuda.h"
#include "tests/guest/readers.h"

#define WORDS     512
#define SLOTS_MAX 1024
#define BYTES     (WORDS * sizeof(uint64_t))

static const char *dev, *programs;
static char uuid[40], second_uuid[40];
static int second_mib;
static int mib, step_ms, kernel_ms, control_fd = -1, node_fd = -1, state;
static uint64_t *device_memory;
static void *control_map;
static uint64_t host_memory[WORDS], steps;
static unsigned moves;
/* Whoever works on the GPU. */
static pthread_mutex_t at_work = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t ended;
static volatile uintptr_t nowhere;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static void
tell_use(bool has)
{
    char path[512], next[520];

    snprintf(path, sizeof path, "%s/programs/%d", programs, (int)getpid());
    snprintf(next, sizeof next, "%s.new", path);
    FILE *file = fopen(next, "we");
    if (has)
        fprintf(file, "%s %d\n", uuid, mib);
    if (has && second_mib > 0)
        fprintf(file, "%s %d\n", second_uuid, second_mib);
    fclose(file);
    rename(next, path);
}

static int
find_node(void)
{
    char path[512], line[256], of[40];
    int node, found = -1;

    snprintf(path, sizeof path, "%s/gpus", programs);
    FILE *file = fopen(path, "re");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%39s %*s %d", of, &node) == 2 && strcmp(of, uuid) == 0)
            found = node;
    }
    fclose(file);
    return found;
}

/* Opens the GPU, and takes a piece of its memory that nobody has. */
static int
take_gpu(void)
{
    char path[512];
    int node = find_node(), error = -1;

    snprintf(path, sizeof path, "%s/nvidiactl", dev);
    control_fd = open(path, O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/nvidia%d", dev, node);
    node_fd = open(path, O_RDWR | O_CLOEXEC);
    if (node < 0 || node_fd < 0 || control_fd < 0)
        return -1;
    if (ftruncate(node_fd, SLOTS_MAX * BYTES) != 0)
        return -1;
    for (off_t slot = 0; slot < SLOTS_MAX && error != 0; slot++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = slot, .l_len = 1};
        error = fcntl(node_fd, F_OFD_SETLK, &lock);
        /* At the address where it was. */
        if (error == 0)
            device_memory =
                mmap(device_memory, BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | (device_memory ? MAP_FIXED : 0), node_fd, slot * (off_t)BYTES);
    }
    /* NVIDIA's driver does likewise: a child has the files, and some of what is mapped. */
    madvise(device_memory, BYTES, MADV_DONTFORK);
    control_map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
    tell_use(true);
    return error;
}

static void
leave_gpu(void)
{
    const char *takes = getenv("VG_FAKE_CUDA_TAKES");

    if (takes && readers_take(takes) != 0)
        abort();
    memcpy(host_memory, device_memory, BYTES);
    /* What comes next to that memory must not be what was there. */
    memset(device_memory, 0xa5, BYTES);
    mmap(device_memory, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    munmap(control_map, BYTES);
    close(node_fd);
    close(control_fd);
    tell_use(false);
}

static int
restore(const struct fake_cuda_request *request)
{
    char old[40], now[40];

    snprintf(old, sizeof old, "%s", uuid);
    for (unsigned i = 0; i < request->n_pairs; i++) {
        for (size_t k = 0; k < 16; k++) {
            snprintf(now + 2 * k, 3, "%02x", request->pairs[i].from.bytes[k]);
        }
        if (strcmp(now, old) != 0)
            continue;
        for (size_t k = 0; k < 16; k++)
            snprintf(uuid + 2 * k, 3, "%02x", request->pairs[i].to.bytes[k]);
    }
    if (take_gpu() != 0)
        return 101;
    moves++;
    memcpy(device_memory, host_memory, BYTES);
    if (getenv("VG_FAKE_CUDA_TAKES") && !getenv("VG_FAKE_CUDA_KEEPS") && readers_give() != 0)
        abort();
    return 0;
}

static int
lock(unsigned timeout_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(&at_work, &until) == 0 ? 0 : VG_CUDA_NOT_READY;
}

static int
obey(const struct fake_cuda_request *request)
{
    /* What it has to be for that, and what it is then. */
    static const struct {
        const char *op;
        int before, after;
    } steps_of[] = {{"lock", VG_CUDA_RUNNING, VG_CUDA_LOCKED},
                    {"checkpoint", VG_CUDA_LOCKED, VG_CUDA_CHECKPOINTED},
                    {"restore", VG_CUDA_CHECKPOINTED, VG_CUDA_LOCKED},
                    {"unlock", VG_CUDA_LOCKED, VG_CUDA_RUNNING},
                    {"fail", VG_CUDA_CHECKPOINTED, VG_CUDA_FAILED}};
    size_t i = 0;
    int result = 0;

    if (strcmp(request->op, "state") == 0)
        return 0;
    while (i < 4 && strcmp(steps_of[i].op, request->op) != 0)
        i++;
    if (state != steps_of[i].before)
        return 401;
    if (i == 0)
        result = lock(request->timeout_ms);
    else if (i == 1)
        leave_gpu();
    else if (i == 2)
        result = restore(request);
    else if (i == 3)
        pthread_mutex_unlock(&at_work);
    else
        result = VG_CUDA_OUT_OF_MEMORY;
    if (result == 0 || i == 4)
        state = steps_of[i].after;
    return result;
}

static void *
serve(void *arg)
{
    struct fake_cuda_request request;
    int fd = *(int *)arg;

    for (;;) {
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        if (recv(client, &request, sizeof request, 0) == sizeof request) {
            struct fake_cuda_answer answer = {.result = obey(&request)};
            answer.state = state;
            send(client, &answer, sizeof answer, MSG_NOSIGNAL);
        }
        close(client);
    }
    return NULL;
}

/* Returns a descriptor of the file that says how many steps this process has made. */
static int
open_steps(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/programs/%d.steps", programs, (int)getpid());
    return open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
}

static int
write_steps(int fd, uint64_t n)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%20llu", (unsigned long long)n);

    return pwrite(fd, text, (size_t)size, 0) < 0 ? -1 : 0;
}

/* Looks after its memory until it is killed, or that is wrong. */
static void
be_child(void)
{
    uint64_t memory[WORDS];
    int fd = open_steps();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < WORDS; i++)
        memory[i] = i * 6364136223846793005ULL;
    for (uint64_t n = 1;; n++) {
        for (size_t i = 0; i < WORDS; i++) {
            if (memory[i] != i * 6364136223846793005ULL + n - 1)
                _exit(1);
            memory[i]++;
        }
        if (write_steps(fd, n) != 0 || usleep((useconds_t)step_ms * 1000) != 0)
            _exit(1);
    }
}

static void
fork_child(void)
{
    pid_t child = fork();

    if (child == 0)
        be_child();
    printf("child %d\n", (int)child);
    fflush(stdout);
}

/* ---- calls of libcuda ---- */

/* As CUDA lays them out: CUmemLocation, CUmemAllocationProp, CUmemAccessDesc. */
struct location {
    int type, id;
};
struct allocation {
    int type, handle_types;
    struct location location;
    void *reserved[2];
};
struct access {
    struct location location;
    int flags;
};

#define ARGUMENTS 6
#define DEVICES   16

typedef int called_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static uintptr_t
read_argument(const char *word)
{
    static unsigned long long to[8];
    static struct allocation allocation;
    static struct access access[DEVICES];

    if (strcmp(word, "to") == 0)
        return (uintptr_t)to;
    if (strncmp(word, "on:", 3) == 0) {
        allocation = (struct allocation){.type = 1, .location = {1, atoi(word + 3)}};
        return (uintptr_t)&allocation;
    }
    if (strncmp(word, "for:", 4) == 0) {
        const char *at = word + 3;
        for (int i = 0; at && i < DEVICES; at = strchr(at + 1, ','), i++)
            access[i] = (struct access){.location = {1, atoi(at + 1)}, .flags = 3};
        return (uintptr_t)access;
    }
    return (uintptr_t)strtoull(word, NULL, 0);
}

/* Makes the call that this line describes. Returns its result, or -1 if there is no such
 * function. */
static int
make_call(void *cuda, char *line)
{
    uintptr_t arguments[ARGUMENTS] = {read_argument("to"), read_argument("to")};
    int (*through)(called_fn *, uintptr_t, uintptr_t, uintptr_t, uintptr_t) = NULL;
    called_fn *function = NULL;
    char *rest = line, *word = strsep(&rest, " ");

    if (strncmp(word, "by:", 3) == 0) {
        void *library = dlopen(word + 3, RTLD_NOW), *found = NULL;
        found = library ? dlsym(library, "fake_call") : NULL;
        memcpy(&through, &found, sizeof through);
        word = strsep(&rest, " ");
        if (!through || !word)
            return -1;
    }
    void *found = cuda ? dlsym(cuda, word) : NULL;
    memcpy(&function, &found, sizeof function);
    for (int i = 0; rest && i < ARGUMENTS; i++)
        arguments[i] = read_argument(strsep(&rest, " "));
    if (!function)
        return -1;
    return through ? through(function, arguments[0], arguments[1], arguments[2], arguments[3])
                   : function(arguments[0], arguments[1], arguments[2], arguments[3]);
}

/* Obeys the lines of the standard input. */
static void *
call(void *cuda)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;

    while ((length = getline(&line, &size, stdin)) > 0) {
        line[length - 1] = '\0';
        if (strcmp(line, "fork") == 0) {
            fork_child();
            continue;
        }
        if (strcmp(line, "null") == 0)
            *(volatile char *)nowhere = 1;
        int result = 0;
        if (sscanf(line, "second %39s %d", second_uuid, &second_mib) == 2)
            tell_use(true);
        else
            result = make_call(cuda, line);
        printf("%s\n", result == 0 ? "called" : "not called");
        fflush(stdout);
    }
    free(line);
    return NULL;
}

static int
listen_here(void)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int dir = fake_cuda_address(&address, getpid());
    bool ok = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0;
    close(dir);
    return ok ? fd : -1;
}

static void
work(int steps_fd)
{
    while (!ended) {
        pthread_mutex_lock(&at_work);
        for (size_t i = 0; i < WORDS; i++)
            device_memory[i]++;
        steps++;
        usleep((useconds_t)kernel_ms * 1000);
        pthread_mutex_unlock(&at_work);
        if (write_steps(steps_fd, steps) != 0)
            break;
        usleep((useconds_t)step_ms * 1000);
    }
}

int
main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t server, caller;
    const char *readers = getenv("VG_FAKE_CUDA_READERS");
    unsigned long passes, wrong;
    size_t bad = 0;

    programs = getenv("VG_FAKE_CUDA");
    if (argc < 6 || !programs)
        return 2;
    dev = argv[1];
    snprintf(uuid, sizeof uuid, "%s", argv[2]);
    mib = atoi(argv[3]);
    step_ms = atoi(argv[4]);
    kernel_ms = atoi(argv[5]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &action, NULL);
    if (take_gpu() != 0)
        return 1;
    memset(device_memory, 0, BYTES);
    if (argc > 6)
        fork_child();
    int fd = listen_here(), steps_fd = open_steps();
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (fd < 0 || steps_fd < 0 || readers_init() != 0 ||
        readers_start(readers ? (unsigned)atoi(readers) : 0) != 0 ||
        pthread_create(&server, NULL, serve, &fd) != 0 ||
        pthread_create(&caller, NULL, call, library) != 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    work(steps_fd);
    pthread_mutex_lock(&at_work);
    for (size_t i = 0; i < WORDS; i++)
        bad += device_memory[i] != steps;
    readers_count(&passes, &wrong);
    bad += wrong;
    printf("steps %llu bad %zu moves %u on %s\n", (unsigned long long)steps, bad, moves, uuid);
    fflush(stdout);
    _exit(bad != 0);
}
