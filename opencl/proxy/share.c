/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/share.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/output.h"
#include "opencl/serve/turn.h"
#include "opencl/wire/pass.h"

#define SHARE_MS INT64_C(1000000) /* in ns */
#define SHARE_TURN                                                                                 \
 (20 * SHARE_MS) /* how far the holder of the device may get ahead of another client */

/* The maximum credit of a client that gave the device back, and wants it again. */
#define SHARE_CREDIT (100 * SHARE_MS)

/* How long clients that kept the device from others wait while these pause: an eighth of the
 * excess, and as much again as the others then use. The device is thus idle for at most half of the
 * time, and never longer than this. */
#define SHARE_PATIENCE_PART 8
#define SHARE_PATIENCE_MAX  (1000 * SHARE_MS)

/* A process that has not ended itself after this time is killed. */
#define SHARE_SLACK (1000 * SHARE_MS)

static void
share_send(struct proxy_client *client, char what)
{
    /* A working process is never so far behind. */
    if (client->fd >= 0 && send(client->fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        kill(client->pid, SIGKILL);
}

static bool
share_wants(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    bool wants = false;

    for (unsigned i = 0; i < share->n_clients; i++)
        wants |= share->clients[i].tenant == tenant &&
                 (share->clients[i].wants || share->clients[i].has);
    return wants;
}

static void
share_forgive(struct proxy_tenant *tenant)
{
    tenant->owed = 0;
    tenant->patience = 0;
    tenant->paused = 0;
}

static void
share_add_patience(struct proxy_tenant *tenant, int64_t ns)
{
    const int64_t patience = tenant->patience + ns;

    tenant->patience = patience < SHARE_PATIENCE_MAX ? patience : SHARE_PATIENCE_MAX;
}

/* Notes that TENANT exceeded its time by OVERRUN ns. The clients that waited may have as much. */
static void
share_owe(const struct proxy_share *share, const struct proxy_tenant *tenant, int64_t overrun)
{
    for (unsigned i = 0; i < share->n_clients; i++) {
        struct proxy_tenant *other = share->clients[i].tenant;
        if (!share->clients[i].wants || other == tenant || other->passed >= tenant->passed ||
            other->owed >= tenant->passed)
            continue;
        other->owed = tenant->passed;
        share_add_patience(other, overrun / SHARE_PATIENCE_PART);
    }
}

/* Counts the time for which CLIENT has had the device so far, and returns it. */
static int64_t
share_count(struct proxy_client *client)
{
    const int64_t now = vg_cl_now(), held = now - client->given;

    client->given = now;
    client->tenant->held += held;
    client->tenant->passed += (double)held / client->tenant->weight;
    return held;
}

static void
share_take_back(struct proxy_share *share, struct proxy_client *client)
{
    struct proxy_tenant *tenant = client->tenant;
    const int64_t held = share_count(client);
    const int64_t overrun = client->due ? vg_cl_now() - client->due - SHARE_TURN : 0;

    client->has = false;
    share->passed = tenant->passed;
    tenant->has_overrun = overrun > 0;
    if (overrun > 0)
        share_owe(share, tenant, overrun);
    if (tenant->passed >= tenant->owed)
        share_forgive(tenant);
    else
        share_add_patience(tenant, held);
}

/* Notes since when TENANT, to which others owe time, wants nothing. */
static void
share_note_pause(const struct proxy_share *share, struct proxy_tenant *tenant)
{
    const bool wants = share_wants(share, tenant);

    if (tenant->owed > 0 && wants && tenant->paused) {
        tenant->patience -= vg_cl_now() - tenant->paused;
        tenant->paused = 0;
    } else if (tenant->owed > 0 && !wants && !tenant->paused) {
        tenant->paused = vg_cl_now();
    }
}

/* Counts how long TENANT has wanted the device without having it. Called when one of its clients
 * starts to want it, gets it or returns it. */
static void
share_note_lack(const struct proxy_share *share, struct proxy_tenant *tenant)
{
    const int64_t now = vg_cl_now();
    bool wants = false, has = false;

    for (unsigned i = 0; i < share->n_clients; i++) {
        wants |= share->clients[i].wants && share->clients[i].tenant == tenant;
        has |= share->clients[i].has && share->clients[i].tenant == tenant;
    }
    if (tenant->lacks)
        tenant->lacked += now - tenant->lacks;
    tenant->lacks = wants && !has ? now : 0;
    share_note_pause(share, tenant);
}

/* Returns the weighted time of CLIENT's tenant. */
static double
share_passed(const struct proxy_client *client)
{
    double passed = client->tenant->passed;

    if (client->has)
        passed += (double)(vg_cl_now() - client->given) / client->tenant->weight;
    return passed;
}

/* Lets CLIENT want the device. It keeps only a small credit, and what another client kept from it.
 * It starts at the level of the client with the least time of those that want the device, or of the
 * last holder. */
static void
share_want(const struct proxy_share *share, struct proxy_client *client)
{
    struct proxy_tenant *tenant = client->tenant;
    double least = -1;

    if (tenant->paused && vg_cl_now() - tenant->paused >= tenant->patience)
        share_forgive(tenant);
    for (unsigned i = 0; i < share->n_clients && tenant; i++) {
        const struct proxy_client *other = &share->clients[i];
        if (!other->wants && !other->has)
            continue;
        double passed = share_passed(other);
        least = least < 0 || passed < least ? passed : least;
        if (other->tenant == tenant)
            tenant = NULL; /* it was there all the time */
    }
    if (tenant && tenant->owed <= 0) {
        least = least < 0 ? share->passed : least;
        least -= (double)SHARE_CREDIT / tenant->weight;
        tenant->passed = tenant->passed < least ? least : tenant->passed;
    }
    client->wants = true;
    client->wanted = vg_cl_now();
    share_note_lack(share, client->tenant);
}

static bool
share_is_session(const struct proxy_client *client, const unsigned char *id)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < sizeof client->session; i++)
        differs |= (unsigned char)(client->session[i] ^ id[i]);
    return !differs;
}

