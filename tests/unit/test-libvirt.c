/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector against libvirt's test driver, which lives in this process and reads its host from
 * a file. Its state belongs to a connection, but for test:///default, which all connections share:
 * there events come from what another connection does.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <libvirt/libvirt.h>

#include "base/clock.h"
#include "host/virt-event.h"
#include "host/virt-listen.h"
#include "tests/unit/collector-run.h"
#include "tests/unit/fake-proc.h"

#define VM_UUID   "11111111-2222-4333-8444-555555555555"
#define MDEV_UUID "c2177883-f1bb-47f0-914d-32a22e3a8804"
#define POLL_NS   (60 * VG_NS_PER_S)

static const char node[] =
    "<node>\n"
    "<domain type='test'><name>gpu-vm</name><uuid>" VM_UUID "</uuid>"
    "<memory unit='MiB'>512</memory><vcpu>2</vcpu><os><type>hvm</type></os>"
    "<seclabel type='static' model='dac' relabel='no'><label>+64055:+64055</label></seclabel>"
    "<devices><hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"
    "<address uuid='" MDEV_UUID "'/></source><alias name='ua-gpu0'/></hostdev></devices>"
    "</domain>\n"
    "<device><name>pci_0000_41_00_0</name><parent>computer</parent>"
    "<driver><name>nvidia</name></driver><capability type='pci'><class>0x030200</class>"
    "<domain>0</domain><bus>65</bus><slot>0</slot><function>0</function>"
    "<product id='0x1eb8'>Tesla T4</product><vendor id='0x10de'>NVIDIA</vendor>"
    "<capability type='mdev_types'><type id='nvidia-230'><name>GRID T4-1Q</name>"
    "<deviceAPI>vfio-pci</deviceAPI><availableInstances>15</availableInstances></type>"
    "</capability></capability></device>\n"
    "<device><name>mdev_c2177883</name><parent>pci_0000_41_00_0</parent>"
    "<capability type='mdev'><type id='nvidia-230'/><uuid>" MDEV_UUID "</uuid>"
    "<iommuGroup number='1'/></capability></device>\n"
    "</node>\n";

struct host {
    char *dir;
    char *uri;
    char *sys;
    char *proc;
};

static int
setup(void **state)
{
    struct host *host = g_new0(struct host, 1);
    g_autofree char *file = NULL;

    host->dir = fake_proc_new();
    file = g_build_filename(host->dir, "node.xml", NULL);
    fake_proc_write(file, node, strlen(node));
    host->uri = g_strdup_printf("test://%s", file);
    host->sys = g_build_filename(host->dir, "sys", NULL);
    host->proc = g_build_filename(host->dir, "proc", NULL);
    g_mkdir_with_parents(host->proc, 0700);
    *state = host;
    return 0;
}

static int
teardown(void **state)
{
    struct host *host = *state;

    fake_proc_remove(host->dir);
    g_free(host->dir);
    g_free(host->uri);
    g_free(host->sys);
    g_free(host->proc);
    g_free(host);
    return 0;
}

static const struct vg_inv_vm *
vm_named(const vg_report *report, const char *name)
{
    const struct vg_inv_vm *vm = vg_inventory_find(report->inventory, NULL, 0, name);

    assert_non_null(vm);
    return vm;
}

static void
make_user(const struct host *host, int pid, const char *user)
{
    g_autofree char *path = g_strdup_printf("%s/%d/status", host->proc, pid);
    g_autofree char *text =
        g_strdup_printf("Name:\tqemu\nUid:\t%s\t%s\t%s\t%s\n", user, user, user, user);

    fake_proc_write(path, text, strlen(text));
}

