/* SPDX-License-Identifier: Apache-2.0
 *
 * For whom a thread waited: out of readings made up here, and of those of the BPF programs when
 * there are more holders of a CPU than they have room for.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectors/bpf-losses.h"
#include "tests/unit/bpf-memory.h"
#include "tests/unit/fake-map.h"

#define HOLDERS 64
enum { A, B, C };

struct told {
    int64_t ns[HOLDERS];
    uint64_t count[HOLDERS];
    int64_t user_ns;
    uint64_t user_count;
    int64_t process_ns[HOLDERS];
    uint64_t process_count[HOLDERS];
    int64_t unknown_ns;
    int64_t sum_ns; /* of the last reading */
};

struct losses {
    vg_bpf_cells *cells;
    vg_bpf_given *given;
    struct told told;
};

static int
setup(void **state)
{
    struct losses *l = g_new0(struct losses, 1);

    bpf_memory_reset();
    l->cells = vg_bpf_cells_new(FAKE_MAP_FD);
    l->given = vg_bpf_given_new();
    *state = l;
    return 0;
}

static int
teardown(void **state)
{
    struct losses *l = *state;

    vg_bpf_cells_free(l->cells);
    vg_bpf_given_free(l->given);
    g_free(l);
    return 0;
}

static void
tell(void *data, uint32_t holder, int64_t ns, uint64_t count)
{
    struct told *told = data;

    assert_true(ns >= 0);
    assert_true(ns > 0 || count > 0);
    told->sum_ns += ns;
    if (holder == VG_BPF_HOLDER_UNKNOWN) {
        told->unknown_ns += ns;
        return;
    }
    if (holder == VG_BPF_HOLDER_USER) {
        told->user_ns += ns;
        told->user_count += count;
        return;
    }
    assert_true(holder < HOLDERS);
    told->ns[holder] += ns;
    told->count[holder] += count;
}

static void
tell_process(void *data, int32_t pid, int64_t ns, uint64_t count)
{
    struct told *told = data;

    assert_true(ns >= 0);
    assert_true(ns > 0 || count > 0);
    assert_true(pid > 0 && pid < HOLDERS);
    told->process_ns[pid] += ns;
    told->process_count[pid] += count;
}

static void
take(struct losses *l, const struct vg_bpf_reading *reading, uint32_t slot, int64_t waited_ns)
{
    l->told.sum_ns = 0;
    vg_bpf_given_take(l->given, reading, slot, l->cells, waited_ns,
                      &(struct vg_bpf_losses_sink){&l->told, tell, tell_process});
    assert_int_equal(l->told.sum_ns, waited_ns);
}

/* A reading that says a_ns, b_ns and c_ns. */
static void
take_abc(struct losses *l, int64_t a_ns, int64_t b_ns, int64_t c_ns, int64_t waited_ns)
{
    struct vg_bpf_reading r = {.n_losses = 3};

    r.losses[A] = (struct vg_bpf_loss){.holder = A, .ns = a_ns, .count = 1};
    r.losses[B] = (struct vg_bpf_loss){.holder = B, .ns = b_ns};
    r.losses[C] = (struct vg_bpf_loss){.holder = C, .ns = c_ns};
    take(l, &r, 1, waited_ns);
}

/* A wait that was told to be lost to B was none: B does not pay for that with what it has later. */
static void
test_forgiven(void **state)
{
    struct losses *l = *state;

    take_abc(l, 10, 500, 0, 510);
    take_abc(l, 10, 20, 0, 0);
    vg_bpf_given_forgive(l->given);
    take_abc(l, 10, 50, 5, 35);
    assert_int_equal(l->told.ns[A], 10);
    assert_int_equal(l->told.ns[B], 530);
    assert_int_equal(l->told.ns[C], 5);
    assert_int_equal(l->told.unknown_ns, 0);
}

static void
test_only_what_is_new(void **state)
{
    struct losses *l = *state;

    take_abc(l, 10, 20, 0, 30);
    take_abc(l, 10, 25, 7, 12);
    take_abc(l, 10, 25, 7, 0);
    assert_int_equal(l->told.ns[A], 10);
    assert_int_equal(l->told.ns[B], 25);
    assert_int_equal(l->told.ns[C], 7);
    assert_int_equal(l->told.count[A], 1);
    assert_int_equal(l->told.unknown_ns, 0);
}

