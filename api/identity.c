/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/identity.h"

#include <string.h>
#include <unistd.h>

#include "api/connect.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/log.h"

#define VG_LOG_TAG "api"
#define BEARER     "Bearer "
#define NO_CLIENT                                                                                  \
 "this is not a client certificate: its extended key usage does not include TLS clients"
/* vgpud's own tokens have 49 characters. */
#define TOKEN_MAX 512
/* The maximum number of clients with a warning. */
#define WARNED_MAX 256

/* ---- unix ---- */

static bool
identity_of_peer(struct vg_request *request, struct vg_conn *conn)
{
    GError *err = NULL;
    struct vg_peer *peer = &request->peer;
    struct vg_identity *identity = &conn->identity;

    if (vg_peer_read(conn->fd, peer, &err) < 0) {
        vg_answer_error(request, err);
        return false;
    }
    conn->peer = *peer;
    g_snprintf(identity->name, sizeof(identity->name), "uid:%u", (unsigned)peer->uid);
    if (peer->uid == 0 || peer->uid == geteuid())
        identity->role = VG_ROLE_ADMIN;
    else if (vg_peer_has_group(conn->fd, peer, vg_socket_gid(request->api->socket)))
        identity->role = VG_ROLE_OPERATOR;
    else
        identity->role = VG_ROLE_READER;
    return true;
}

/* ---- TCP ---- */

/* Refuses an unidentified client without giving it further information. */
static bool
identity_refuse(struct vg_request *request, struct vg_conn *conn, enum vg_refusal refusal,
                const char *why)
{
    const struct vg_backend *backend = request->backend;

    vg_answer_nobody(request, refusal, why);
    request->answer.challenge = true;
    backend->access->note_refusal(backend->data, conn->origin, 401);
    return false;
}

static bool
identity_of_token(struct vg_request *request, struct vg_conn *conn, const char *authorization)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GError) err = NULL;

    if (g_ascii_strncasecmp(authorization, BEARER, strlen(BEARER)) != 0 ||
        strlen(authorization) > TOKEN_MAX)
        return identity_refuse(request, conn, VG_REFUSAL_NONE,
                               "Authorization must be 'Bearer' followed by a token");
    g_autofree char *token = g_strdup(authorization + strlen(BEARER));
    if (backend->access->check_token(backend->data, g_strstrip(token), &request->identity, &err) ==
        0) {
        request->token = g_steal_pointer(&token);
        return true;
    }
    if (!g_error_matches(err, VG_ERROR, VG_E_DENIED)) {
        if (g_error_matches(err, VG_ERROR, VG_E_UNUSABLE))
            vg_answer_problem(request, VG_E_UNUSABLE,
                              "the token's owner cannot be determined: vgpud cannot use its "
                              "journal; vgpud's log shows why");
        else
            vg_answer_problem(request, VG_E_BUSY, "the token's owner cannot be determined");
        return false;
    }
    return identity_refuse(request, conn, VG_REFUSAL_NONE, "the token is unknown or has expired");
}

/* Returns whether to admit a client as a peer although its certificate is valid only for servers:
 * the certificate must be issued for a peer's host. Peers with earlier versions have such
 * certificates. */
static bool
identity_is_old_peer(const struct vg_request *request, const struct vg_conn *conn)
{
    g_auto(GStrv) hosts = request->backend->access->list_peer_hosts(request->backend->data);

    for (unsigned i = 0; hosts[i]; i++) {
        if (!vg_tls_peer_is_host(conn->session, hosts[i]))
            continue;
        vg_log_warn_limited(
            "a peer's certificate is valid only for servers, and a later version will refuse it: "
            "issue one that is also valid for clients peer=\"%s\" subject=\"%s\"",
            hosts[i], conn->subject);
        return true;
    }
    return false;
}

