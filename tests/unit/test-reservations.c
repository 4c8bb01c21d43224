/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept for a VM is kept as long as its lease says, whatever becomes of this machine's
 * clock.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "fault-vfs.h"
#include "mover/reservations.h"

#define GPU_XML                                                                                    \
 "<shmem name='gpu0' role='peer'><model type='ivshmem-plain'/><size unit='M'>1</size>"             \
 "<alias name='ua-gpu0'/></shmem>"

/* Seconds that are added to the two clocks. */
static atomic_int_fast64_t jumped_s, passed_s;

int
clock_gettime(clockid_t id, struct timespec *ret)
{
    const int status = (int)syscall(SYS_clock_gettime, id, ret);

    if (id == CLOCK_REALTIME)
        ret->tv_sec += jumped_s;
    else if (id == CLOCK_MONOTONIC)
        ret->tv_sec += passed_s;
    return status;
}

/* A deadline is reached by the clock above. */
int
pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    const int64_t soon_ns = now.tv_sec * VG_NS_PER_S + now.tv_nsec + VG_NS_PER_S / 100;
    const struct timespec soon = {soon_ns / VG_NS_PER_S, soon_ns % VG_NS_PER_S};
    if (pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &soon) == 0)
        return 0;
    return vg_clock_monotonic_ns() >= until->tv_sec * VG_NS_PER_S + until->tv_nsec ? ETIMEDOUT : 0;
}

/* Time passes, on both clocks. */
static void
pass(int64_t s)
{
    passed_s += s;
    jumped_s += s;
}

struct place {
    char *dir;
    vg_journal *journal;
    vg_reservations *reservations;
    char *uri; /* of a libvirt with the VMs of domains[] */
};

/* Two VMs that run, one of them with a GPU. */
static const char domains[] =
    "<node><cpu><mhz>1</mhz><model>m</model><active>8</active><nodes>1</nodes><sockets>1</sockets>"
    "<cores>8</cores><threads>1</threads></cpu><memory>8388608</memory>"
    "<domain type='test'><name>other</name><uuid>00000000-0000-4000-8000-000000000001</uuid>"
    "<memory>1024</memory><os><type>hvm</type></os><devices>"
    "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
    "<address domain='0x0000' bus='0x51' slot='0x00' function='0x0'/></source></hostdev>"
    "</devices></domain>"
    "<domain type='test'><name>plain</name><uuid>00000000-0000-4000-8000-000000000002</uuid>"
    "<memory>1024</memory><os><type>hvm</type></os></domain></node>";

static void
start(struct place *place)
{
    const struct vg_journal_options options = {.directory = place->dir,
                                               .vfs = FAULT_VFS_NAME,
                                               .audit_days = 36500,
                                               .audit_entries = 5,
                                               .event_days = 36500,
                                               .event_entries = 100};

    place->journal = vg_journal_new(&options, NULL);
    assert_non_null(place->journal);
    place->reservations = vg_reservations_new(place->journal);
}

static void
stop(struct place *place)
{
    vg_reservations_free(place->reservations);
    vg_journal_free(place->journal);
}

static int
set_up(void **state)
{
    struct place *place = g_new0(struct place, 1);

    place->dir = g_dir_make_tmp("vgpud-reservations-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(place->dir, "libvirt.xml", NULL);
    assert_true(g_file_set_contents(path, domains, -1, NULL));
    place->uri = g_strconcat("test://", path, NULL);
    start(place);
    *state = place;
    return 0;
}

static int
tear_down(void **state)
{
    struct place *place = *state;
    GDir *dir = g_dir_open(place->dir, 0, NULL);
    const char *name;

    stop(place);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(place->dir, name, NULL);
        g_unlink(path);
    }
    g_dir_close(dir);
    g_rmdir(place->dir);
    g_free(place->uri);
    g_free(place->dir);
    g_free(place);
    jumped_s = passed_s = 0;
    return 0;
}

