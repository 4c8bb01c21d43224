/* SPDX-License-Identifier: Apache-2.0
 *
 * gen-trace -n EVENTS -c CPUS -o DIR: writes the kernel trace that LTTng 2.13 would record on a
 * host with busy virtual machines. Input of tools/bench; needs libc only and is fast enough to
 * make 50 million records in a coffee break. The same arguments give the same trace.
 *
 * Each CPU has its own threads: vCPUs of several VMs, one QEMU main thread, a kernel worker. A
 * thread is woken, runs, enters and leaves its guest, is preempted by another or goes to sleep.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKET_BYTES    (1U << 20)
#define CPUS_MAX        256
#define VCPUS_PER_CPU   3
#define THREADS_PER_CPU (VCPUS_PER_CPU + 2)
#define COMM_LEN        16
#define EVENT_BYTES_MAX 128
#define HEADER_BYTES    84 /* packet header and context as in the metadata below */

/* CTF 1.8: magic number of a packet. */
#define CTF_MAGIC 0xC1FC1FC1U

/* VM exits of VMX, most frequent first: interrupt, MSR write, EPT violation, I/O, HLT. */
static const uint32_t exit_reasons[] = {1, 32, 48, 30, 12};

static const uint8_t trace_uuid[16] = {0x3e, 0x0a, 0x52, 0x6d, 0x0b, 0xc4, 0x4d, 0x39,
                                       0x9a, 0x27, 0x6d, 0xc1, 0x90, 0x0e, 0x7f, 0x51};

enum { ID_SWITCH, ID_WAKEUP, ID_ENTRY, ID_EXIT };

enum state { BLOCKED, WAITING, RUNNING };

struct thread {
    int32_t tid;
    int32_t pid;
    enum state state;
    bool is_vcpu;
    bool in_guest;
    char comm[COMM_LEN];
};

struct cpu {
    FILE *file;
    uint8_t *packet;
    size_t used;
    uint32_t number;
    uint64_t sequence;
    uint64_t t_begin;
    uint64_t t_last;
    int running; /* index of a thread, or -1: idle */
    struct thread threads[THREADS_PER_CPU];
};

struct host {
    struct cpu *cpus;
    uint32_t n_cpus;
    uint64_t t;
    uint64_t random;
    uint64_t events;
};