/* Reads the role of the subject for each request, as it can change during a connection. */
static bool
identity_of_certificate(struct vg_request *request, struct vg_conn *conn)
{
    const struct vg_backend *backend = request->backend;
    struct vg_identity *identity = &request->identity;

    identity->role = backend->access->role_of_subject(backend->data, conn->subject);
    g_snprintf(identity->name, sizeof(identity->name), "cert:%s", conn->subject);
    request->subject = g_strdup(conn->subject);
    if (identity->role == VG_ROLE_NONE)
        return identity_refuse(request, conn, VG_REFUSAL_NO_ROLE,
                               "no [role] in vgpud.conf lists the subject of this certificate");
    /* A peer is never an admin. */
    return conn->is_client ||
           (identity->role != VG_ROLE_ADMIN && identity_is_old_peer(request, conn)) ||
           identity_refuse(request, conn, VG_REFUSAL_NONE, NO_CLIENT);
}

static bool
identity_of_client(struct vg_request *request, struct vg_conn *conn, const char *authorization)
{
    if (!conn->settled)
        conn->subject = conn->session ? vg_tls_peer_subject(conn->session, &conn->is_client) : NULL;
    conn->settled = true;
    if (request->api->client_required && !conn->subject)
        return identity_refuse(request, conn, VG_REFUSAL_NO_CERTIFICATE,
                               "a client certificate is required");
    if (request->api->client_required && !conn->is_client && !identity_is_old_peer(request, conn))
        return identity_refuse(request, conn, VG_REFUSAL_NONE, NO_CLIENT);
    if (authorization)
        return identity_of_token(request, conn, authorization);
    if (conn->subject)
        return identity_of_certificate(request, conn);
    return identity_refuse(request, conn, VG_REFUSAL_NO_CERTIFICATE,
                           "a token or a client certificate is required");
}

bool
vg_identity_settle(struct vg_request *request, struct vg_conn *conn, const char *authorization)
{
    if (conn->is_tcp)
        return identity_of_client(request, conn, authorization);
    if (!conn->settled && !identity_of_peer(request, conn))
        return false;
    conn->settled = true;
    request->peer = conn->peer;
    request->identity = conn->identity;
    return true;
}

/* Warns once of each client that uses a person's role for a request that only peers need. */
static void
identity_warn(const struct vg_request *request)
{
    struct vg_api *api = request->api;
    const struct vg_identity *identity = &request->identity;
    const char *name = identity->name;

    pthread_mutex_lock(&api->lock);
    const bool is_new = g_hash_table_size(api->warned) < WARNED_MAX &&
                        g_hash_table_add(api->warned, g_strdup(name));
    pthread_mutex_unlock(&api->lock);
    if (is_new && request->subject)
        vg_log_warn("a peer has the role %s, which a later version will not accept on this route: "
                    "give it the role peer with [role peer] subject=%s client=\"%s\" route=\"%s\"",
                    vg_role_names[identity->role], request->subject, name, request->route->path);
    else if (is_new)
        vg_log_warn("a peer has the role %s, which a later version will not accept on this route: "
                    "give it a token with the role peer, created with `vgpuctl token create NAME "
                    "--role peer` client=\"%s\" route=\"%s\"",
                    vg_role_names[identity->role], name, request->route->path);
}

bool
vg_identity_may(struct vg_request *request, enum vg_role role, bool is_for_peers)
{
    const enum vg_role has = request->identity.role;

    if (role == VG_ROLE_PEER && has != role && vg_role_may(has, role) &&
        (request->token || request->subject))
        identity_warn(request);
    if (vg_role_may(has, role) || (has == VG_ROLE_PEER && is_for_peers))
        return true;
    vg_answer_problem(
        request, VG_E_DENIED, "'%s' has the role %s, but this request needs the role %s",
        request->identity.name, vg_role_names[request->identity.role], vg_role_names[role]);
    return false;
}

bool
vg_identity_holds(const struct vg_backend *backend, const char *token, const char *subject,
                  enum vg_role role)
{
    struct vg_identity identity = {.role = VG_ROLE_NONE};
    g_autoptr(GError) err = NULL;

    if (token && backend->access->check_token(backend->data, token, &identity, &err) != 0)
        return !g_error_matches(err, VG_ERROR, VG_E_DENIED);
    if (subject)
        identity.role = backend->access->role_of_subject(backend->data, subject);
    return (!token && !subject) || vg_role_may(identity.role, role);
}
