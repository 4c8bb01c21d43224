/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may come in, and the audit.
 */
#include "config.h"

#include <string.h>

#include "tests/tools/fake-private.h"

/* There from the start. */
static const struct {
    const char *name;
    enum vg_role role;
    bool expired;
} known_tokens[] = {
    {"reader", VG_ROLE_READER, false}, {"operator", VG_ROLE_OPERATOR, false},
    {"admin", VG_ROLE_ADMIN, false},   {"peer", VG_ROLE_PEER, false},
    {"expired", VG_ROLE_ADMIN, true},
};

static struct vg_token *
new_token(const char *name, enum vg_role role, int64_t expires_ns)
{
    struct vg_token *token = g_new0(struct vg_token, 1);

    token->name = g_strdup(name);
    token->role = role;
    token->made_ns = FAKE_BEGIN_NS;
    token->expires_ns = expires_ns;
    return token;
}

void
fake_add_known_tokens(fake_backend *fake)
{
    fake->tokens = g_ptr_array_new_with_free_func(vg_token_free);
    for (size_t i = 0; i < G_N_ELEMENTS(known_tokens); i++)
        g_ptr_array_add(fake->tokens, new_token(known_tokens[i].name, known_tokens[i].role,
                                                known_tokens[i].expired ? FAKE_BEGIN_NS : 0));
}

static struct vg_token *
find_token(const fake_backend *fake, const char *name)
{
    for (guint i = 0; i < fake->tokens->len; i++) {
        struct vg_token *token = fake->tokens->pdata[i];
        if (strcmp(token->name, name) == 0)
            return token;
    }
    return NULL;
}

static int
check_token(void *data, const char *text, struct vg_identity *ret, GError **err)
{
    fake_backend *fake = data;
    g_autofree char *name = g_strdup(text);
    char *end = g_strrstr(name, "-token");

    if (end)
        *end = '\0';
    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_token *token = end ? find_token(fake, name) : NULL;
    if (!token || (token->expires_ns != 0 && !fake->options.expired_lets_in))
        return vg_error(err, VG_E_DENIED, "no");
    ret->role = token->role;
    g_snprintf(ret->name, sizeof(ret->name), "token:%s", token->name);
    return 0;
}

static enum vg_role
role_of_subject(void *data, const char *subject)
{
    const fake_backend *fake = data;

    return g_strcmp0(fake->options.operator_subject, subject) == 0 ? VG_ROLE_OPERATOR
                                                                   : VG_ROLE_NONE;
}

static void
note_refusal(void *data, const char *origin, unsigned status)
{
    fake_backend *fake = data;

    (void)origin, (void)status;
    VG_LOCK_SCOPE(&fake->lock);
    fake->refusals++;
}

static GPtrArray *
list_tokens(void *data, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_token_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = 0; i < fake->tokens->len; i++) {
        const struct vg_token *token = fake->tokens->pdata[i];
        g_ptr_array_add(list, new_token(token->name, token->role, token->expires_ns));
    }
    return list;
}

static char *
create_token(void *data, const char *name, enum vg_role role, int64_t expires_ns, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (find_token(fake, name)) {
        vg_error(err, VG_E_CONFLICT, "the token '%s' already exists", name);
        return NULL;
    }
    g_ptr_array_add(fake->tokens, new_token(name, role, expires_ns));
    return g_strconcat(name, "-token", NULL);
}

static int
revoke_token(void *data, const char *name, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (fake->options.revoked_lets_in)
        return 0;
    return g_ptr_array_remove(fake->tokens, find_token(fake, name))
               ? 0
               : vg_error(err, VG_E_NOT_FOUND, "there is no token '%s'", name);
}

static int
audit(void *data, const struct vg_audit_entry *entry, GError **err)
{
    fake_backend *fake = data;
    struct vg_audit_entry *copy = vg_audit_entry_copy(entry);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    copy->seq = (int64_t)fake->audit->len + 1;
    copy->at_ns = FAKE_BEGIN_NS + copy->seq;
    g_ptr_array_add(fake->audit, copy);
    return 0;
}

static GPtrArray *
list_audit(void *data, int64_t before, size_t limit, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_audit_entry_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->audit->len; i > 0 && list->len < limit; i--) {
        const struct vg_audit_entry *entry = fake->audit->pdata[i - 1];
        if (entry->seq < before)
            g_ptr_array_add(list, vg_audit_entry_copy(entry));
    }
    return list;
}

static GStrv
list_peer_hosts(void *data)
{
    (void)data;
    return g_strsplit("peer.example", ";", 0);
}

const struct vg_backend_access fake_access = {
    .check_token = check_token,
    .list_peer_hosts = list_peer_hosts,
    .role_of_subject = role_of_subject,
    .note_refusal = note_refusal,
    .list_tokens = list_tokens,
    .create_token = create_token,
    .revoke_token = revoke_token,
    .audit = audit,
    .list_audit = list_audit,
};