/* A was given what turned out to be B's. */
static void
test_corrections(void **state)
{
    struct losses *l = *state;

    take_abc(l, 100, 0, 0, 100);
    take_abc(l, 60, 140, 0, 100);
    assert_int_equal(l->told.ns[A], 100);
    assert_int_equal(l->told.ns[B], 100);
    /* A gets nothing until it has lost what it was given too much; B is still owed 40. */
    take_abc(l, 90, 150, 0, 40);
    assert_int_equal(l->told.ns[A], 100);
    assert_int_equal(l->told.ns[B], 140);
    take_abc(l, 120, 150, 0, 30);
    assert_int_equal(l->told.ns[A], 120);
    assert_int_equal(l->told.ns[B], 150);
    assert_int_equal(l->told.unknown_ns, 0);
}

static void
test_nobody_knows(void **state)
{
    struct losses *l = *state;

    take_abc(l, 10, 0, 0, 100);
    assert_int_equal(l->told.unknown_ns, 90);
    /* What comes to light later is told when there is a wait to tell it of. */
    take_abc(l, 100, 0, 0, 0);
    take_abc(l, 100, 0, 0, 50);
    assert_int_equal(l->told.ns[A], 60);
    take_abc(l, 100, 0, 0, 40);
    assert_int_equal(l->told.ns[A], 100);
    assert_int_equal(l->told.unknown_ns, 90);
}

/* Whatever readings say, also such as take back what was said. */
static void
test_any_readings(void **state)
{
    struct losses *l = *state;
    int64_t waited_ns = 0, told_ns = 0;

    srand(1);
    for (unsigned i = 0; i < 10000; i++) {
        struct vg_bpf_reading r = {.n_losses = (unsigned)rand() % VG_BPF_LOSSES_MAX};
        int64_t waited = rand() % 1000;
        for (unsigned k = 0; k < r.n_losses; k++)
            r.losses[k] = (struct vg_bpf_loss){.holder = (uint32_t)rand() % HOLDERS,
                                               .ns = rand() % (1 + (int)i),
                                               .count = (uint64_t)rand() % 3};
        take(l, &r, 1, waited);
        waited_ns += waited;
    }
    for (unsigned i = 0; i < HOLDERS; i++)
        told_ns += l->told.ns[i];
    assert_int_equal(told_ns + l->told.unknown_ns, waited_ns);
}

/* ---- cells ---- */

static void
add_cell(uint32_t slot, uint32_t holder, uint64_t ns)
{
    const struct vg_bpf_cell_key key = {.slot = slot, .holder = holder};
    const struct vg_bpf_cell value = {.ns = ns, .count = 1};

    assert_int_equal(fake_map_add(&key, &value), 0);
}

static void
test_cells(void **state)
{
    struct losses *l = *state;
    struct vg_bpf_reading r = {.n_losses = 1};

    r.losses[0] = (struct vg_bpf_loss){.holder = A, .ns = 5};
    add_cell(1, A, 100);
    add_cell(1, B, 30);
    add_cell(2, C, 7);
    /* Nothing was evicted as far as it is told, so nothing is read. */
    vg_bpf_cells_update(l->cells, 0);
    take(l, &r, 1, 5);
    vg_bpf_cells_update(l->cells, 3);
    take(l, &r, 1, 130);
    assert_int_equal(l->told.ns[A], 105);
    assert_int_equal(l->told.ns[B], 30);
    assert_int_equal(l->told.ns[C], 0);
    assert_int_equal(l->told.count[B], 1);
    vg_bpf_cells_delete(l->cells, 1);
    assert_int_equal(fake_map_count(), 1);
    vg_bpf_cells_delete(l->cells, 1);
    vg_bpf_cells_delete(l->cells, 2);
    assert_int_equal(fake_map_count(), 0);
}

/* ---- many holders ---- */

#define VICTIM 10

struct crowd {
    vg_bpf_slots *slots;
    uint32_t victim;
    int64_t truth_ns[HOLDERS]; /* lost to each VM */
    uint64_t truth_count[HOLDERS];
    int64_t waited_ns;
};

/* VM i is the process 1000 + 10 i with one vCPU, and VM 0 the victim's. */
static int32_t
vcpu_of(unsigned vm)
{
    return vm == 0 ? VICTIM : (int32_t)(1001 + 10 * vm);
}

