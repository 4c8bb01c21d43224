/* SPDX-License-Identifier: Apache-2.0
 *
 * The source of live figures above the BPF programs: threads that come, go and come back as others.
 * The programs run in memory, with a fake /proc beside them; bpf-load.h is answered here. Time is
 * the real one.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/bpf-load.h"
#include "collectors/cpu-source.h"
#include "host/proc-scan.h"
#include "tests/unit/bpf-memory.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-map.h"
#include "tests/unit/fake-proc.h"

/* A tick of /proc. */
#define TICK_NS (10 * VG_NS_PER_MS)
/* When all threads here were born, in ticks. */
#define BORN 5

/* VM 0: main thread 100, vCPUs 101 and 102; 300 is a program. */
enum { MAIN = 100, VCPU = 101, VCPU2 = 102, PROGRAM = 300 };

/* ---- bpf-load.h ---- */

struct vg_bpf {
    bool sees_guests;
    const char *exits_lack;
};

static struct vg_bpf loaded = {.sees_guests = true};

vg_bpf *
vg_bpf_load(const char *proc, GError **err)
{
    (void)proc, (void)err;
    return &loaded;
}

void
vg_bpf_free(vg_bpf *bpf)
{
    (void)bpf;
}

const struct vg_bpf_memory *
vg_bpf_memory(const vg_bpf *bpf)
{
    (void)bpf;
    return bpf_memory();
}

const struct vg_bpf_totals *
vg_bpf_totals(const vg_bpf *bpf)
{
    (void)bpf;
    return bpf_memory_totals();
}

int
vg_bpf_cells_fd(const vg_bpf *bpf)
{
    (void)bpf;
    return FAKE_MAP_FD;
}

int
vg_bpf_notes_fd(const vg_bpf *bpf)
{
    (void)bpf;
    return -1;
}

void
vg_bpf_take_notes(vg_bpf *bpf, void (*take)(void *data, const struct vg_bpf_note *note), void *data)
{
    (void)bpf;
    for (unsigned i = 0; i < bpf_memory_notes()->len; i++)
        take(data, &g_array_index(bpf_memory_notes(), struct vg_bpf_note, i));
}

int
vg_bpf_check(vg_bpf *bpf, GError **err)
{
    (void)bpf, (void)err;
    return 0;
}

bool
vg_bpf_sees_guests(const vg_bpf *bpf)
{
    return bpf->sees_guests;
}

const char *
vg_bpf_exits_lack(const vg_bpf *bpf)
{
    return bpf->exits_lack;
}

bool
vg_bpf_could_see_guests(const vg_bpf *bpf)
{
    (void)bpf;
    return false;
}

int
vg_bpf_see_guests(vg_bpf *bpf, bool see, GError **err)
{
    (void)err;
    bpf->sees_guests = see;
    return 0;
}

int64_t
vg_bpf_take_cost(vg_bpf *bpf)
{
    (void)bpf;
    return 0;
}

uint64_t
vg_bpf_take_missed(vg_bpf *bpf)
{
    (void)bpf;
    return 0;
}

/* ---- the host ---- */

struct host {
    char *proc;
    vg_cpu_source *source;
    vg_thread *self;
    GPtrArray *vms; /* struct vg_proc_vm, owned */
    struct vg_window window;
    struct vg_provenance provenance;
};

static void
vm_free(void *data)
{
    struct vg_proc_vm *vm = data;

    g_array_unref(vm->vcpus);
    g_free(vm);
}

static struct vg_proc_vm *
add_vm(struct host *h, uint32_t id, int32_t pid)
{
    struct vg_proc_vm *vm = g_new0(struct vg_proc_vm, 1);

    vm->id = id;
    vm->pid = pid;
    g_snprintf(vm->name, sizeof(vm->name), "vm-%u", id);
    vm->vcpus = g_array_new(FALSE, TRUE, sizeof(struct vg_proc_vcpu));
    g_ptr_array_add(h->vms, vm);
    return vm;
}