static struct vg_move_device *
device(enum vg_move_device_kind kind, const char *address)
{
    struct vg_move_device *one = vg_record_new(&vg_move_device_record);

    one->kind = kind;
    one->type = g_strdup("gpu0");
    one->alias = g_strdup("ua-gpu0");
    one->source_address = g_strdup(address);
    return one;
}

/* A move of a VM with a GPU. */
static struct vg_migration *
a_move(const char *id, const char *address)
{
    struct vg_migration *move = vg_migration_new();

    move->id = g_strdup(id);
    move->vm = g_strconcat("vm-of-", id, NULL);
    move->uuid = g_strconcat("uuid-of-", id, NULL);
    move->from = g_strdup("here");
    g_ptr_array_add(move->devices, device(VG_MOVE_DEVICE_PCI, address));
    return move;
}

static int
hold_move(struct place *place, const struct vg_migration *move, int64_t lease_s, GError **err)
{
    const struct vg_move_settings settings = {
        .enabled = true, .libvirt_uri = place->uri, .lease_s = lease_s};

    return vg_reservations_hold(place->reservations, &settings, move, err);
}

static int
release(struct place *place, const char *id)
{
    char uri[] = "test:///default";
    const struct vg_move_settings settings = {.libvirt_uri = uri};

    return vg_reservations_release(place->reservations, &settings, id, NULL, NULL);
}

static void
hold(struct place *place, const char *id, int64_t lease_s)
{
    g_autoptr(vg_migration) move = a_move(id, "0000:41:00.0");
    g_autoptr(GError) err = NULL;

    if (hold_move(place, move, lease_s, &err) < 0)
        fail_msg("%s", err->message);
}

static guint
count(struct place *place)
{
    g_autoptr(GPtrArray) list = vg_reservations_list(place->reservations, NULL);

    assert_non_null(list);
    return list->len;
}

static guint
count_taken(struct place *place)
{
    g_autoptr(GPtrArray) taken = vg_reservations_taken(place->reservations);

    return taken->len;
}

static int
renew(struct place *place, const char *id, int64_t lease_s)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_reservation) one =
        vg_reservations_renew(place->reservations, id, NULL, lease_s, &err);

    if (one)
        assert_int_equal((one->expires_ns - vg_clock_realtime_ns() + VG_NS_PER_S / 2) / VG_NS_PER_S,
                         lease_s);
    else
        assert_int_equal(err->code, VG_E_NOT_FOUND);
    return one ? 0 : -1;
}

static void
test_lease(void **state)
{
    struct place *place = *state;

    hold(place, "move-1", 60);
    pass(59);
    assert_int_equal(count(place), 1);
    assert_int_equal(count_taken(place), 1);
    assert_int_equal(renew(place, "res-hold-move-1", 100), 0);
    pass(99);
    assert_int_equal(count_taken(place), 1);
    pass(2);
    assert_int_equal(count_taken(place), 0);
    assert_null(vg_reservations_move_of(place->reservations, "uuid-of-move-1"));
    assert_int_equal(renew(place, "res-hold-move-1", 60), -1);
    assert_int_equal(count(place), 0);
}

/* Somebody sets the clock of the machine: forward by a year, and back by ten. */
static void
test_clock_jumps(void **state)
{
    struct place *place = *state;
    static const int64_t jumps_s[] = {31536000, -315360000};

    for (size_t i = 0; i < G_N_ELEMENTS(jumps_s); i++) {
        hold(place, "move-1", 60);
        jumped_s += jumps_s[i];
        assert_int_equal(count(place), 1);
        assert_int_equal(count_taken(place), 1);
        assert_int_equal(renew(place, "res-hold-move-1", 60), 0);
        g_autofree char *move = vg_reservations_move_of(place->reservations, "uuid-of-move-1");
        assert_string_equal(move, "move-1");
        pass(61);
        assert_int_equal(count_taken(place), 0);
        assert_int_equal(count(place), 0);
    }
}

/* A vgpud that did not run could renew nothing; who has kept something has a whole lease to do so,
 * also after a restart of the machine, whose clock was wrong. */
