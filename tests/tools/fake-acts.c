/* SPDX-License-Identifier: Apache-2.0
 *
 * Automatic moves of api-server: a cluster whose leader carries out one move.
 */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/tools/fake-private.h"

static bool fake_is_paused;
static pthread_mutex_t fake_acts_lock = PTHREAD_MUTEX_INITIALIZER;

static int
fake_read_acts(void *data, vg_acts_report *ret, GError **err)
{
    struct vg_act_move *move = vg_record_new(&vg_act_move_record);

    (void)data;
    (void)err;
    ret->mode = VG_POLICY_ACT;
    ret->has_cluster = true;
    ret->acting = vg_record_new(&vg_acting_record);
    ret->acting->host = g_strdup("host-a");
    ret->acting->mode = VG_POLICY_ACT;
    ret->acting->acts = true;
    ret->acting->at_ns = VG_NS_PER_S;
    ret->acting->budget = 3;
    ret->acting->plan_id = g_strdup("plan-0123456789abcdef");
    ret->acting->plan_hash = g_strdup("0123456789abcdef");
    move->act = g_strdup("plan-0123456789abcdef/1");
    move->vm = g_strdup("alpha");
    move->uuid = g_strdup("5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    move->from = g_strdup("host-a");
    move->to = g_strdup("host-b");
    move->wave = 1;
    move->group = 1;
    move->step = VG_ACT_DONE;
    g_ptr_array_add(ret->acting->moves, move);
    pthread_mutex_lock(&fake_acts_lock);
    if (fake_is_paused) {
        ret->pause = vg_record_new(&vg_act_mark_record);
        ret->pause->by = g_strdup("ops");
        ret->pause->at_ns = VG_NS_PER_S;
    }
    pthread_mutex_unlock(&fake_acts_lock);
    return 0;
}

static int
fake_set_paused(void *data, bool paused, const char *asked_by, GError **err)
{
    (void)data;
    (void)asked_by;
    (void)err;
    pthread_mutex_lock(&fake_acts_lock);
    fake_is_paused = paused;
    pthread_mutex_unlock(&fake_acts_lock);
    return 0;
}

static int
fake_set_vm_mode(void *data, const char *vm, enum vg_policy_mode mode, GError **err)
{
    (void)data;
    (void)mode;
    if (strcmp(vm, "alpha") != 0 && strcmp(vm, "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000") != 0)
        return vg_error(err, VG_E_NOT_FOUND, "this host has no VM '%s'", vm);
    return 0;
}

static bool
fake_is_spent(void *data)
{
    (void)data;
    return false;
}

const struct vg_backend_acts fake_acts = {
    .read = fake_read_acts,
    .set_paused = fake_set_paused,
    .set_vm_mode = fake_set_vm_mode,
    .is_spent = fake_is_spent,
};