static void
add_vcpu(struct vg_proc_vm *vm, int32_t tid)
{
    struct vg_proc_vcpu vcpu = {.tid = tid, .index = (int32_t)vm->vcpus->len, .is_kvm = true};

    g_array_append_val(vm->vcpus, vcpu);
}

/* A thread as /proc has it, and the kernel. */
static void
bear(const struct host *h, const struct fake_task *task)
{
    fake_proc_task(h->proc, task);
    bpf_set_thread(task->tid, task->pid, task->start * TICK_NS + 1, false);
}

static void
idle_until_stopped(vg_thread *self, void *arg)
{
    (void)arg;
    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + VG_NS_PER_S))
        ;
}

static int
setup(void **state)
{
    struct host *h = g_new0(struct host, 1);

    fake_clock_start();
    bpf_memory_reset();
    loaded.sees_guests = true;
    h->proc = fake_proc_new();
    h->vms = g_ptr_array_new_with_free_func(vm_free);
    h->self = vg_thread_new("self", idle_until_stopped, NULL, NULL, NULL);
    bear(h, &(struct fake_task){.pid = MAIN, .tid = MAIN, .comm = "qemu", .start = BORN});
    bear(h, &(struct fake_task){.pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = BORN});
    bear(h, &(struct fake_task){.pid = MAIN, .tid = VCPU2, .comm = "CPU 1/KVM", .start = BORN});
    bpf_set_thread(PROGRAM, PROGRAM, 1, false);
    bpf_set_current(0, PROGRAM);
    bpf_set_current(1, 0);
    h->source = vg_source_bpf_new(h->proc);
    assert_int_equal(h->source->ops->open(h->source, NULL), 0);
    *state = h;
    return 0;
}

static int
teardown(void **state)
{
    struct host *h = *state;

    vg_cpu_source_free(h->source);
    vg_window_clear(&h->window);
    g_ptr_array_unref(h->vms);
    vg_thread_free(h->self);
    fake_clock_stop();
    fake_proc_remove(h->proc);
    g_free(h->proc);
    g_free(h);
    return 0;
}

static void
watch(struct host *h)
{
    assert_int_equal(h->source->ops->watch(h->source, h->vms, h->self, NULL), 0);
}

/* The next window; the one before is gone. */
static void
read_window(struct host *h)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->provenance = (struct vg_provenance){0};
    assert_int_equal(
        h->source->ops->read(h->source, h->vms, h->self, &h->window, &h->provenance, NULL), 0);
}

static void
pass(int64_t ms)
{
    fake_clock_pass(ms * VG_NS_PER_MS);
    bpf_set_now(vg_clock_monotonic_ns());
}

static const struct vg_vm_sample *
vm_of(const struct host *h, uint32_t id)
{
    const struct vg_vm_sample *vm = vg_window_vm(&h->window, id);

    assert_non_null(vm);
    return vm;
}

/* ---- tests ---- */

static void
test_starts_and_stops_within_a_window(void **state)
{
    struct host *h = *state;

    read_window(h);
    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    watch(h);
    pass(1);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(20);
    bpf_switch(1, VCPU, BPF_LEAVES_EXITED, 0);
    g_ptr_array_set_size(h->vms, 0);
    read_window(h);
    assert_int_equal(h->window.vms->len, 1);
    assert_string_equal(vm_of(h, 0)->name, "vm-0");
    assert_true(vm_of(h, 0)->cpu.run_ns >= 20 * VG_NS_PER_MS);
    assert_int_equal(vm_of(h, 0)->vcpus->len, 1);
    /* Afterwards nothing is left of it. */
    read_window(h);
    assert_int_equal(h->window.vms->len, 0);
    read_window(h);
    for (unsigned i = 0; i < VG_BPF_PAGE_INDEX; i++)
        assert_int_equal(bpf_memory()->tid_pages[i], 0);
}