static void
crowd_init(struct crowd *c, unsigned vms)
{
    *c = (struct crowd){.slots = vg_bpf_slots_new(bpf_memory())};
    for (unsigned vm = 0; vm < vms; vm++) {
        bpf_set_thread(vcpu_of(vm), vcpu_of(vm) - 1, 1, false);
        /* As threads of the emulator: holders without the flag, so that they are numbers of VMs. */
        uint32_t slot =
            vg_bpf_slots_publish(c->slots, vm == 0 ? VICTIM : vcpu_of(vm) - 1, vm, vm == 0);
        if (vm == 0)
            c->victim = slot;
    }
    bpf_set_current(0, VICTIM);
}

/* The victim is preempted; then these VMs hold the CPU one after the other, so long each. */
static void
wait_once(struct crowd *c, const unsigned *vms, unsigned n, int64_t slice_ns)
{
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, vcpu_of(vms[0]));
    c->truth_count[vms[0]]++;
    for (unsigned i = 0; i < n; i++) {
        bpf_set_now(bpf_memory_now() + slice_ns);
        c->truth_ns[vms[i]] += slice_ns;
        c->waited_ns += slice_ns;
        bpf_switch(0, vcpu_of(vms[i]), BPF_LEAVES_BLOCKED,
                   i + 1 < n ? vcpu_of(vms[i + 1]) : VICTIM);
    }
}

static void
take_crowd(struct losses *l, struct crowd *c)
{
    static const struct vg_bpf_assumed nothing;
    struct vg_bpf_reading r;

    vg_bpf_cells_update(l->cells, bpf_memory_totals()->evictions);
    assert_true(vg_bpf_record_read(&bpf_memory()->threads[c->victim], bpf_memory_cpu_of, NULL,
                                   &nothing, bpf_memory_now, &r));
    take(l, &r, c->victim, c->waited_ns);
    c->waited_ns = 0;
}

static void
delete_cells(void *data, uint32_t slot)
{
    vg_bpf_cells_delete(data, slot);
}

/* Nothing of the victim is left in the map. */
static void
crowd_clear(struct losses *l, struct crowd *c)
{
    vg_bpf_slots_withdraw(c->slots, c->victim);
    for (unsigned i = 0; i < 2; i++) {
        vg_bpf_cells_update(l->cells, bpf_memory_totals()->evictions);
        vg_bpf_slots_settle(c->slots, delete_cells, l->cells);
    }
    assert_int_equal(fake_map_count(), 0);
    vg_bpf_slots_free(c->slots);
}

/* More than shares, and in no wait more than lanes: all of it is known. */
static void
test_more_than_shares(void **state)
{
    struct losses *l = *state;
    struct crowd c;

    crowd_init(&c, 24);
    srand(2);
    for (unsigned i = 0; i < 500; i++) {
        unsigned vms[4];
        for (unsigned k = 0; k < G_N_ELEMENTS(vms); k++)
            vms[k] = 1 + ((unsigned)rand() % 22 + k) % 23;
        wait_once(&c, vms, 1 + (unsigned)rand() % 4, 1 + rand() % 100);
        if (i % 7 == 0)
            take_crowd(l, &c);
    }
    take_crowd(l, &c);
    assert_true(bpf_memory_totals()->evictions > 100);
    for (unsigned vm = 1; vm < 24; vm++) {
        assert_int_equal(l->told.ns[vm], c.truth_ns[vm]);
        assert_int_equal(l->told.count[vm], c.truth_count[vm]);
    }
    assert_int_equal(l->told.unknown_ns, 0);
    crowd_clear(l, &c);
}

/* More than lanes in one wait: who is forgotten loses to the unknown, and nobody gets more than it
 * held. */
static void
test_more_than_lanes(void **state)
{
    struct losses *l = *state;
    struct crowd c;
    unsigned vms[HOLDERS];
    int64_t known_ns = 0;

    crowd_init(&c, 50);
    srand(3);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < HOLDERS; k++)
            vms[k] = 1 + ((unsigned)rand() % 48 + k) % 49;
        wait_once(&c, vms, HOLDERS, 10);
        take_crowd(l, &c);
    }
    for (unsigned vm = 1; vm < 50; vm++) {
        assert_true(l->told.ns[vm] <= c.truth_ns[vm]);
        assert_int_equal(l->told.count[vm], c.truth_count[vm]);
        known_ns += l->told.ns[vm];
    }
    assert_true(l->told.unknown_ns > 0);
    /* The last ones of each wait are there. */
    assert_true(known_ns >= 100 * (VG_BPF_LANES - 1) * 10);
    crowd_clear(l, &c);
}