static void
test_restart(void **state)
{
    struct place *place = *state;

    hold(place, "move-1", 60);
    stop(place);
    pass(600);
    jumped_s += 31536000;
    start(place);
    assert_int_equal(count_taken(place), 1);
    pass(59);
    assert_int_equal(renew(place, "res-hold-move-1", 60), 0);
    pass(61);
    assert_int_equal(count(place), 0);
    stop(place);
    start(place);
    assert_int_equal(count(place), 0); /* what has lapsed does not come back */
    hold(place, "move-2", 60);
    assert_int_equal(release(place, "res-hold-move-2"), 0);
    stop(place);
    start(place);
    assert_int_equal(count(place), 0);
}

/* A disk that holds up the journal until it is let go. */
struct disk {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_free;
};

/* The time is over for which somebody waits for the journal. */
static void
disk_hang(void *data)
{
    struct disk *disk = data;
    VG_LOCK_SCOPE(&disk->lock);

    pass(60);
    while (!disk->is_free)
        pthread_cond_wait(&disk->changed, &disk->lock);
}

static void
disk_let_go(struct disk *disk)
{
    VG_LOCK_SCOPE(&disk->lock);
    disk->is_free = true;
    pthread_cond_broadcast(&disk->changed);
}

/* A hold is refused, as the journal does not say in time that it has it; later it has. */
static void
test_journal_hangs(void **state)
{
    struct place *place = *state;
    struct disk disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    g_autoptr(vg_migration) move = a_move("move-1", "0000:41:00.0");
    g_autoptr(GError) err = NULL;

    fault_vfs_call_at_lock(1, disk_hang, &disk);
    const int status = hold_move(place, move, 600, &err);
    disk_let_go(&disk);
    assert_int_equal(status, -1);
    assert_int_equal(err->code, VG_E_TIMEOUT);
    assert_int_equal(count_taken(place), 0);
    assert_int_equal(count(place), 0);
    stop(place);
    start(place);
    assert_int_equal(count(place), 0);
}

/* What has lapsed cannot be removed from the journal until there is room on the disk. */
static void
test_disk_full(void **state)
{
    struct place *place = *state;

    hold(place, "move-1", 60);
    hold(place, "move-1", 60);
    pass(61);
    fault_vfs_arm(1, FAULT_FULL, true);
    assert_int_equal(count(place), 0);
    fault_vfs_arm(0, FAULT_FULL, false);
    assert_int_equal(count(place), 0);
    stop(place);
    start(place);
    assert_int_equal(count(place), 0);
}

/* A hold that has lapsed, and whose GPU is kept for another VM, is not had again. */
static void
test_hold_of_a_stranger(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) first = a_move("move-1", "0000:41:00.0");
    g_autoptr(vg_migration) other = a_move("move-3", "0000:42:00.0");
    g_autoptr(GError) err = NULL;

    hold(place, "move-1", 60);
    hold(place, "move-1", 60); /* its own is no stranger's */
    pass(61);
    hold(place, "move-2", 60);
    assert_int_equal(hold_move(place, first, 60, &err), -1);
    assert_int_equal(err->code, VG_E_CONFLICT);
    assert_non_null(strstr(err->message, "vm-of-move-2"));
    assert_int_equal(hold_move(place, other, 60, NULL), 0);
    pass(61);
    hold(place, "move-1", 60);
}

/* A move is taken up again whose GPU a VM has by now that nothing was reserved for. */
static void
test_hold_of_what_runs(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) move = a_move("move-1", "0000:51:00.0");
    g_autoptr(GError) err = NULL;

    assert_int_equal(hold_move(place, move, 60, &err), -1);
    assert_int_equal(err->code, VG_E_CONFLICT);
    assert_string_equal(err->message, "the VM 'other' uses 0000:51:00.0");
    assert_int_equal(count(place), 0);
    g_free(move->uuid);
    move->uuid = g_strdup("00000000-0000-4000-8000-000000000001"); /* its own */
    assert_int_equal(hold_move(place, move, 60, NULL), 0);
}