static const char metadata[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 32; align = 8; signed = 0; } := u32;\n"
    "typealias integer { size = 64; align = 8; signed = 0; } := u64;\n"
    "typealias integer { size = 32; align = 8; signed = 1; } := s32;\n"
    "typealias integer { size = 64; align = 8; signed = 1; } := s64;\n"
    "typealias integer { size = 8; align = 8; signed = 1; encoding = UTF8; } := text;\n"
    "trace {\n"
    "    major = 1; minor = 8; byte_order = le;\n"
    "    uuid = \"3e0a526d-0bc4-4d39-9a27-6dc1900e7f51\";\n"
    "    packet.header := struct {\n"
    "        u32 magic;\n"
    "        integer { size = 8; align = 8; signed = 0; } uuid[16];\n"
    "        u32 stream_id;\n"
    "        u64 stream_instance_id;\n"
    "    };\n"
    "};\n"
    "env {\n"
    "    hostname = \"bench\"; domain = \"kernel\"; sysname = \"Linux\";\n"
    "    kernel_release = \"6.1.0-18-amd64\"; kernel_version = \"#1 SMP\";\n"
    "    tracer_name = \"lttng-modules\"; tracer_major = 2; tracer_minor = 13;\n"
    "};\n"
    "clock {\n"
    "    name = \"monotonic\"; uuid = \"c8b0c5c4-53ff-4b0c-8f4c-8b1df5a5b7f2\";\n"
    "    description = \"Monotonic Clock\"; freq = 1000000000; offset = 1700000000000000000;\n"
    "};\n"
    "typealias integer { size = 27; align = 1; signed = 0; map = clock.monotonic.value; } := t27;\n"
    "typealias integer { size = 64; align = 8; signed = 0; map = clock.monotonic.value; } := t64;\n"
    "struct event_header {\n"
    "    enum : integer { size = 5; align = 1; signed = 0; } {\n"
    "        compact = 0 ... 30, extended = 31\n"
    "    } id;\n"
    "    variant <id> {\n"
    "        struct { t27 timestamp; } compact;\n"
    "        struct { u32 id; t64 timestamp; } extended;\n"
    "    } v;\n"
    "} align(8);\n"
    "stream {\n"
    "    id = 0;\n"
    "    event.header := struct event_header;\n"
    "    packet.context := struct {\n"
    "        t64 timestamp_begin; t64 timestamp_end; u64 content_size; u64 packet_size;\n"
    "        u64 packet_seq_num; u64 events_discarded; u32 cpu_id;\n"
    "    };\n"
    "    event.context := struct { s32 _pid; s32 _tid; text _procname[16]; };\n"
    "};\n"
    "event {\n"
    "    name = \"sched_switch\"; id = 0; stream_id = 0;\n"
    "    fields := struct {\n"
    "        text _prev_comm[16]; s32 _prev_tid; s32 _prev_prio; s64 _prev_state;\n"
    "        text _next_comm[16]; s32 _next_tid; s32 _next_prio;\n"
    "    };\n"
    "};\n"
    "event {\n"
    "    name = \"sched_wakeup\"; id = 1; stream_id = 0;\n"
    "    fields := struct { text _comm[16]; s32 _tid; s32 _prio; s32 _target_cpu; };\n"
    "};\n"
    "event {\n"
    "    name = \"kvm_x86_entry\"; id = 2; stream_id = 0;\n"
    "    fields := struct { u32 _vcpu_id; };\n"
    "};\n"
    "event {\n"
    "    name = \"kvm_x86_exit\"; id = 3; stream_id = 0;\n"
    "    fields := struct {\n"
    "        u32 _exit_reason; u64 _guest_rip; u32 _isa; u64 _info1; u64 _info2;\n"
    "        u32 _intr_info; u32 _error_code; u32 _vcpu_id;\n"
    "    };\n"
    "};\n";