bool
vg_share_bring_back(const struct proxy_share *share, const struct proxy_tenant *tenant,
                    bool is_known, const struct vg_wire_session_hello *hello, int fd)
{
    const struct vg_turn_link link = {VG_TURN_LINK, *hello};
    const struct proxy_client *found = NULL;

    for (unsigned i = 0; i < share->n_clients; i++) {
        const struct proxy_client *other = &share->clients[i];
        if (other->pid && other->tenant == tenant && other->is_known == is_known &&
            share_is_session(other, hello->id))
            found = other;
    }
    if (found)
        vg_wire_pass(found->fd, &link, sizeof link, fd, MSG_DONTWAIT);
    return found;
}

unsigned
vg_share_clients_n(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    unsigned n = 0;

    for (unsigned i = 0; i < share->n_clients; i++)
        n += share->clients[i].pid && (!tenant || share->clients[i].tenant == tenant);
    return n;
}

static void
share_sign(const struct proxy_share *share, const struct proxy_client *client,
           struct vg_turn_sign *sign)
{
    vg_signer_sign(&share->signer, client->tenant->vm, client->tenant->path, sign->bytes,
                   sign->bytes);
    if (send(client->fd, sign, sizeof *sign, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof *sign)
        kill(client->pid, SIGKILL);
}

void
vg_share_hear(struct proxy_share *share, struct proxy_client *client)
{
    struct vg_turn_sign sign = {.said = 0};
    ssize_t n = recv(client->fd, &sign, sizeof sign, MSG_DONTWAIT | MSG_TRUNC);
    const char said = sign.said;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == 1 && said == VG_TURN_THERE) {
        share_send(client, VG_TURN_THERE);
    } else if (n == 1 && said == VG_TURN_WANT && !client->wants && !client->has) {
        share_want(share, client);
    } else if (n == 1 && said == VG_TURN_BACK && client->has) {
        share_take_back(share, client);
        share_note_lack(share, client->tenant);
    } else if (n == (ssize_t)sizeof sign && said == VG_TURN_SIGN) {
        share_sign(share, client, &sign);
    } else {
        if (n > 0)
            client->why_ended = "its process sent the proxy invalid data";
        kill(client->pid, SIGKILL);
        close(client->fd);
        client->fd = -1;
    }
}

