/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/person.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <grp.h>
#include <pwd.h>

#include "api/server.h"
#include "base/clock.h"
#include "base/error.h"

#define GROUPS_MAX 1024

/* The separator between an identity and the host where it is valid. */
static const char person_at[] = " at ";

/* Returns whether a user of this host is a member of a group. */
static bool
person_is_member(uid_t uid, gid_t group)
{
    char words[16384];
    struct passwd entry, *found = NULL;
    gid_t groups[GROUPS_MAX];
    int n = GROUPS_MAX;

    if (getpwuid_r(uid, &entry, words, sizeof(words), &found) != 0 || !found ||
        getgrouplist(found->pw_name, found->pw_gid, groups, &n) < 0)
        return false;
    for (int i = 0; i < n; i++) {
        if (groups[i] == group)
            return true;
    }
    return false;
}

/* Returns the role of another host's user on this host. It is the role of the local user with the
 * same number. */
static enum vg_role
person_role_of_user(const struct vg_request *request, const char *number)
{
    char *end = NULL;

    errno = 0;
    const unsigned long long uid = strtoull(number, &end, 10);
    if (!g_ascii_isdigit(*number) || *end || errno != 0 || uid >= UINT32_MAX)
        return VG_ROLE_NONE;
    if (uid == 0 || uid == geteuid())
        return VG_ROLE_ADMIN;
    return person_is_member((uid_t)uid, vg_socket_gid(request->api->socket)) ? VG_ROLE_OPERATOR
                                                                             : VG_ROLE_READER;
}

static enum vg_role
person_role_of_token(const struct vg_request *request, const char *name, GError **err)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GPtrArray) tokens = backend->access->list_tokens(backend->data, err);
    const int64_t now_ns = vg_clock_realtime_ns();

    for (guint i = 0; tokens && i < tokens->len; i++) {
        const struct vg_token *token = tokens->pdata[i];
        if (strcmp(token->name, name) == 0 && (!token->expires_ns || token->expires_ns > now_ns))
            return token->role;
    }
    return VG_ROLE_NONE;
}

/* Returns the role of a person, "IDENTITY at HOST", on this host. Sets *err if the role cannot be
 * determined. */
static enum vg_role
person_role(const struct vg_request *request, const char *person, GError **err)
{
    const char *at = g_strrstr(person, person_at);
    g_autofree char *identity = at ? g_strndup(person, (size_t)(at - person)) : g_strdup(person);
    const char *name = strchr(identity, ':');
    const struct vg_backend *backend = request->backend;

    if (!name++)
        return VG_ROLE_NONE;
    if (g_str_has_prefix(identity, "uid:"))
        return person_role_of_user(request, name);
    if (g_str_has_prefix(identity, "token:"))
        return person_role_of_token(request, name, err);
    return g_str_has_prefix(identity, "cert:")
               ? backend->access->role_of_subject(backend->data, name)
               : VG_ROLE_NONE;
}

char *
vg_person_settle(const struct vg_request *request, const char *named, GError **err)
{
    const char *person = named ? named : request->person;
    const struct vg_identity *identity = &request->identity;

    if (identity->role == VG_ROLE_PEER && !person) {
        vg_error(err, VG_E_DENIED,
                 "'%s' is a peer, which acts only for a person: specify the person in on_behalf_of",
                 identity->name);
        return NULL;
    }
    if (identity->role == VG_ROLE_PEER) {
        GError *error = NULL;
        const enum vg_role role = person_role(request, person, &error);
        if (error) {
            g_propagate_error(err, error);
            return NULL;
        }
        if (role != VG_ROLE_OPERATOR && role != VG_ROLE_ADMIN) {
            vg_error(err, VG_E_DENIED,
                     "'%s', for which '%s' acts, is not an operator here: the same token name, "
                     "certificate subject or user of this host needs that role",
                     person, identity->name);
            return NULL;
        }
    }
    return person ? g_strdup_printf("%s, says %s", person, identity->name)
                  : g_strdup(identity->name);
}

int
vg_person_check_here(const struct vg_request *request, bool elsewhere, GError **err)
{
    if (!elsewhere || request->identity.role != VG_ROLE_PEER)
        return 0;
    return vg_error(err, VG_E_DENIED,
                    "'%s' is a peer: this vgpud does not forward its requests; send them to the "
                    "other host",
                    request->identity.name);
}