static void
die(const char *what)
{
    fprintf(stderr, "gen-trace: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- bytes ---- */

static void
put32(struct cpu *cpu, uint32_t value)
{
    value = htole32(value);
    memcpy(cpu->packet + cpu->used, &value, sizeof value);
    cpu->used += sizeof value;
}

static void
put64(struct cpu *cpu, uint64_t value)
{
    value = htole64(value);
    memcpy(cpu->packet + cpu->used, &value, sizeof value);
    cpu->used += sizeof value;
}

static void
put_bytes(struct cpu *cpu, const void *bytes, size_t size)
{
    memcpy(cpu->packet + cpu->used, bytes, size);
    cpu->used += size;
}

static void
close_packet(struct cpu *cpu)
{
    size_t content = cpu->used;

    memset(cpu->packet + content, 0, PACKET_BYTES - content);
    cpu->used = 0;
    put32(cpu, CTF_MAGIC);
    put_bytes(cpu, trace_uuid, sizeof trace_uuid);
    put32(cpu, 0);
    put64(cpu, cpu->number);
    put64(cpu, cpu->t_begin);
    put64(cpu, cpu->t_last);
    put64(cpu, content * 8);
    put64(cpu, PACKET_BYTES * UINT64_C(8));
    put64(cpu, cpu->sequence++);
    put64(cpu, 0);
    put32(cpu, cpu->number);
    if (fwrite(cpu->packet, PACKET_BYTES, 1, cpu->file) != 1)
        die("write");
    cpu->used = 0;
}

/* ---- records ---- */

static uint32_t
roll(struct host *host, uint32_t sides)
{
    /* xorshift64: Marsaglia, "Xorshift RNGs", 2003. */
    host->random ^= host->random << 13;
    host->random ^= host->random >> 7;
    host->random ^= host->random << 17;
    return (uint32_t)(((host->random >> 32) * sides) >> 32);
}

/* Header and context; every record has a time stamp of its own. */
static void
begin_record(struct host *host, struct cpu *cpu, uint32_t id)
{
    static const char idle[COMM_LEN] = "swapper";
    const struct thread *who = cpu->running >= 0 ? &cpu->threads[cpu->running] : NULL;
    bool full;

    host->t += 100 + roll(host, 4000);
    host->events++;
    if (cpu->used > PACKET_BYTES - EVENT_BYTES_MAX)
        close_packet(cpu);
    full = cpu->used == 0 || host->t - cpu->t_last >= 1U << 27;
    if (cpu->used == 0) {
        cpu->used = HEADER_BYTES;
        cpu->t_begin = host->t;
    }
    if (full) {
        cpu->packet[cpu->used++] = 31;
        put32(cpu, id);
        put64(cpu, host->t);
    } else {
        put32(cpu, id | (uint32_t)(host->t << 5));
    }
    cpu->t_last = host->t;
    put32(cpu, who ? (uint32_t)who->pid : 0);
    put32(cpu, who ? (uint32_t)who->tid : 0);
    put_bytes(cpu, who ? who->comm : idle, COMM_LEN);
}

static void
switch_to(struct host *host, struct cpu *cpu, int next, enum state prev_becomes)
{
    static const struct thread idle = {.comm = "swapper"};
    struct thread *old = cpu->running >= 0 ? &cpu->threads[cpu->running] : NULL;
    const struct thread *new = next >= 0 ? &cpu->threads[next] : &idle;

    begin_record(host, cpu, ID_SWITCH);
    put_bytes(cpu, old ? old->comm : idle.comm, COMM_LEN);
    put32(cpu, old ? (uint32_t)old->tid : 0);
    put32(cpu, 20);
    put64(cpu, old && prev_becomes == BLOCKED ? 1 : 0);
    put_bytes(cpu, new->comm, COMM_LEN);
    put32(cpu, (uint32_t) new->tid);
    put32(cpu, 20);
    if (old)
        old->state = prev_becomes;
    cpu->running = next;
    if (next >= 0)
        cpu->threads[next].state = RUNNING;
}

static void
wake(struct host *host, struct cpu *waker, struct cpu *target, struct thread *thread)
{
    begin_record(host, waker, ID_WAKEUP);
    put_bytes(waker, thread->comm, COMM_LEN);
    put32(waker, (uint32_t)thread->tid);
    put32(waker, 20);
    put32(waker, target->number);
    thread->state = WAITING;
}

static void
enter_guest(struct host *host, struct cpu *cpu, struct thread *thread)
{
    begin_record(host, cpu, ID_ENTRY);
    put32(cpu, 0);
    thread->in_guest = true;
}

static void
leave_guest(struct host *host, struct cpu *cpu, struct thread *thread)
{
    uint32_t reason = exit_reasons[roll(host, sizeof exit_reasons / sizeof *exit_reasons)];

    begin_record(host, cpu, ID_EXIT);
    put32(cpu, reason);
    put64(cpu, UINT64_C(0xffffffff81000000) + host->t);
    put32(cpu, 1);
    put64(cpu, 0);
    put64(cpu, 0);
    put32(cpu, 0);
    put32(cpu, 0);
    put32(cpu, 0);
    thread->in_guest = false;
}

/* ---- the host ---- */

static int
pick(struct host *host, const struct cpu *cpu, enum state state)
{
    int first = (int)roll(host, THREADS_PER_CPU);

    for (int i = 0; i < THREADS_PER_CPU; i++) {
        int at = (first + i) % THREADS_PER_CPU;

        if (cpu->threads[at].state == state)
            return at;
    }
    return -1;
}

/* One or two records of one CPU. */
static void
step(struct host *host, struct cpu *cpu)
{
    struct thread *now = cpu->running >= 0 ? &cpu->threads[cpu->running] : NULL;
    struct cpu *other = &host->cpus[roll(host, host->n_cpus)];
    uint32_t what = roll(host, 100);
    int thread;

    if (now && now->in_guest) {
        leave_guest(host, cpu, now);
    } else if (now && now->is_vcpu && what < 80) {
        enter_guest(host, cpu, now);
    } else if (what < 88 && (thread = pick(host, other, BLOCKED)) >= 0) {
        wake(host, cpu, other, &other->threads[thread]);
    } else if ((thread = pick(host, cpu, WAITING)) >= 0) {
        switch_to(host, cpu, thread, what < 96 ? WAITING : BLOCKED);
    } else if (now) {
        switch_to(host, cpu, -1, BLOCKED);
    }
}

static void
name_threads(struct cpu *cpu)
{
    for (int i = 0; i < THREADS_PER_CPU; i++) {
        struct thread *thread = &cpu->threads[i];

        /* VM i has one vCPU on every CPU; its QEMU process is 1000 + i. */
        thread->pid = 1000 + i;
        thread->tid = 2000 + (int32_t)cpu->number * THREADS_PER_CPU + i;
        thread->is_vcpu = i < VCPUS_PER_CPU;
        if (thread->is_vcpu)
            snprintf(thread->comm, COMM_LEN, "CPU %u/KVM", cpu->number % 1000);
    }
    cpu->threads[VCPUS_PER_CPU].pid = 1000 + (int32_t)cpu->number % VCPUS_PER_CPU;
    snprintf(cpu->threads[VCPUS_PER_CPU].comm, COMM_LEN, "qemu-system-x86");
    cpu->threads[VCPUS_PER_CPU + 1].pid = cpu->threads[VCPUS_PER_CPU + 1].tid;
    snprintf(cpu->threads[VCPUS_PER_CPU + 1].comm, COMM_LEN, "kworker/%u:1", cpu->number % 1000);
}

static void
open_cpu(struct cpu *cpu, uint32_t number, const char *dir)
{
    char path[4096];

    cpu->number = number;
    cpu->running = -1;
    cpu->packet = malloc(PACKET_BYTES);
    snprintf(path, sizeof path, "%s/channel0_%" PRIu32, dir, number);
    cpu->file = fopen(path, "wb");
    if (!cpu->packet || !cpu->file)
        die(path);
    name_threads(cpu);
}

static void
write_metadata(const char *dir)
{
    char path[4096];
    FILE *file;

    if (mkdir(dir, 0777) && errno != EEXIST)
        die(dir);
    snprintf(path, sizeof path, "%s/metadata", dir);
    file = fopen(path, "wb");
    if (!file || fputs(metadata, file) < 0 || fclose(file))
        die(path);
}

static void
generate(uint64_t events, uint32_t n_cpus, const char *dir)
{
    struct host host = {.n_cpus = n_cpus, .t = 60000000000, .random = UINT64_C(88172645463325252)};

    host.cpus = calloc(n_cpus, sizeof *host.cpus);
    if (!host.cpus)
        die("memory");
    write_metadata(dir);
    for (uint32_t i = 0; i < n_cpus; i++)
        open_cpu(&host.cpus[i], i, dir);
    while (host.events < events)
        step(&host, &host.cpus[roll(&host, n_cpus)]);
    for (uint32_t i = 0; i < n_cpus; i++) {
        if (host.cpus[i].used)
            close_packet(&host.cpus[i]);
        if (fclose(host.cpus[i].file))
            die(dir);
        free(host.cpus[i].packet);
    }
    free(host.cpus);
}

static uint64_t
parse_number(const char *text, uint64_t max)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > max) {
        fprintf(stderr, "gen-trace: '%s' is not a number from 1 to %" PRIu64 "\n", text, max);
        exit(2);
    }
    return value;
}

int
main(int argc, char **argv)
{
    uint64_t events = 0;
    uint32_t cpus = 4;
    const char *dir = NULL;
    bool misused = false;
    int opt;

    while ((opt = getopt(argc, argv, "n:c:o:")) != -1) {
        if (opt == 'n')
            events = parse_number(optarg, UINT64_C(10000000000));
        else if (opt == 'c')
            cpus = (uint32_t)parse_number(optarg, CPUS_MAX);
        else if (opt == 'o')
            dir = optarg;
        else
            misused = true;
    }
    if (misused || !events || !dir || optind != argc) {
        fprintf(stderr, "usage: gen-trace -n EVENTS [-c CPUS] -o DIR\n");
        return 2;
    }
    generate(events, cpus, dir);
    return 0;
}