void
vg_share_gone(struct proxy_share *share, struct proxy_client *client)
{
    struct proxy_tenant *tenant = client->tenant;

    if (client->has)
        share_take_back(share, client);
    client->wants = false;
    share_note_lack(share, tenant);
    if (client->fd >= 0)
        close(client->fd);
    vg_output_free(client->output);
    if (client->counts) {
        vg_share_add_did(&tenant->did, client->counts);
        vg_share_add_note(&tenant->refused, &client->counts->refused);
        vg_share_add_note(&tenant->failed, &client->counts->failed);
        vg_share_free_counts(client->counts);
    }
    tenant->pool->has[client->place] = 0;
    *client = (struct proxy_client){.fd = -1};
    if (vg_share_clients_n(share, tenant) == 0)
        share_forgive(tenant);
}

struct vg_serve_pool *
vg_share_new_pool(uint64_t most)
{
    struct vg_serve_pool *pool =
        mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (pool == MAP_FAILED)
        return NULL;
    pool->most = most;
    return pool;
}

void
vg_share_free_pool(struct vg_serve_pool *pool)
{
    if (pool)
        munmap(pool, sizeof *pool);
}

unsigned
vg_share_place(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    bool is_taken[VG_SERVE_POOL_MAX] = {false};
    unsigned place = 0;

    for (unsigned i = 0; i < share->n_clients; i++)
        if (share->clients[i].pid && share->clients[i].tenant == tenant)
            is_taken[share->clients[i].place] = true;
    while (place < VG_SERVE_POOL_MAX - 1 && is_taken[place])
        place++;
    return place;
}