/* Two processes say they are the VM: the other user's is not libvirt's, though it came first. */
static void
test_inventory(void **state)
{
    static const char cmdline[] = "qemu\0-name\0guest=gpu-vm\0-uuid\0" VM_UUID;
    const struct host *host = *state;

    fake_proc_process(host->proc, 40, "qemu-system-x86", 1, 2, cmdline, sizeof(cmdline));
    fake_proc_task(host->proc, &(struct fake_task){.pid = 40, .tid = 41, .comm = "CPU 0/KVM"});
    make_user(host, 40, "1000");
    fake_proc_process(host->proc, 50, "qemu-system-x86", 2, 3, cmdline, sizeof(cmdline));
    make_user(host, 50, "64055");
    fake_proc_task(host->proc, &(struct fake_task){.pid = 50, .tid = 52, .comm = "CPU 1/KVM"});
    fake_proc_task(host->proc, &(struct fake_task){.pid = 50, .tid = 51, .comm = "CPU 0/KVM"});
    struct collector_run *run =
        collector_run_start(vg_libvirt_new(host->uri, "h1", host->sys, host->proc, POLL_NS));
    g_autoptr(vg_report) starting = collector_run_state(run, VG_COLLECTOR_STARTING);
    assert_non_null(strstr(starting->text, host->uri));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_non_null(strstr(ok->text, "1 domain, 1 GPU"));
    g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_INVENTORY);
    const vg_inventory *inventory = report->inventory;
    assert_string_equal(inventory->host, "h1");
    assert_string_equal(inventory->libvirt_uri, host->uri);
    assert_true(inventory->cpus > 0 && inventory->memory_bytes > 0);

    assert_int_equal(inventory->gpus->len, 1);
    const struct vg_inv_gpu *gpu = inventory->gpus->pdata[0];
    assert_string_equal(gpu->device, "0000:41:00.0");
    assert_int_equal(gpu->mdev_types->len, 1);
    assert_int_equal(((struct vg_inv_mdev_type *)gpu->mdev_types->pdata[0])->available, 15);
    assert_int_equal(gpu->mdevs->len, 1);

    assert_int_equal(inventory->vms->len, 1);
    const struct vg_inv_vm *vm = inventory->vms->pdata[0];
    assert_string_equal(vm->name, "gpu-vm");
    assert_string_equal(vm->uuid, VM_UUID);
    assert_int_equal(vm->state, VG_DOMAIN_RUNNING);
    assert_int_equal(vm->vcpus, 2);
    assert_int_equal(vm->memory_bytes, INT64_C(512) << 20);
    assert_int_equal(vm->pid, 50);
    assert_int_equal(vm->threads->len, 2);
    assert_int_equal(((struct vg_inv_vcpu *)vm->threads->pdata[1])->tid, 52);
    assert_int_equal(vm->devices->len, 1);
    const struct vg_inv_device *device = vm->devices->pdata[0];
    assert_string_equal(device->alias, "ua-gpu0");
    assert_string_equal(device->parent, "0000:41:00.0");
    assert_string_equal(device->mdev_type, "nvidia-230");
    collector_run_stop(run);
}

/* What did not change is not told again. */
static void
test_poll_is_quiet(void **state)
{
    const struct host *host = *state;
    struct collector_run *run = collector_run_start(
        vg_libvirt_new(host->uri, "h1", host->sys, host->proc, 20 * VG_NS_PER_MS));
    static const char cmdline[] = "qemu\0-uuid\0" VM_UUID;

    g_autoptr(vg_report) first = collector_run_wait(run, VG_REPORT_INVENTORY);
    collector_run_await_beats(collector_run_thread(run), 5);
    assert_int_equal(((struct vg_inv_vm *)first->inventory->vms->pdata[0])->pid, 0);
    fake_proc_process(host->proc, 60, "qemu-system-x86", 2, 2, cmdline, sizeof(cmdline));
    make_user(host, 60, "64055");
    fake_proc_task(host->proc, &(struct fake_task){.pid = 60, .tid = 61, .comm = "CPU 0/KVM"});
    g_autoptr(vg_report) second = collector_run_any(run);
    assert_int_equal(second->kind, VG_REPORT_INVENTORY);
    assert_int_equal(((struct vg_inv_vm *)second->inventory->vms->pdata[0])->pid, 60);
    collector_run_stop(run);
}

