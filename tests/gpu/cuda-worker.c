/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of CUDA for tests/gpu: cuda-worker BYTES [KIND [FILE]] adds one to each word of so much
 * GPU memory again and again, says "ready" when it has begun and "step N" now and then, and with
 * SIGTERM how many words are wrong and how long it once stood still. KIND says what memory that is,
 * or what it has besides:
 *   plain    (the default)
 *   managed  unified memory
 *   async    memory of a stream's pool
 *   mapped   memory of the host
 *   graph    the adding is a captured graph
 *   memory-graph  a captured graph that allocates memory, adds there, and frees it
 *   export   its memory is offered to others, by a handle in FILE
 *   import   it reads the memory that FILE offers
 *   export-pool, import-pool  the same with memory of a pool, which is shared as a whole
 *   two      as much of the second GPU
 *   peer     the same, to which each step copies
 *   file     FILE, mapped and registered
 *   weights  FILE, mapped and registered to be read only
 *   threads  200 threads that do the same with little memory each
 *   handler  a thread that faults all the time, and a handler of its own for that
 *   forks    more and more children, forked between the steps
 * It is built on the machine that has the GPU, with gcc and CUDA's headers.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

static const char kernel_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 words, .param .u64 n)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<5>;\n.reg .b64 %d<6>;\n"
    "ld.param.u64 %d0, [words];\nld.param.u64 %d1, [n];\ncvta.to.global.u64 %d0, %d0;\n"
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %d2, %r0, %r1;\ncvt.u64.u32 %d3, %r2;\nadd.u64 %d2, %d2, %d3;\n"
    "setp.ge.u64 %p, %d2, %d1;\n@%p ret;\n"
    "shl.b64 %d4, %d2, 2;\nadd.u64 %d4, %d0, %d4;\n"
    "ld.global.u32 %r3, [%d4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%d4], %r3;\nret;\n}\n";

#define THREADS      200
#define THREAD_WORDS 1024
#define CHILDREN     16
#define CHILD_BYTES  (1 << 20)
/* A child is forked every so many steps. */
#define CHILD_STEPS 100
#define STEP_US     2000
/* Of each of the many threads, and of the faults of the one that faults. */
#define THREAD_STEP_US 50000
#define FAULT_US       200
#define TELL_S         0.1

static volatile sig_atomic_t ended;

struct worker {
    size_t n;
    const char *kind, *file;
    CUcontext context, second;
    CUstream stream;
    CUfunction kernel;
    CUgraphExec graph;
    CUmemoryPool pool;
    /* Its memory, what it has of the second GPU, and what another one offers. */
    CUdeviceptr words, other, theirs;
    uint32_t steps;
};

/* What an offer is made of: only one kind has the second half. */
struct offer {
    CUipcMemHandle handle;
    int pid, fd;
    CUmemPoolPtrExportData pointer;
};

/* The page that one thread faults at; how often it did, and how often it was meant to. */
static char *guarded;
static volatile uint32_t faults, faults_due;

/* The children wait until the other end is closed. */
static int children_wait[2];
static pid_t children[CHILDREN];
static unsigned n_children;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static double
now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
must(CUresult result, const char *what)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    printf("%s: %s\n", what, name ? name : "?");
    exit(1);
}
#define MUST(call) must(call, #call)

static int
is(const struct worker *worker, const char *kind)
{
    return strcmp(worker->kind, kind) == 0;
}

/* Its file, as large as its memory and full of its first value, mapped. */
static void *
map_file(const struct worker *worker, int access)
{
    size_t size = 4 * worker->n;
    int fd = open(worker->file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint32_t *words = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED) {
        perror(worker->file);
        exit(1);
    }
    for (size_t i = 0; i < worker->n; i++)
        words[i] = 7;
    if (msync(words, size, MS_SYNC) != 0 || mprotect(words, size, access) != 0) {
        perror(worker->file);
        exit(1);
    }
    close(fd);
    return words;
}