static void
test_hot_plug(void **state)
{
    struct host *h = *state;
    struct vg_proc_vm *vm = add_vm(h, 0, MAIN);

    add_vcpu(vm, VCPU);
    watch(h);
    pass(5);
    read_window(h);
    assert_int_equal(vm_of(h, 0)->vcpus->len, 1);
    add_vcpu(vm, VCPU2);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU2);
    pass(5);
    read_window(h);
    assert_int_equal(vm_of(h, 0)->vcpus->len, 2);
    assert_int_equal(g_array_index(vm_of(h, 0)->vcpus, struct vg_vcpu_sample, 1).tid, VCPU2);
    assert_true(vm_of(h, 0)->cpu.run_ns >= 5 * VG_NS_PER_MS);
    assert_true(vm_of(h, 0)->cpu.blocked_ns >= 5 * VG_NS_PER_MS);
}

/* The tid of a vCPU comes back in the same process before anybody has looked. */
static void
test_tid_comes_back(void **state)
{
    struct host *h = *state;

    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    bpf_switch(1, VCPU, BPF_LEAVES_EXITED, 0);
    read_window(h);
    int64_t run_ns = vm_of(h, 0)->cpu.run_ns;
    assert_true(run_ns >= 5 * VG_NS_PER_MS);
    bear(h, &(struct fake_task){.pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = 777});
    read_window(h);
    pass(1);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    read_window(h);
    assert_true(vm_of(h, 0)->cpu.run_ns >= 5 * VG_NS_PER_MS);
    assert_in_range(vm_of(h, 0)->cpu.run_ns, 0, vm_of(h, 0)->cpu.observed_ns);
}

/* A main thread that was a vCPU and has ended stays as a zombie for as long as others run. */
static void
test_zombie(void **state)
{
    struct host *h = *state;

    add_vcpu(add_vm(h, 0, MAIN), MAIN);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, MAIN);
    pass(5);
    bpf_switch(1, MAIN, BPF_LEAVES_EXITED, 0);
    read_window(h);
    bear(h, &(struct fake_task){
                .pid = MAIN, .tid = MAIN, .comm = "CPU 0/KVM", .start = BORN, .state = 'Z'});
    for (unsigned i = 0; i < 3; i++) {
        pass(5);
        read_window(h);
        assert_int_equal(vm_of(h, 0)->cpu.observed_ns, 0);
    }
}

/* The watch began before its first thread was gone, and the first event is one of another. */
static void
test_watch_of_one_that_was_just_replaced(void **state)
{
    struct host *h = *state;

    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    watch(h);
    bear(h, &(struct fake_task){.pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = 777});
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    read_window(h);
    assert_int_equal(vm_of(h, 0)->cpu.observed_ns, 0);
    /* From the next window on it is watched as who it is. */
    read_window(h);
    bpf_switch(1, VCPU, BPF_LEAVES_RUNNABLE, 0);
    pass(5);
    read_window(h);
    assert_true(vm_of(h, 0)->cpu.preempt_ns >= 5 * VG_NS_PER_MS);
    assert_int_equal(vm_of(h, 0)->cpu.preemptions, 1);
}

/* The pid of a VM comes back as that of another VM, with the same tids. */
static void
test_pid_comes_back(void **state)
{
    struct host *h = *state;

    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    bpf_switch(1, VCPU, BPF_LEAVES_EXITED, 0);
    g_ptr_array_set_size(h->vms, 0);
    add_vcpu(add_vm(h, 1, MAIN), VCPU);
    bear(h, &(struct fake_task){.pid = MAIN, .tid = MAIN, .comm = "qemu", .start = 777});
    bear(h, &(struct fake_task){.pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = 777});
    read_window(h);
    assert_true(vm_of(h, 0)->cpu.run_ns >= 5 * VG_NS_PER_MS);
    assert_int_equal(vm_of(h, 1)->cpu.observed_ns, 0);
    read_window(h);
    pass(1);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    read_window(h);
    assert_int_equal(h->window.vms->len, 1);
    assert_true(vm_of(h, 1)->cpu.run_ns >= 5 * VG_NS_PER_MS);
}