/* Refuses the VM of move-9 beside any. */
static int
check_beside(void *data, const char *uuid, const char *other, GError **err)
{
    assert_null(data);
    assert_string_not_equal(uuid, other);
    return strcmp(uuid, "uuid-of-move-9") == 0
               ? vg_error(err, VG_E_CONFLICT, "not beside %s", other)
               : 0;
}

/* Has a client ask for one of a device of which there are so many. */
static int
make_by(struct place *place, const char *client, const char *move_id, bool dry_run, int64_t slots,
        char **ret_id)
{
    char uri[] = "test:///default";
    struct vg_named_device named = {.name = "gpu0", .xml = GPU_XML, .slots = slots};
    const struct vg_move_settings settings = {
        .enabled = true, .libvirt_uri = uri, .moves = 2, .named = &named, .n_named = 1};
    g_autoptr(vg_reservation) wanted = vg_reservation_new();
    g_autoptr(GError) err = NULL;

    wanted->move_id = g_strdup(move_id);
    wanted->vm = g_strdup("guest");
    wanted->uuid = g_strconcat("uuid-of-", move_id, NULL);
    wanted->from = g_strdup("there");
    wanted->lease_s = 60;
    wanted->dry_run = dry_run;
    wanted->asked_by = g_strdup(client);
    g_ptr_array_add(wanted->devices, device(VG_MOVE_DEVICE_NAMED, NULL));
    if (vg_reservations_make(place->reservations, &settings, wanted, check_beside, NULL, &err) <
        0) {
        assert_true(err->code == VG_E_CONFLICT || err->code == VG_E_DENIED);
        *ret_id = g_strdup(err->message);
        return -1;
    }
    *ret_id = g_strdup(wanted->id);
    return 0;
}

static int
make_of(struct place *place, const char *move_id, bool dry_run, int64_t slots, char **ret_id)
{
    return make_by(place, NULL, move_id, dry_run, slots, ret_id);
}

static int
make(struct place *place, const char *move_id, bool dry_run, char **ret_id)
{
    g_autofree char *id = NULL;

    if (make_of(place, move_id, dry_run, 1, &id) < 0)
        return -1;
    *ret_id = g_steal_pointer(&id);
    return 0;
}

/* There would be GPUs for all; two may be on their way at once, and GPUs kept for VMs that have
 * left are none of these. */
static void
test_how_many_come(void **state)
{
    struct place *place = *state;
    g_autofree char *one = NULL, *two = NULL, *again = NULL, *words = NULL, *three = NULL;

    hold(place, "move-0", 60);
    assert_int_equal(make_of(place, "move-1", false, 9, &one), 0);
    assert_int_equal(make_of(place, "move-2", false, 9, &two), 0);
    assert_int_equal(make_of(place, "move-2", false, 9, &again), 0);
    for (int dry_run = 0; dry_run < 2; dry_run++) {
        assert_int_equal(make_of(place, "move-3", dry_run, 9, &words), -1);
        assert_string_equal(words, "2 VMs are already moving here ('guest' from 'there', 'guest' "
                                   "from 'there'); [actions] moves on this host allows 2");
        g_clear_pointer(&words, g_free);
    }
    assert_int_equal(release(place, one), 0);
    assert_int_equal(make_of(place, "move-9", false, 9, &words), -1);
    assert_string_equal(words, "not beside uuid-of-move-2");
    assert_int_equal(make_of(place, "move-3", false, 9, &three), 0);
}

/* Only the client that has made a reservation gets it again, extends it or ends it; this vgpud
 * itself may do all that. */