static void
test_no_room_for_cells(void **state)
{
    struct losses *l = *state;
    struct crowd c;
    int64_t known_ns = 0, truth_ns = 0;

    fake_map_reset(3);
    crowd_init(&c, 50);
    for (unsigned vm = 1; vm < 50; vm++)
        wait_once(&c, &vm, 1, 10);
    take_crowd(l, &c);
    assert_int_equal(bpf_memory_totals()->evictions, 49 - VG_BPF_SHARES);
    assert_int_equal(bpf_memory_totals()->cells_full, 49 - VG_BPF_SHARES - 3);
    for (unsigned vm = 1; vm < 50; vm++) {
        known_ns += l->told.ns[vm];
        truth_ns += c.truth_ns[vm];
    }
    assert_int_equal(known_ns, (VG_BPF_SHARES + 3) * 10);
    assert_int_equal(known_ns + l->told.unknown_ns, truth_ns);
    crowd_clear(l, &c);
}

/* ---- processes of the host ---- */

#define PROGRAM(i) ((int32_t)(20 + (i)))
#define PROGRAMS   40

/* Programs that hold the CPU while the victim waits, one after the other. */
static void
hold(struct crowd *c, const unsigned *programs, unsigned n, int64_t slice_ns)
{
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, PROGRAM(programs[0]));
    c->truth_count[programs[0]]++;
    for (unsigned i = 0; i < n; i++) {
        bpf_set_now(bpf_memory_now() + slice_ns);
        c->truth_ns[programs[i]] += slice_ns;
        c->waited_ns += slice_ns;
        bpf_switch(0, PROGRAM(programs[i]), BPF_LEAVES_BLOCKED,
                   i + 1 < n ? PROGRAM(programs[i + 1]) : VICTIM);
    }
}

static void
programs_init(struct crowd *c)
{
    char comm[16];

    crowd_init(c, 1);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        bpf_set_thread(PROGRAM(i), PROGRAM(i), 1, false);
        g_snprintf(comm, sizeof(comm), "program-%u", i);
        bpf_set_comm(PROGRAM(i), comm);
    }
}

static const char *
name_of(unsigned i)
{
    const struct vg_bpf_name *name = &bpf_memory()->names[PROGRAM(i)];

    assert_int_equal(name->pid, PROGRAM(i));
    return (const char *)name->comm;
}

/* As long as there is room each is told exactly, by its name, and all of them together, too. */
static void
test_processes(void **state)
{
    struct losses *l = *state;
    struct crowd c;

    programs_init(&c);
    /* Another thread of it runs: the name is that of the process. */
    bpf_set_thread(90, PROGRAM(3), 1, false);
    bpf_set_comm(90, "a-thread");
    srand(4);
    for (unsigned i = 0; i < 300; i++) {
        unsigned programs[3];
        for (unsigned k = 0; k < G_N_ELEMENTS(programs); k++)
            programs[k] = ((unsigned)rand() % 8 + k) % 10;
        hold(&c, programs, 1 + (unsigned)rand() % 3, 1 + rand() % 100);
        if (i % 7 == 0)
            take_crowd(l, &c);
    }
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, 90);
    c.truth_count[3]++;
    bpf_set_now(bpf_memory_now() + 1000);
    c.truth_ns[3] += 1000;
    c.waited_ns += 1000;
    /* The wait goes on while it is told. */
    take_crowd(l, &c);
    bpf_switch(0, 90, BPF_LEAVES_BLOCKED, VICTIM);
    take_crowd(l, &c);
    int64_t sum_ns = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(l->told.process_ns[PROGRAM(i)], c.truth_ns[i]);
        assert_int_equal(l->told.process_count[PROGRAM(i)], c.truth_count[i]);
        sum_ns += c.truth_ns[i];
    }
    assert_int_equal(l->told.user_ns, sum_ns);
    assert_int_equal(l->told.unknown_ns, 0);
    assert_string_equal(name_of(3), "program-3");
    /* After an exec it has another name. */
    bpf_set_comm(PROGRAM(5), "cc1");
    hold(&c, &(unsigned){5}, 1, 1);
    assert_string_equal(name_of(5), "cc1");
    take_crowd(l, &c);
    crowd_clear(l, &c);
}

/* More than there is room for, in the lanes and in the shares: what each is told is no more than
 * the truth, together they stay exact, and what they do to VMs is not lost. */