static void
allocate_in_pool(struct worker *worker)
{
    CUmemPoolProps what = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemPoolCreate(&worker->pool, &what));
    MUST(cuMemAllocFromPoolAsync(&worker->words, 4 * worker->n, worker->pool, worker->stream));
    MUST(cuStreamSynchronize(worker->stream));
}

static void
allocate(struct worker *worker)
{
    size_t size = 4 * worker->n;
    void *host = NULL;

    if (is(worker, "managed")) {
        MUST(cuMemAllocManaged(&worker->words, size, CU_MEM_ATTACH_GLOBAL));
        host = (void *)(uintptr_t)worker->words;
    } else if (is(worker, "async")) {
        MUST(cuMemAllocAsync(&worker->words, size, worker->stream));
        MUST(cuStreamSynchronize(worker->stream));
    } else if (is(worker, "mapped")) {
        MUST(cuMemHostAlloc(&host, size, CU_MEMHOSTALLOC_DEVICEMAP));
        MUST(cuMemHostGetDevicePointer(&worker->words, host, 0));
    } else if (is(worker, "file")) {
        host = map_file(worker, PROT_READ | PROT_WRITE);
        MUST(cuMemHostRegister(host, size, CU_MEMHOSTREGISTER_DEVICEMAP));
        MUST(cuMemHostGetDevicePointer(&worker->words, host, 0));
    } else if (is(worker, "export-pool")) {
        allocate_in_pool(worker);
    } else {
        MUST(cuMemAlloc(&worker->words, size));
    }
    if (!host)
        MUST(cuMemsetD32(worker->words, 7, worker->n));
    for (size_t i = 0; host && i < worker->n; i++)
        ((uint32_t *)host)[i] = 7;
}

