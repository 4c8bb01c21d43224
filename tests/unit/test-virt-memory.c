/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a guest rewrites its memory is measured once at a time, however many ask. libvirt's test
 * driver does not measure; what does is made up here.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <libvirt/libvirt.h>

#include "actuators/virt-move.h"
#include "base/clock.h"
#include "base/thread.h"
#include "host/virt-event.h"

#define UUID     "6695eb01-f6a4-8304-79aa-97f2502e193f" /* of the test driver's domain */
#define ASKERS   4
#define TIMES    3
#define RATE_MIB 7
#define MIB      (INT64_C(1) << 20)

static atomic_uint asking, measuring, most, measurements;

/* QEMU's part: what was measured is there as soon as it is asked for. */
int
virDomainStartDirtyRateCalc(virDomainPtr domain, int seconds, unsigned int flags)
{
    (void)domain;
    (void)seconds;
    (void)flags;
    const unsigned now = atomic_fetch_add(&measuring, 1) + 1;
    if (now > atomic_load(&most))
        atomic_store(&most, now);
    atomic_fetch_add(&measurements, 1);
    /* Who else asks comes here meanwhile, if nothing keeps it away. */
    while (atomic_load(&asking) < ASKERS)
        vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + VG_NS_PER_MS);
    vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + 200 * VG_NS_PER_MS);
    atomic_fetch_sub(&measuring, 1);
    return 0;
}

int
virDomainListGetStats(virDomainPtr *domains, unsigned int stats,
                      virDomainStatsRecordPtr **ret_records, unsigned int flags)
{
    virDomainStatsRecordPtr *records = g_new0(virDomainStatsRecordPtr, 2);
    int size = 0;

    (void)domains;
    (void)stats;
    (void)flags;
    records[0] = g_new0(struct _virDomainStatsRecord, 1);
    virTypedParamsAddInt(&records[0]->params, &records[0]->nparams, &size, "dirtyrate.calc_status",
                         VIR_DOMAIN_DIRTYRATE_MEASURED);
    virTypedParamsAddLLong(&records[0]->params, &records[0]->nparams, &size,
                           "dirtyrate.megabytes_per_second", RATE_MIB);
    *ret_records = records;
    return 1;
}

void
virDomainStatsRecordListFree(virDomainStatsRecordPtr *records)
{
    virTypedParamsFree(records[0]->params, records[0]->nparams);
    g_free(records[0]);
    g_free(records);
}

struct asker {
    vg_thread *thread;
    int64_t rates[TIMES];
};

static void
ask(vg_thread *self, void *arg)
{
    struct asker *asker = arg;

    (void)self;
    atomic_fetch_add(&asking, 1);
    for (int i = 0; i < TIMES; i++) {
        g_autoptr(vg_virt_link) link = vg_virt_link_open("test:///default", NULL);
        int64_t touched = 0;
        if (!link || vg_virt_measure(link, UUID, &touched, &asker->rates[i], NULL) < 0)
            asker->rates[i] = -1;
    }
}

static void
test_one_at_a_time(void **state)
{
    struct asker askers[ASKERS] = {0};
    unsigned known = 0;

    (void)state;
    for (int i = 0; i < ASKERS; i++)
        assert_non_null(askers[i].thread = vg_thread_new("asker", ask, NULL, &askers[i], NULL));
    for (int i = 0; i < ASKERS; i++) {
        vg_thread_free(askers[i].thread);
        for (int k = 0; k < TIMES; k++) {
            /* One that has waited for too long knows nothing. */
            assert_true(askers[i].rates[k] == RATE_MIB * MIB || askers[i].rates[k] == 0);
            known += askers[i].rates[k] > 0;
        }
    }
    assert_int_equal(atomic_load(&most), 1);
    assert_true(known >= atomic_load(&measurements));
}

static int
stop_loop(void **state)
{
    (void)state;
    vg_virt_event_stop();
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_at_a_time)};

    return cmocka_run_group_tests(tests, NULL, stop_loop);
}
