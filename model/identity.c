/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/identity.h"

#include <string.h>

#define TOKEN_TEXT_MAX 505

const char *const vg_role_names[] = {
    [VG_ROLE_NONE] = "none",   [VG_ROLE_READER] = "reader", [VG_ROLE_OPERATOR] = "operator",
    [VG_ROLE_ADMIN] = "admin", [VG_ROLE_PEER] = "peer",
};

const char *const vg_refusal_names[VG_REFUSAL_MAX + 1] = {
    [VG_REFUSAL_NONE] = NULL,
    [VG_REFUSAL_NO_CERTIFICATE] = "certificate-required",
    [VG_REFUSAL_NO_ROLE] = "subject-unknown",
    [VG_REFUSAL_MAX] = NULL,
};

bool
vg_role_may(enum vg_role has, enum vg_role wanted)
{
    if (wanted == VG_ROLE_PEER)
        return has >= VG_ROLE_OPERATOR;
    return has == VG_ROLE_PEER ? wanted == VG_ROLE_NONE : has >= wanted;
}

bool
vg_role_from_name(const char *name, enum vg_role *ret)
{
    for (int i = VG_ROLE_READER; i < VG_ROLE_MAX; i++) {
        if (strcmp(name, vg_role_names[i]) == 0) {
            *ret = (enum vg_role)i;
            return true;
        }
    }
    return false;
}

bool
vg_token_is_name(const char *name)
{
    size_t size = strlen(name);

    return size > 0 && size <= VG_TOKEN_NAME_MAX &&
           strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-") == size;
}

bool
vg_token_text_is_good(const char *text)
{
    size_t size = strlen(text);

    return size > 0 && size <= TOKEN_TEXT_MAX &&
           strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-._~+/=") == size;
}

void
vg_token_free(void *data)
{
    struct vg_token *token = data;

    if (!token)
        return;
    g_free(token->name);
    g_free(token);
}

struct vg_audit_entry *
vg_audit_entry_copy(const struct vg_audit_entry *entry)
{
    struct vg_audit_entry *copy = g_memdup2(entry, sizeof(*entry));

    copy->identity = g_strdup(entry->identity);
    copy->origin = g_strdup(entry->origin);
    copy->method = g_strdup(entry->method);
    copy->route = g_strdup(entry->route);
    copy->object = g_strdup(entry->object);
    copy->request_id = g_strdup(entry->request_id);
    return copy;
}

void
vg_audit_entry_free(void *data)
{
    struct vg_audit_entry *entry = data;

    if (!entry)
        return;
    g_free(entry->identity);
    g_free(entry->origin);
    g_free(entry->method);
    g_free(entry->route);
    g_free(entry->object);
    g_free(entry->request_id);
    g_free(entry);
}