/* Something happened between the reading of its counters and the watch, and nothing since: of such
 * a thread, too, it is found out what it does. */
static void
test_event_just_before_the_watch(void **state)
{
    struct host *h = *state;
    struct fake_task task = {.pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = BORN};

    task.state = 'R';
    task.timeslices = 10;
    task.run_ns = 1000;
    fake_proc_task(h->proc, &task);
    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    int64_t begin_ns = vg_clock_monotonic_ns();
    watch(h);
    task.timeslices = 11;
    for (unsigned i = 0; i < 4; i++) {
        pass(5);
        task.run_ns += 5 * VG_NS_PER_MS;
        fake_proc_task(h->proc, &task);
        int64_t read_ns = vg_clock_monotonic_ns();
        read_window(h);
        /* No window tells of more than its own time, also not of that when this was not known. */
        assert_true(vm_of(h, 0)->cpu.observed_ns <= vg_clock_monotonic_ns() - begin_ns);
        begin_ns = read_ns;
    }
    assert_true(vm_of(h, 0)->cpu.run_ns >= 5 * VG_NS_PER_MS);
    assert_int_equal(vm_of(h, 0)->cpu.run_ns, vm_of(h, 0)->cpu.observed_ns);
}

static const struct vg_bpf_thread *
record_of(int32_t tid)
{
    const struct vg_bpf_thread *record = bpf_memory()->threads;

    while (record->tid != tid)
        record++;
    return record;
}

/* It is preempted, and gets its CPU back without an event: the windows after the first one do not
 * tell of a wait for who left long ago. */
static void
test_switch_in_that_is_not_seen(void **state)
{
    struct host *h = *state;
    struct fake_task task = {
        .pid = MAIN, .tid = VCPU, .comm = "CPU 0/KVM", .start = BORN, .state = 'R'};

    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(2);
    bpf_switch(1, VCPU, BPF_LEAVES_RUNNABLE, PROGRAM);
    const uint64_t ran_ns = record_of(VCPU)->exec_ns;
    assert_true(ran_ns >= 2 * VG_NS_PER_MS);
    bpf_set_current(1, VCPU);
    for (unsigned i = 1; i <= 4; i++) {
        pass(5);
        task.run_ns = ran_ns + i * 5 * VG_NS_PER_MS;
        fake_proc_task(h->proc, &task);
        read_window(h);
        const struct vg_cpu_figures *cpu = &vm_of(h, 0)->cpu;
        assert_int_equal(cpu->run_ns + cpu->preempt_ns, cpu->observed_ns);
        if (i == 1)
            assert_true(cpu->preempt_ns >= 5 * VG_NS_PER_MS);
        else if (i > 2)
            assert_true(cpu->run_ns >= 5 * VG_NS_PER_MS);
    }
    bpf_switch(1, VCPU, BPF_LEAVES_BLOCKED, 0);
    pass(5);
    read_window(h);
    assert_true(vm_of(h, 0)->cpu.blocked_ns >= 5 * VG_NS_PER_MS);
    assert_true(h->window.discontinuities > 0);
    /* Who was told to have the CPU then has it now, and gets all of it. */
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, PROGRAM);
    bpf_wakeup(1, VCPU, 1);
    pass(5);
    read_window(h);
    const GArray *lost_to = vm_of(h, 0)->lost_to;
    assert_int_equal(lost_to->len, 1);
    assert_int_equal(g_array_index(lost_to, struct vg_lost_to, 0).kind, VG_AGGRESSOR_HOST_USER);
    assert_true(g_array_index(lost_to, struct vg_lost_to, 0).ns >= 5 * VG_NS_PER_MS);
}