struct vg_serve_counts *
vg_share_new_counts(int *fd)
{
    const size_t size = sizeof(struct vg_serve_counts);
    void *counts = MAP_FAILED;

    /* The file must not become shorter, because every holder reads all of it. */
    *fd = memfd_create("vgpu-proxy-counts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd >= 0 && ftruncate(*fd, (off_t)size) == 0 &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (counts != MAP_FAILED)
        return counts;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return NULL;
}

void
vg_share_free_counts(struct vg_serve_counts *counts)
{
    if (counts)
        munmap(counts, sizeof *counts);
}

void
vg_share_add_did(struct proxy_did *did, const struct vg_serve_counts *counts)
{
    did->done += counts->done;
    did->came += counts->came;
    did->wait_ns += (uint64_t)counts->wait_ns;
    did->run_ns += (uint64_t)counts->run_ns;
    for (unsigned i = 0; i < VG_SERVE_TOOK; i++) {
        did->took[i] += counts->took[i];
        did->waited[i] += counts->waited[i];
        did->ran[i] += counts->ran[i];
    }
}

void
vg_share_add_note(struct vg_serve_note *sum, const struct vg_serve_note *note)
{
    const int64_t at = note->at;

    sum->n += note->n;
    if (!note->n || at < sum->at || at > vg_cl_now())
        return;
    sum->at = at;
    memcpy(sum->text, note->text, sizeof sum->text - 1);
    for (size_t i = 0; i < sizeof sum->text - 1; i++)
        if ((unsigned char)sum->text[i] >= 0x7f)
            sum->text[i] = '?';
}

void
vg_share_set_weight(const struct proxy_share *share, struct proxy_tenant *tenant, unsigned weight)
{
    /* The time so far counts with the previous weight. */
    for (unsigned i = 0; i < share->n_clients; i++) {
        struct proxy_client *client = &share->clients[i];
        if (client->tenant == tenant && client->has)
            share_count(client);
    }
    tenant->weight = weight;
}

int64_t
vg_share_held(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    int64_t held = tenant->held;

    for (unsigned i = 0; i < share->n_clients; i++)
        if (share->clients[i].has && share->clients[i].tenant == tenant)
            held += vg_cl_now() - share->clients[i].given;
    return held;
}

int64_t
vg_share_lacked(const struct proxy_tenant *tenant)
{
    return tenant->lacked + (tenant->lacks ? vg_cl_now() - tenant->lacks : 0);
}

static struct proxy_client *
share_holder(const struct proxy_share *share)
{
    for (unsigned i = 0; i < share->n_clients; i++)
        if (share->clients[i].has)
            return &share->clients[i];
    return NULL;
}

/* Returns how many ns TENANT still has to wait for tenants that pause and lack what it, or another
 * tenant, kept from them, or 0. */
static int64_t
share_held_off(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    int64_t most = 0;

    for (unsigned i = 0; i < share->n_clients && tenant->has_overrun; i++) {
        const struct proxy_tenant *other = share->clients[i].tenant;
        if (!other || !other->paused || other->passed >= tenant->passed)
            continue;
        const int64_t left = other->patience - (vg_cl_now() - other->paused);
        most = left > most ? left : most;
    }
    return most;
}

/* Returns the client that is furthest behind, and of several the one that waits the longest. *LEFT
 * is how many ns a client that was passed over for this reason has to wait, or -1. */
static struct proxy_client *
share_next(const struct proxy_share *share, int64_t *left)
{
    struct proxy_client *next = NULL;

    *left = -1;
    for (unsigned i = 0; i < share->n_clients; i++) {
        struct proxy_client *client = &share->clients[i];
        if (!client->wants)
            continue;
        const int64_t held_off = share_held_off(share, client->tenant);
        if (held_off > 0) {
            *left = *left < 0 || held_off < *left ? held_off : *left;
            continue;
        }
        double ahead = next ? client->tenant->passed - next->tenant->passed : -1;
        if (ahead < 0 || (ahead <= 0 && client->wanted < next->wanted))
            next = client;
    }
    return next;
}

static void
share_give(const struct proxy_share *share, struct proxy_client *client)
{
    client->wants = false;
    client->has = true;
    client->is_told = false;
    client->asked = 0;
    client->due = 0;
    client->given = vg_cl_now();
    client->tenant->turns++;
    share_note_lack(share, client->tenant);
    share_send(client, VG_TURN_GIVE);
}

/* Returns how many ns HOLDER may keep the device while NEXT waits. */
static int64_t
share_left(const struct proxy_client *holder, const struct proxy_client *next)
{
    int64_t held = vg_cl_now() - holder->given;

    if (holder->tenant == next->tenant)
        return SHARE_TURN - held;
    double behind = (next->tenant->passed - holder->tenant->passed) * holder->tenant->weight;
    return (int64_t)behind + SHARE_TURN - held;
}

/* Requests the device back from HOLDER for NEXT. Returns how many ns HOLDER may still keep it. */
static int64_t
share_request(const struct proxy_share *share, struct proxy_client *holder,
              const struct proxy_client *next)
{
    int64_t left = share_left(holder, next);

    if (!holder->is_told)
        share_send(holder, VG_TURN_IDLE);
    holder->is_told = true;
    if (left > 0)
        return left;
    holder->asked = holder->due = vg_cl_now();
    share_send(holder, VG_TURN_ASK);
    return share->max_kernel_s * 1000 * SHARE_MS + SHARE_SLACK;
}

int
vg_share_decide(struct proxy_share *share)
{
    int64_t held_off, left;
    struct proxy_client *holder = share_holder(share), *next = share_next(share, &held_off);

    if (!holder && next) {
        share_give(share, next);
        holder = next;
        next = share_next(share, &held_off);
    }
    left = held_off;
    if (holder && next && !holder->asked)
        left = share_request(share, holder, next);
    else if (holder && holder->asked)
        left = holder->asked + share->max_kernel_s * 1000 * SHARE_MS + SHARE_SLACK - vg_cl_now();
    if (holder && holder->asked && !share->max_kernel_s)
        return -1;
    if (holder && holder->asked && left <= 0) {
        vg_cl_say("client process %d has held the device for more than %u s; terminating it",
                  (int)holder->pid, share->max_kernel_s);
        holder->tenant->ended++;
        vg_serve_note(&holder->tenant->failed,
                      "a program held the device for more than %u s and was terminated",
                      share->max_kernel_s);
        holder->why_ended = "it held the device for too long while others waited (--max-kernel)";
        kill(holder->pid, SIGKILL);
        holder->asked = vg_cl_now(); /* until it has left */
        left = SHARE_SLACK;
    }
    return left < 0 ? -1 : (int)(left / SHARE_MS) + 1;
}
