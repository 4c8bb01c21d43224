/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of etcd's gateway: the first byte says which one it is to be.
 */
#include "config.h"

#include <stdint.h>
#include <string.h>

#include "cluster/etcd-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_answer(const struct vg_etcd_answer *answer)
{
    if (answer->revision <= 0 || answer->pairs->len > VG_ETCD_PAGE)
        abort();
    for (guint i = 0; i < answer->pairs->len; i++) {
        const struct vg_etcd_pair *pair = answer->pairs->pdata[i];
        if (!*pair->key || strlen(pair->key) > VG_ETCD_KEY_MAX ||
            strlen(pair->value) > VG_ETCD_VALUE_MAX || pair->create_revision <= 0 ||
            pair->mod_revision < pair->create_revision || !g_utf8_validate(pair->value, -1, NULL))
            abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    g_autoptr(GError) error = NULL;
    g_auto(vg_etcd_answer) answer = {0};
    int64_t a = 0, b = 0;
    int status = 0;

    if (size == 0)
        return 0;
    size--;
    switch (data[0]) {
    case 'r':
        status = vg_etcd_read_range(text, size, &answer, &error);
        break;
    case 't':
        status = vg_etcd_read_txn(text, size, &answer, &error);
        break;
    case 'g':
        status = vg_etcd_read_grant(text, size, &a, &b, &error);
        if (status == 0 && (a == 0 || b <= 0))
            abort();
        break;
    case 'k':
        status = vg_etcd_read_keep_alive(text, size, &a, &error);
        if (status == 0 && a <= 0)
            abort();
        break;
    case 'l': {
        g_autofree char *token = vg_etcd_read_token(text, size, &error);
        status = token ? 0 : -1;
        break;
    }
    default:
        vg_etcd_read_refusal(400 + data[0], text, size, &error);
        status = -1;
    }
    if ((status < 0) != (error != NULL))
        abort();
    if (status == 0 && answer.pairs)
        check_answer(&answer);
    return 0;
}