/* A thread that entered a guest before it was named. */
static void
test_named_after_the_watch(void **state)
{
    struct host *h = *state;
    struct vg_proc_vm *vm = add_vm(h, 0, MAIN);

    add_vcpu(vm, VCPU);
    g_array_index(vm->vcpus, struct vg_proc_vcpu, 0).index = VG_NONE;
    watch(h);
    g_array_index(vm->vcpus, struct vg_proc_vcpu, 0).index = 3;
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(1);
    read_window(h);
    const struct vg_vcpu_sample *vcpu = (const void *)vm_of(h, 0)->vcpus->data;
    assert_int_equal(vcpu->index, 3);
}

/* KVM's events are silent, and /proc stands in: a VM has guest time if one of its vCPUs has,
 * whichever. */
static void
test_guest_time_of_one_vcpu(void **state)
{
    struct host *h = *state;

    loaded.sees_guests = false;
    for (uint32_t i = 0; i < 3; i++) {
        int32_t pid = 1000 * ((int32_t)i + 1);
        struct vg_proc_vm *vm = add_vm(h, i, pid);
        for (int32_t k = 0; k < 3; k++) {
            bear(h,
                 &(struct fake_task){.pid = pid, .tid = pid + k, .comm = "CPU/KVM", .start = BORN});
            add_vcpu(vm, pid + k);
        }
    }
    watch(h);
    read_window(h);
    for (uint32_t i = 0; i < 3; i++) {
        int32_t pid = 1000 * ((int32_t)i + 1), tid = pid + (int32_t)i;
        assert_false(vm_of(h, i)->guest_known);
        bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, tid);
        pass(30);
        bpf_switch(1, tid, BPF_LEAVES_BLOCKED, 0);
        fake_proc_task(
            h->proc,
            &(struct fake_task){
                .pid = pid, .tid = tid, .comm = "CPU/KVM", .start = BORN, .guest_ticks = 2});
    }
    read_window(h);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(vm_of(h, i)->guest_known);
        assert_int_equal(vm_of(h, i)->cpu.guest_ns, 2 * TICK_NS);
    }
    assert_string_equal(h->provenance.measures[VG_MEASURE_GUEST].source, "procfs");
}

/* More threads than can be watched: the rest is told to be missing, and taken as soon as there is
 * room. */
static void
test_more_threads_than_slots(void **state)
{
    struct host *h = *state;
    struct vg_proc_vm *vm = add_vm(h, 0, MAIN);

    for (int32_t i = 0; i < VG_BPF_SLOTS + 4; i++)
        add_vcpu(vm, 1000 + i);
    read_window(h);
    assert_non_null(strstr(h->provenance.measures[VG_MEASURE_RUN].reason, "is not measured"));
    g_array_set_size(vm->vcpus, 10);
    for (unsigned i = 0; i < 3; i++)
        read_window(h);
    assert_null(h->provenance.measures[VG_MEASURE_RUN].reason);
    add_vcpu(vm, VCPU);
    watch(h);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    pass(5);
    read_window(h);
    assert_true(vm_of(h, 0)->cpu.run_ns >= 5 * VG_NS_PER_MS);
}

/* The count of exits is as good as before; the reason says what they lack. */
static void
test_exits_without_reasons(void **state)
{
    struct host *h = *state;

    add_vcpu(add_vm(h, 0, MAIN), VCPU);
    read_window(h);
    assert_null(h->provenance.measures[VG_MEASURE_EXITS].reason);
    loaded.exits_lack = "without their reasons";
    read_window(h);
    assert_string_equal(h->provenance.measures[VG_MEASURE_EXITS].source, "bpf");
    assert_non_null(
        strstr(h->provenance.measures[VG_MEASURE_EXITS].reason, "without their reasons"));
    loaded.exits_lack = NULL;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_starts_and_stops_within_a_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hot_plug, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tid_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zombie, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_of_one_that_was_just_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pid_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_event_just_before_the_watch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_switch_in_that_is_not_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_named_after_the_watch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_guest_time_of_one_vcpu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_threads_than_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exits_without_reasons, setup, teardown),
    };

    return cmocka_run_group_tests_name("source-bpf", tests, NULL, NULL);
}