static void
make_offer(const struct worker *worker, struct offer *offer)
{
    offer->pid = getpid();
    if (is(worker, "export")) {
        MUST(cuIpcGetMemHandle(&offer->handle, worker->words));
        return;
    }
    MUST(cuMemPoolExportToShareableHandle(&offer->fd, worker->pool,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemPoolExportPointer(&offer->pointer, worker->words));
}

static void
take_offer(struct worker *worker, struct offer *offer)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    if (is(worker, "import")) {
        MUST(
            cuIpcOpenMemHandle(&worker->theirs, offer->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        return;
    }
    int process = (int)syscall(SYS_pidfd_open, offer->pid, 0);
    int fd = (int)syscall(SYS_pidfd_getfd, process, offer->fd, 0);
    must(fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM, "pidfd_getfd");
    MUST(cuMemPoolImportFromShareableHandle(&worker->pool, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemPoolSetAccess(worker->pool, &access, 1));
    MUST(cuMemPoolImportPointer(&worker->theirs, worker->pool, &offer->pointer));
    close(process);
    close(fd);
}

/* Reads or writes what offers memory that is shared. */
static void
share(struct worker *worker)
{
    int writes = strncmp(worker->kind, "export", 6) == 0;
    struct offer offer = {.fd = -1};
    FILE *file = fopen(worker->file, writes ? "w" : "r");

    if (writes)
        make_offer(worker, &offer);
    if (!file || (writes ? fwrite(&offer, sizeof offer, 1, file)
                         : fread(&offer, sizeof offer, 1, file)) != 1) {
        perror(worker->file);
        exit(1);
    }
    fclose(file);
    if (!writes)
        take_offer(worker, &offer);
}

/* The file as others have it that read their weights from it. */
static void
register_weights(struct worker *worker)
{
    void *words = map_file(worker, PROT_READ);

    MUST(cuMemHostRegister(words, 4 * worker->n,
                           CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY));
    MUST(cuMemHostGetDevicePointer(&worker->other, words, 0));
}

static void
use_second_gpu(struct worker *worker)
{
    CUdevice device;

    MUST(cuDeviceGet(&device, 1));
    MUST(cuDevicePrimaryCtxRetain(&worker->second, device));
    MUST(cuCtxSetCurrent(worker->second));
    MUST(cuMemAlloc(&worker->other, 4 * worker->n));
    MUST(cuMemsetD32(worker->other, 7, worker->n));
    MUST(cuCtxSynchronize());
    MUST(cuCtxSetCurrent(worker->context));
    if (is(worker, "peer"))
        MUST(cuCtxEnablePeerAccess(worker->second, 0));
}

static void
add_to(struct worker *worker, CUdeviceptr words)
{
    void *arguments[] = {&words, &worker->n};

    MUST(cuLaunchKernel(worker->kernel, (unsigned)((worker->n + 255) / 256), 1, 1, 256, 1, 1, 0,
                        worker->stream, arguments, NULL));
}

static void
add(struct worker *worker)
{
    add_to(worker, worker->words);
}

/* The same in memory that is there only meanwhile. */
static void
add_aside(struct worker *worker)
{
    size_t size = 4 * worker->n;
    CUdeviceptr aside;

    MUST(cuMemAllocAsync(&aside, size, worker->stream));
    MUST(cuMemcpyDtoDAsync(aside, worker->words, size, worker->stream));
    add_to(worker, aside);
    MUST(cuMemcpyDtoDAsync(worker->words, aside, size, worker->stream));
    MUST(cuMemFreeAsync(aside, worker->stream));
}

static void
capture(struct worker *worker)
{
    CUgraph graph;

    MUST(cuStreamBeginCapture(worker->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (is(worker, "memory-graph"))
        add_aside(worker);
    else
        add(worker);
    MUST(cuStreamEndCapture(worker->stream, &graph));
    MUST(cuGraphInstantiate(&worker->graph, graph, 0));
}

static void
begin(struct worker *worker)
{
    CUdevice device;
    CUmodule module;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&worker->context, device));
    MUST(cuCtxSetCurrent(worker->context));
    MUST(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, kernel_text));
    MUST(cuModuleGetFunction(&worker->kernel, module, "add_one"));
    allocate(worker);
    if (strncmp(worker->kind, "export", 6) == 0 || strncmp(worker->kind, "import", 6) == 0)
        share(worker);
    if (is(worker, "weights"))
        register_weights(worker);
    if (is(worker, "two") || is(worker, "peer"))
        use_second_gpu(worker);
    if (is(worker, "graph") || is(worker, "memory-graph"))
        capture(worker);
    MUST(cuCtxSynchronize());
}

static void
step(struct worker *worker)
{
    if (worker->graph)
        MUST(cuGraphLaunch(worker->graph, worker->stream));
    else
        add(worker);
    MUST(cuStreamSynchronize(worker->stream));
    if (is(worker, "peer")) {
        MUST(cuMemcpyPeer(worker->other, worker->second, worker->words, worker->context,
                          4 * worker->n));
        MUST(cuCtxSynchronize());
    }
    if (worker->theirs) {
        uint32_t word;
        MUST(cuMemcpyDtoH(&word, worker->theirs, sizeof word));
    }
    worker->steps++;
}

/* Returns how many words of this memory are not as they should be. */
static size_t
count_bad(const struct worker *worker, CUdeviceptr words, uint32_t want)
{
    uint32_t *host = malloc(4 * worker->n);
    size_t bad = 0;

    must(host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    MUST(cuMemcpy((CUdeviceptr)(uintptr_t)host, words, 4 * worker->n));
    for (size_t i = 0; i < worker->n; i++)
        bad += host[i] != want;
    free(host);
    return bad;
}

/* ---- what some have besides their steps ---- */

static void *
run_thread(void *data)
{
    struct worker *worker = data;

    MUST(cuCtxSetCurrent(worker->context));
    MUST(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    allocate(worker);
    MUST(cuCtxSynchronize());
    while (!ended) {
        step(worker);
        usleep(THREAD_STEP_US);
    }
    return NULL;
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
    static const char foreign[] = "a fault that is not its own\n";

    (void)number, (void)context;
    if (info->si_addr != guarded) {
        ssize_t written = write(STDOUT_FILENO, foreign, sizeof foreign - 1);
        _exit(written > 0 ? 3 : 4);
    }
    faults++;
    mprotect(guarded, (size_t)getpagesize(), PROT_READ | PROT_WRITE);
}

static void *
run_faults(void *data)
{
    while (!ended) {
        mprotect(guarded, (size_t)getpagesize(), PROT_NONE);
        faults_due++;
        *(volatile char *)guarded = 1;
        usleep(FAULT_US);
    }
    return data;
}

static void
start_thread(pthread_t *thread, void *(*run)(void *), void *data)
{
    must(pthread_create(thread, NULL, run, data) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS,
         "pthread_create");
}

static void
catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

    guarded = mmap(NULL, (size_t)getpagesize(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
}

/* One that has memory of its own, and files of the driver's that it does not use. */
static void
fork_child(void)
{
    unsigned char value = (unsigned char)(n_children + 1);
    size_t bad = 0;
    char end;

    if (n_children == 0 && pipe(children_wait) != 0)
        must(CUDA_ERROR_OPERATING_SYSTEM, "pipe");
    unsigned char *memory = malloc(CHILD_BYTES);
    must(memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    memset(memory, value, CHILD_BYTES);
    pid_t child = fork();
    must(child >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM, "fork");
    if (child == 0) {
        close(children_wait[1]);
        ssize_t got = read(children_wait[0], &end, 1);
        for (size_t i = 0; i < CHILD_BYTES; i++)
            bad += memory[i] != value;
        _exit(got != 0 || bad != 0);
    }
    free(memory);
    children[n_children++] = child;
}

/* Returns how many were not as they should be. */
static size_t
end_children(void)
{
    size_t bad = 0;
    int status;

    if (n_children > 0)
        close(children_wait[1]);
    for (unsigned i = 0; i < n_children; i++)
        bad += waitpid(children[i], &status, 0) != children[i] || status != 0;
    return bad;
}

static void
work(struct worker *worker, double *longest)
{
    double last = now_s(), told = last;

    while (!ended) {
        step(worker);
        double now = now_s();
        *longest = now - last > *longest ? now - last : *longest;
        last = now;
        if (worker->steps == 1) {
            printf("ready\n");
        } else if (now - told > TELL_S) {
            printf("step %u\n", worker->steps);
            told = now;
        }
        if (is(worker, "forks") && worker->steps % CHILD_STEPS == 0 && n_children < CHILDREN)
            fork_child();
        usleep(STEP_US);
    }
}

/* All of its memory, when its steps are over. */
static size_t
count_all_bad(const struct worker *worker)
{
    size_t bad = count_bad(worker, worker->words, 7 + worker->steps);

    if (worker->other)
        bad += count_bad(worker, worker->other, is(worker, "peer") ? 7 + worker->steps : 7);
    return bad;
}

int
main(int argc, char **argv)
{
    struct worker worker = {.n = argc > 1 ? strtoull(argv[1], NULL, 0) / 4 : 0,
                            .kind = argc > 2 ? argv[2] : "plain",
                            .file = argc > 3 ? argv[3] : ""};
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    size_t bad = 0;
    double longest = 0;

    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin(&worker);
    int n_threads = is(&worker, "threads") ? THREADS : 0;
    for (int i = 0; i < n_threads; i++) {
        workers[i] = worker;
        workers[i].n = THREAD_WORDS;
        start_thread(&threads[i], run_thread, &workers[i]);
    }
    if (is(&worker, "handler")) {
        catch_faults();
        start_thread(&threads[n_threads++], run_faults, NULL);
    }
    work(&worker, &longest);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_threads && is(&worker, "threads"); i++)
        bad += count_all_bad(&workers[i]);
    bad += count_all_bad(&worker) + end_children() + (faults != faults_due);
    printf("steps %u bad %zu longest_ms %.0f\n", worker.steps, bad, longest * 1000);
    return bad != 0;
}