static void
test_whose_it_is(void **state)
{
    struct place *place = *state;
    char uri[] = "test:///default";
    const struct vg_move_settings settings = {.libvirt_uri = uri};
    g_autofree char *id = NULL, *again = NULL, *words = NULL;

    assert_int_equal(make_by(place, "token:a", "move-1", false, 9, &id), 0);
    assert_int_equal(make_by(place, "token:b", "move-1", false, 9, &words), -1);
    assert_non_null(strstr(words, "does not belong to 'token:b'"));
    assert_int_equal(make_by(place, "token:a", "move-1", false, 9, &again), 0);
    assert_string_equal(id, again);
    g_autoptr(GError) denied = NULL;
    assert_null(vg_reservations_renew(place->reservations, id, "token:b", 60, &denied));
    assert_int_equal(denied->code, VG_E_DENIED);
    g_clear_error(&denied);
    assert_int_equal(
        vg_reservations_release(place->reservations, &settings, id, "token:b", &denied), -1);
    assert_int_equal(denied->code, VG_E_DENIED);
    assert_int_equal(count(place), 1);
    assert_int_equal(renew(place, id, 60), 0);
    assert_int_equal(vg_reservations_release(place->reservations, &settings, id, "token:a", NULL),
                     0);
    assert_int_equal(count(place), 0);
}

/* What this vgpud keeps for itself is nobody else's. */
static void
test_what_is_held_is_nobodys(void **state)
{
    struct place *place = *state;
    char uri[] = "test:///default";
    const struct vg_move_settings settings = {.libvirt_uri = uri};

    hold(place, "move-0", 60);
    g_autofree char *id = vg_reservations_hold_id("move-0");
    assert_int_equal(vg_reservations_release(place->reservations, &settings, id, "uid:0", NULL),
                     -1);
    assert_int_equal(count(place), 1);
    assert_int_equal(release(place, id), 0);
}

/* One client that has taken all places leaves one to another one, but not to a third. */
static void
test_one_keeps_nobody_out(void **state)
{
    struct place *place = *state;
    char *ids[5] = {NULL};

    for (int i = 0; i < 2; i++) {
        g_autofree char *move = g_strdup_printf("move-b%d", i);
        assert_int_equal(make_by(place, "token:b", move, false, 9, &ids[i]), 0);
    }
    assert_int_equal(make_by(place, "token:b", "move-b2", false, 9, &ids[2]), -1);
    assert_int_equal(make_by(place, "token:a", "move-a", false, 9, &ids[3]), 0);
    assert_int_equal(make_by(place, "token:c", "move-c", false, 9, &ids[4]), -1);
    assert_non_null(strstr(ids[4], "3 VMs are already moving here"));
    for (size_t i = 0; i < G_N_ELEMENTS(ids); i++)
        g_free(ids[i]);
}

static void
test_make(void **state)
{
    struct place *place = *state;
    g_autofree char *id = NULL, *again = NULL, *other = NULL;

    assert_int_equal(make(place, "move-1", false, &id), 0);
    assert_int_equal(make(place, "move-2", false, &other), -1);
    pass(50);
    /* The same move gets the same, and has it for another lease. */
    assert_int_equal(make(place, "move-1", false, &again), 0);
    assert_string_equal(id, again);
    pass(50);
    assert_int_equal(make(place, "move-2", false, &other), -1);
    jumped_s += 31536000;
    assert_int_equal(make(place, "move-2", false, &other), -1);
    pass(11);
    assert_int_equal(make(place, "move-2", false, &other), 0);
    assert_int_equal(renew(place, id, 60), -1);
}

/* Whether one is free can be asked without keeping it. */
static void
test_dry_run(void **state)
{
    struct place *place = *state;
    g_autofree char *none = NULL, *id = NULL;

    for (int i = 0; i < 2; i++)
        assert_int_equal(make(place, "move-1", true, &none), 0);
    assert_null(none);
    assert_int_equal(count(place), 0);
    assert_int_equal(make(place, "move-2", false, &id), 0);
    assert_int_equal(make(place, "move-1", true, &none), -1);
    assert_int_equal(count(place), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clock_jumps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_journal_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hold_of_a_stranger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hold_of_what_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_how_many_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whose_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_held_is_nobodys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_keeps_nobody_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dry_run, set_up, tear_down),
    };

    fault_vfs_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