static void
test_no_connection(void **state)
{
    const struct host *host = *state;
    g_autofree char *uri = g_strdup_printf("test://%s/later.xml", host->dir);
    g_autofree char *file = g_strdup_printf("%s/later.xml", host->dir);

    struct collector_run *run =
        collector_run_start(vg_libvirt_new(uri, "h1", host->sys, host->proc, POLL_NS));
    g_autoptr(vg_report) failed = collector_run_state(run, VG_COLLECTOR_FAILED);
    assert_non_null(strstr(failed->text, uri));
    assert_non_null(strstr(failed->text, "?"));
    /* It goes on trying. */
    fake_proc_write(file, node, strlen(node));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_non_null(strstr(ok->text, uri));
    g_autoptr(vg_report) inventory = collector_run_wait(run, VG_REPORT_INVENTORY);
    assert_int_equal(inventory->inventory->gpus->len, 1);
    collector_run_stop(run);
}

static void
expect_lifecycle(struct collector_run *run, const char *text)
{
    g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_LIFECYCLE);

    assert_string_equal(report->text, text);
    assert_string_equal(report->vm, "test");
    assert_non_null(report->uuid);
}

static void
expect_state(struct collector_run *run, enum vg_domain_state state)
{
    g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_INVENTORY);

    assert_int_equal(vm_named(report, "test")->state, state);
}

static void
test_events(void **state)
{
    const struct host *host = *state;

    assert_int_equal(vg_virt_event_start(NULL), 0);
    virConnectPtr other = virConnectOpen("test:///default");
    assert_non_null(other);
    virDomainPtr domain = virDomainLookupByName(other, "test");
    assert_non_null(domain);
    struct collector_run *run = collector_run_start(
        vg_libvirt_new("test:///default", "h1", host->sys, host->proc, POLL_NS));
    expect_state(run, VG_DOMAIN_RUNNING);
    assert_int_equal(virDomainSuspend(domain), 0);
    expect_lifecycle(run, "suspended");
    expect_state(run, VG_DOMAIN_PAUSED);
    assert_int_equal(virDomainResume(domain), 0);
    expect_lifecycle(run, "resumed");
    expect_state(run, VG_DOMAIN_RUNNING);
    assert_int_equal(virDomainDestroy(domain), 0);
    expect_lifecycle(run, "stopped: destroyed");
    expect_state(run, VG_DOMAIN_SHUTOFF);
    assert_int_equal(virDomainCreate(domain), 0);
    expect_lifecycle(run, "started");
    expect_state(run, VG_DOMAIN_RUNNING);
    collector_run_stop(run);
    virDomainFree(domain);
    virConnectClose(other);
}

static void
test_event_names(void **state)
{
    static const struct {
        int event;
        int detail;
        const char *text;
    } cases[] = {
        {VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_BOOTED, "started"},
        {VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_MIGRATED, "started: incoming"},
        {VIR_DOMAIN_EVENT_RESUMED, VIR_DOMAIN_EVENT_RESUMED_MIGRATED, "migrated-in"},
        {VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_MIGRATED, "migrated-out"},
        {VIR_DOMAIN_EVENT_STOPPED, 77, "stopped"},
        {VIR_DOMAIN_EVENT_UNDEFINED, VIR_DOMAIN_EVENT_UNDEFINED_REMOVED, "undefined"},
        {VIR_DOMAIN_EVENT_CRASHED, VIR_DOMAIN_EVENT_CRASHED_PANICKED, "crashed"},
        {99, 3, "event 99: 3"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = vg_virt_lifecycle_text(cases[i].event, cases[i].detail);
        assert_string_equal(text, cases[i].text);
    }
}

static void
test_event_thread(void **state)
{
    (void)state;
    assert_int_equal(vg_virt_event_start(NULL), 0);
    assert_int_equal(vg_virt_event_start(NULL), 0);
    assert_string_equal(vg_thread_name(vg_virt_event_thread()), "virt-ev");
    collector_run_await_beats(vg_virt_event_thread(), 2);
    vg_virt_event_stop();
    assert_null(vg_virt_event_thread());
    vg_virt_event_stop();
    /* And once more. */
    assert_int_equal(vg_virt_event_start(NULL), 0);
    assert_non_null(vg_virt_event_thread());
}

static int
stop_events(void **state)
{
    (void)state;
    vg_virt_event_stop();
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_thread),
        cmocka_unit_test(test_event_names),
        cmocka_unit_test_setup_teardown(test_inventory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_poll_is_quiet, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
    };
    return cmocka_run_group_tests_name("libvirt", tests, NULL, stop_events);
}