static void
test_many_processes(void **state)
{
    struct losses *l = *state;
    struct crowd c;
    int64_t truth_ns = 0, told_ns = 0;
    uint64_t truth_count = 0;

    programs_init(&c);
    srand(5);
    for (unsigned i = 0; i < 200; i++) {
        unsigned programs[PROGRAMS];
        for (unsigned k = 0; k < PROGRAMS; k++)
            programs[k] = ((unsigned)rand() % 30 + k) % PROGRAMS;
        hold(&c, programs, 1 + (unsigned)rand() % PROGRAMS, 10);
        if (i % 5 == 0)
            take_crowd(l, &c);
    }
    take_crowd(l, &c);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        truth_ns += c.truth_ns[i];
        truth_count += c.truth_count[i];
        told_ns += l->told.process_ns[PROGRAM(i)];
        assert_true(l->told.process_ns[PROGRAM(i)] <= c.truth_ns[i]);
        assert_true(l->told.process_count[PROGRAM(i)] <= c.truth_count[i]);
    }
    assert_int_equal(l->told.user_ns, truth_ns);
    assert_int_equal(l->told.user_count, truth_count);
    assert_int_equal(l->told.unknown_ns, 0);
    assert_true(told_ns > 0 && told_ns < truth_ns);
    /* What they had in cells was taken. */
    assert_int_equal(fake_map_count(), 0);
    crowd_clear(l, &c);
}

/* Processes make room for VMs, and take none from them. */
static void
test_processes_beside_vms(void **state)
{
    struct losses *l = *state;
    struct crowd c;
    int64_t vms_ns = 0;

    crowd_init(&c, VG_BPF_LANES + 1);
    for (unsigned i = 0; i < PROGRAMS; i++)
        bpf_set_thread(PROGRAM(i), PROGRAM(i), 1, false);
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, PROGRAM(0));
    int32_t last = PROGRAM(0);
    for (unsigned i = 1; i < 2 * PROGRAMS; i++) {
        bpf_set_now(bpf_memory_now() + 10);
        int32_t next = i % 2 && i / 2 < VG_BPF_LANES ? vcpu_of(1 + i / 2) : PROGRAM(i / 2);
        bpf_switch(0, last, BPF_LEAVES_BLOCKED, next);
        last = next;
    }
    bpf_set_now(bpf_memory_now() + 10);
    bpf_switch(0, last, BPF_LEAVES_BLOCKED, VICTIM);
    c.waited_ns = (int64_t)2 * PROGRAMS * 10;
    take_crowd(l, &c);
    for (unsigned vm = 1; vm <= VG_BPF_LANES; vm++) {
        assert_int_equal(l->told.ns[vm], 10);
        vms_ns += l->told.ns[vm];
    }
    assert_int_equal(l->told.user_ns, 2 * PROGRAMS * 10 - vms_ns);
    assert_int_equal(l->told.unknown_ns, 0);
    crowd_clear(l, &c);
}

/* One that lost its share to others and comes again is told what it had in between, once. */
static void
test_process_comes_again(void **state)
{
    struct losses *l = *state;
    const uint32_t holder = VG_BPF_PROCESS | 7;
    struct vg_bpf_reading r = {.n_losses = 1};

    r.losses[0] = (struct vg_bpf_loss){.holder = holder, .ns = 100};
    take(l, &r, 1, 100);
    assert_int_equal(l->told.process_ns[7], 100);
    add_cell(1, holder, 120);
    add_cell(2, holder, 5);
    vg_bpf_cells_update(l->cells, 2);
    assert_int_equal(fake_map_count(), 0);
    r.losses[0] = (struct vg_bpf_loss){.holder = holder, .ns = 30, .count = 2};
    take(l, &r, 1, 50);
    assert_int_equal(l->told.process_ns[7], 150);
    assert_int_equal(l->told.process_count[7], 3);
    vg_bpf_cells_update(l->cells, 2);
    r.losses[0].ns = 40;
    take(l, &r, 1, 10);
    assert_int_equal(l->told.process_ns[7], 160);
    assert_int_equal(l->told.process_count[7], 3);
    assert_int_equal(l->told.user_ns, 160);
    assert_int_equal(l->told.user_count, 3);
    assert_int_equal(l->told.unknown_ns, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forgiven, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_is_new, setup, teardown),
        cmocka_unit_test_setup_teardown(test_corrections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_knows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_any_readings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cells, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_lanes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room_for_cells, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes_beside_vms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_process_comes_again, setup, teardown),
    };

    return cmocka_run_group_tests_name("bpf-losses", tests, NULL, NULL);
}
