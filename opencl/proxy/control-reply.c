/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/control-reply.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/proxy/secret.h"
#include "opencl/proxy/sockets.h"

#define TELL_LATELY INT64_C(900000000)   /* ns: a newer mark cannot be compared with */
#define TELL_FORGET INT64_C(60000000000) /* ns: an older mark cannot be compared with */

/* The counters of a socket at some time. */
struct reply_mark {
    int64_t at; /* 0: none */
    int64_t held;
    uint64_t done;
    uint64_t took[VG_SERVE_TOOK], waited[VG_SERVE_TOOK], ran[VG_SERVE_TOOK];
};

/* Two marks per socket, the newer one first. */
struct proxy_marks {
    struct reply_mark of[PROXY_TENANTS_MAX][2];
};

#define TELL_TEXT_MAX   4096 /* bytes */
#define TELL_NUMBER_MAX (UINT64_C(1) << 62)

static void
reply_put_text(FILE *file, const char *name, const char *text, size_t most)
{
    fprintf(file, ",\"%s\":\"", name);
    for (size_t i = 0; i < most && text[i]; i++) {
        /* Read once: the character may change. */
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fputc('\\', file);
        fputc(c < 0x20 || c == 0x7f ? '?' : c, file);
    }
    fputc('"', file);
}

/* Copies the device's name, which the client's process has written and may change. */
static void
reply_copy_device(char *device, const struct vg_serve_counts *counts)
{
    if (!counts->device[0])
        return;
    memcpy(device, counts->device, sizeof counts->device);
    for (size_t i = 0; i < sizeof counts->device; i++)
        if ((unsigned char)device[i] >= 0x7f)
            device[i] = '?';
}

static uint64_t
reply_number(uint64_t number)
{
    return number > TELL_NUMBER_MAX ? TELL_NUMBER_MAX : number;
}

/* Sums up the work of the tenant's clients so far. Returns their number. */
static unsigned
reply_sum(const struct proxy_control *control, const struct proxy_tenant *tenant,
          struct proxy_did *did)
{
    unsigned n = 0;

    *did = tenant->did;
    for (unsigned i = 0; i < control->share->n_clients; i++) {
        const struct proxy_client *client = &control->share->clients[i];
        if (client->tenant != tenant || !client->counts)
            continue;
        vg_share_add_did(did, client->counts);
        did->used += client->counts->memory;
        n++;
    }
    return n;
}

static void
reply_put_took(FILE *file, const struct proxy_did *did)
{
    bool is_first = true;

    fputs(",\"took\":[", file);
    for (unsigned i = 0; i < VG_SERVE_TOOK; i++) {
        if (!did->took[i])
            continue;
        fprintf(file, "%s{\"ns\":%" PRId64 ",\"commands\":%" PRIu64 "}", is_first ? "" : ",",
                vg_serve_took_middle(i), reply_number(did->took[i]));
        is_first = false;
    }
    fputs("]", file);
}

static void
reply_device(const struct proxy_control *control, const struct proxy_tenant *tenant,
             char device[sizeof(((struct vg_serve_counts *)NULL)->device)])
{
    for (unsigned i = 0; i < control->share->n_clients; i++)
        if (control->share->clients[i].tenant == tenant && control->share->clients[i].counts)
            reply_copy_device(device, control->share->clients[i].counts);
}

/* Null, because the values are not known yet. */
static void
reply_put_devices(FILE *file, const struct proxy_look *look)
{
    fputs(",\"devices\":", file);
    if (!look->is_known) {
        fputs("null", file);
        return;
    }
    for (unsigned i = 0; i < look->known.n; i++) {
        const struct proxy_look_device *device = &look->known.devices[i];
        fprintf(file, "%s{\"memory_bytes\":%" PRIu64, i > 0 ? "," : "[",
                reply_number(device->memory));
        reply_put_text(file, "name", device->name, sizeof device->name);
        reply_put_text(file, "pci", device->pci, sizeof device->pci);
        fputc('}', file);
    }
    fputc(']', file);
}

/* Lists secret files that everybody can read. */
static void
reply_put_secrets(const struct proxy_control *control, const struct proxy_tenant *tenant,
                  FILE *file)
{
    const char *key = vg_wire_address_is_tls(tenant->path) ? control->tls->key : NULL;
    char text[2 * VG_SECRET_FAULT + 2] = "";
    size_t size = 0;

    if (vg_secret_fault(tenant->token_file, "a token", text))
        size = strlen(text);
    if (size > 0 && vg_secret_is_open(key))
        size += (size_t)snprintf(text + size, sizeof text - size, "; ");
    vg_secret_fault(key, "a key", text + size);
    reply_put_text(file, "open_secrets", text, TELL_TEXT_MAX);
}

static void
reply_put_tenant(const struct proxy_control *control, const struct proxy_tenant *tenant, FILE *file)
{
    struct proxy_did did;
    char device[sizeof(((struct vg_serve_counts *)NULL)->device)] = "";
    unsigned n = reply_sum(control, tenant, &did);

    reply_device(control, tenant, device);
    fprintf(file,
            "{\"weight\":%u,\"configured_weight\":%u,\"memory_bytes\":%" PRIu64
            ",\"vm_memory_bytes\":%" PRIu64 ",\"used_bytes\":%" PRIu64
            ",\"reserved_bytes\":%" PRIu64 ",\"clients\":%u"
            ",\"held_ns\":%" PRId64 ",\"lacked_ns\":%" PRId64 ",\"turns\":%" PRIu64
            ",\"ended\":%" PRIu64 ",\"commands\":%" PRIu64 ",\"done\":%" PRIu64
            ",\"wait_ns\":%" PRIu64 ",\"run_ns\":%" PRIu64,
            tenant->weight, tenant->configured, tenant->memory == UINT64_MAX ? 0 : tenant->memory,
            tenant->vm_memory == UINT64_MAX ? 0 : tenant->vm_memory, reply_number(did.used),
            reply_number(vg_room_sum(control->room, tenant->path)), n,
            vg_share_held(control->share, tenant), vg_share_lacked(tenant), tenant->turns,
            tenant->ended, reply_number(did.came), reply_number(did.done),
            reply_number(did.wait_ns), reply_number(did.run_ns));
    reply_put_text(file, "socket", tenant->path, TELL_TEXT_MAX);
    reply_put_text(file, "vm", tenant->vm ? tenant->vm : "", TELL_TEXT_MAX);
    reply_put_text(file, "device", device, sizeof device);
    reply_put_secrets(control, tenant, file);
    reply_put_took(file, &did);
    fputs("}", file);
}

/* ---- what sockets had a little before ---- */

struct proxy_marks *
vg_control_new_marks(void)
{
    return calloc(1, sizeof(struct proxy_marks));
}

static void
reply_take_mark(const struct proxy_control *control, const struct proxy_tenant *tenant,
                struct reply_mark *mark)
{
    struct proxy_did did;

    reply_sum(control, tenant, &did);
    mark->at = vg_cl_now();
    mark->held = vg_share_held(control->share, tenant);
    mark->done = did.done;
    memcpy(mark->took, did.took, sizeof mark->took);
    memcpy(mark->waited, did.waited, sizeof mark->waited);
    memcpy(mark->ran, did.ran, sizeof mark->ran);
}

/* Each query stores the present counters for later comparisons. */
static void
reply_mark_all(const struct proxy_control *control)
{
    for (unsigned i = 0; i < control->n_tenants; i++) {
        struct reply_mark *marks = control->marks->of[i];
        if (control->tenants[i].is_gone) {
            marks[0].at = marks[1].at = 0; /* the place may belong to another socket next */
            continue;
        }
        if (marks[0].at && vg_cl_now() - marks[0].at < TELL_LATELY)
            continue;
        marks[1] = marks[0];
        reply_take_mark(control, &control->tenants[i], &marks[0]);
    }
}

/* Returns the newest mark of the tenant with which it can be compared, or NULL. */
static const struct reply_mark *
reply_mark_of(const struct proxy_control *control, const struct proxy_tenant *tenant)
{
    const struct reply_mark *marks = control->marks->of[tenant - control->tenants];

    for (unsigned i = 0; i < 2; i++) {
        const int64_t age = marks[i].at ? vg_cl_now() - marks[i].at : 0;
        if (age >= TELL_LATELY && age <= TELL_FORGET)
            return &marks[i];
    }
    return NULL;
}

/* ---- the share of a window ---- */

static bool
reply_wants(const struct proxy_control *control, const struct proxy_tenant *tenant)
{
    for (unsigned i = 0; i < control->share->n_clients; i++)
        if (control->share->clients[i].tenant == tenant &&
            (control->share->clients[i].wants || control->share->clients[i].has))
            return true;
    return false;
}

/* Writes the sums of all sockets that had the device, or want it. */
static void
reply_put_shares(const struct proxy_control *control, FILE *file)
{
    int64_t held = 0;
    uint64_t weights = 0;

    for (unsigned i = 0; i < control->n_tenants; i++) {
        const struct proxy_tenant *tenant = &control->tenants[i];
        const struct reply_mark *mark = tenant->is_gone ? NULL : reply_mark_of(control, tenant);
        const int64_t had = mark ? vg_share_held(control->share, tenant) - mark->held : 0;
        held += had;
        if (had > 0 || (!tenant->is_gone && reply_wants(control, tenant)))
            weights += tenant->weight;
    }
    fprintf(file, ",\"all_held_ns\":%" PRId64 ",\"weights\":%" PRIu64, held, weights);
}

/* Returns the value that PART of the commands counted in NOW but not in BEFORE did not exceed, or 0
 * without commands. */
static int64_t
reply_quantile(const uint64_t *now, const uint64_t *before, double part)
{
    uint64_t n = 0, sum = 0;

    for (unsigned i = 0; i < VG_SERVE_TOOK; i++)
        n += now[i] > before[i] ? reply_number(now[i] - before[i]) : 0;
    const double rank = part * (double)n;
    for (unsigned i = 0; n > 0 && i < VG_SERVE_TOOK; i++) {
        sum += now[i] > before[i] ? reply_number(now[i] - before[i]) : 0;
        if (sum > 0 && (double)sum >= rank)
            return vg_serve_took_middle(i);
    }
    return 0;
}

static void
reply_put_quantiles(FILE *file, const char *name, const uint64_t *now, const uint64_t *before)
{
    fprintf(file, ",\"%s\":{\"p50_ns\":%" PRId64 ",\"p95_ns\":%" PRId64 ",\"p99_ns\":%" PRId64 "}",
            name, reply_quantile(now, before, 0.50), reply_quantile(now, before, 0.95),
            reply_quantile(now, before, 0.99));
}

static void
reply_put_window(const struct proxy_control *control, const struct proxy_tenant *tenant, FILE *file)
{
    const struct reply_mark *mark = reply_mark_of(control, tenant);
    struct proxy_did did;

    if (!mark)
        return;
    reply_sum(control, tenant, &did);
    fprintf(file, ",\"window\":{\"span_ns\":%" PRId64 ",\"held_ns\":%" PRId64 ",\"done\":%" PRIu64,
            vg_cl_now() - mark->at, vg_share_held(control->share, tenant) - mark->held,
            did.done > mark->done ? reply_number(did.done - mark->done) : 0);
    reply_put_shares(control, file);
    reply_put_quantiles(file, "wait", did.waited, mark->waited);
    reply_put_quantiles(file, "run", did.ran, mark->ran);
    reply_put_quantiles(file, "took", did.took, mark->took);
    fputs("}", file);
}

/* ---- one socket ---- */

static int64_t
reply_age(int64_t at)
{
    const int64_t age = at > 0 ? vg_cl_now() - at : 0;

    return age > 0 ? age : 0;
}

static void
reply_put_note(FILE *file, const char *name, const struct vg_serve_note *note)
{
    fprintf(file, ",\"%s\":{\"times\":%" PRIu64 ",\"ago_ns\":%" PRId64, name, reply_number(note->n),
            reply_age(note->at));
    reply_put_text(file, "last", note->text, sizeof note->text - 1);
    fputs("}", file);
}

static void
reply_put_notes(const struct proxy_control *control, const struct proxy_tenant *tenant, FILE *file)
{
    struct vg_serve_note refused = tenant->refused, failed = tenant->failed;

    for (unsigned i = 0; i < control->share->n_clients; i++) {
        const struct proxy_client *client = &control->share->clients[i];
        if (client->tenant != tenant || !client->counts)
            continue;
        vg_share_add_note(&refused, &client->counts->refused);
        vg_share_add_note(&failed, &client->counts->failed);
    }
    reply_put_note(file, "refused", &refused);
    reply_put_note(file, "failed", &failed);
}

static void
reply_put_limits(const struct proxy_control *control, const struct proxy_tenant *tenant, FILE *file)
{
    fprintf(file,
            ",\"limits\":{\"clients\":%u,\"vm_clients\":%u,\"objects\":%" PRIu64
            ",\"pending_bytes\":%" PRIu64 ",\"depth\":%u,\"staging_bytes\":%" PRIu64
            ",\"max_kernel_s\":%u,\"linger_s\":%u}",
            control->clients_max, tenant->clients_max, control->limits->objects,
            control->limits->data, control->limits->depth, (uint64_t)control->staging,
            control->limits->max_kernel_s, control->linger_s);
}

/* Writes how the socket's programs are authenticated. */
static void
reply_put_identity(const struct proxy_control *control, const struct proxy_tenant *tenant,
                   FILE *file)
{
    const bool is_tls = vg_wire_address_is_tls(tenant->path);
    char text[64];

    if (is_tls && tenant->vm && control->tls->ca)
        snprintf(text, sizeof text, "a certificate of the VM%s, in TLS",
                 tenant->has_token ? ", or a token" : "");
    else if (is_tls)
        snprintf(text, sizeof text, "a token, in TLS");
    else if (vg_wire_address_is_clear(tenant->path))
        snprintf(text, sizeof text, "a token, in clear");
    else if (!vg_wire_address_is_far(tenant->path))
        snprintf(text, sizeof text, "the socket's mode is %04o", (unsigned)control->socket_mode);
    else if (tenant->cid)
        snprintf(text, sizeof text, "a token, vsock CID %u", tenant->cid);
    else
        snprintf(text, sizeof text, "a token");
    reply_put_text(file, "identity", text, sizeof text);
    fprintf(file, ",\"listens\":%s", tenant->listener >= 0 ? "true" : "false");
}

static const char *
reply_transport(const struct proxy_tenant *tenant, unsigned way)
{
    if (vg_wire_address_is_tls(tenant->path))
        return "tls";
    if (strncmp(tenant->path, "tcp:", 4) == 0)
        return "tcp";
    if (strncmp(tenant->path, "vsock:", 6) == 0)
        return "vsock";
    return way == VG_SERVE_WAY_SHARED ? "memory in common" : "unix socket";
}

static void
reply_put_program(const struct proxy_client *client, FILE *file)
{
    const struct vg_serve_counts *counts = client->counts;
    const uint64_t came = reply_number(counts->came), done = reply_number(counts->done);
    const int64_t broken = counts->link.broken;
    const unsigned way = counts->way;

    fprintf(file,
            "{\"pid\":%d,\"since_ns\":%" PRId64 ",\"broken_ns\":%" PRId64 ",\"resumed\":%" PRIu64
            ",\"device\":\"%s\",\"device_ns\":%" PRId64 ",\"used_bytes\":%" PRIu64
            ",\"objects\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"done\":%" PRIu64,
            (int)client->pid, reply_age(client->came), reply_age(broken),
            reply_number(counts->link.n_mended),
            client->has     ? "has"
            : client->wants ? "waits"
                            : "idle",
            client->has     ? reply_age(client->given)
            : client->wants ? reply_age(client->wanted)
                            : 0,
            reply_number(counts->memory), reply_number(counts->objects),
            came > done ? came - done : 0, done);
    reply_put_text(file, "link", !way ? "begins" : broken ? "broken" : "up", 16);
    reply_put_text(file, "transport", reply_transport(client->tenant, way), 32);
    reply_put_text(file, "from", client->from, sizeof client->from);
    reply_put_note(file, "refused", &counts->refused);
    reply_put_note(file, "failed", &counts->failed);
    fputs("}", file);
}

static void
reply_put_programs(const struct proxy_control *control, const struct proxy_tenant *tenant,
                   FILE *file)
{
    unsigned n = 0;

    fputs(",\"programs\":[", file);
    for (unsigned i = 0; i < control->share->n_clients; i++) {
        const struct proxy_client *client = &control->share->clients[i];
        if (!client->pid || client->tenant != tenant || !client->counts)
            continue;
        if (n++ > 0)
            fputc(',', file);
        reply_put_program(client, file);
    }
    fputs("]", file);
}

/* ---- files ---- */

/* Returns a stream for a new file, whose descriptor is *FD. Returns NULL with errno on failure. */
static FILE *
reply_open(const struct proxy_control *control, int *fd)
{
    *fd = memfd_create("vgpu-proxy", MFD_CLOEXEC);
    int copy = *fd < 0 ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "w");

    if (file) {
        fprintf(file, "{\"pid\":%d,\"version\":\"" PACKAGE_VERSION "\",\"confinement\":\"%s\"",
                (int)getpid(), control->confinement->is_unconfined ? "none" : "full");
        reply_put_devices(file, control->look);
        return file;
    }
    int error = errno;
    if (copy >= 0)
        close(copy);
    if (*fd >= 0)
        close(*fd);
    errno = error;
    return NULL;
}

int
vg_control_list(struct proxy_control *control)
{
    int fd;
    FILE *file = reply_open(control, &fd);

    if (!file)
        return -1;
    fputs(",\"sockets\":[", file);
    for (unsigned i = 0, told = 0; i < control->n_tenants; i++) {
        if (control->tenants[i].is_gone)
            continue;
        if (told++ > 0)
            fputc(',', file);
        reply_put_tenant(control, &control->tenants[i], file);
    }
    fputs("]}\n", file);
    fclose(file);
    reply_mark_all(control);
    return fd;
}

int
vg_control_show(struct proxy_control *control, const struct proxy_tenant *tenant)
{
    int fd;
    FILE *file = reply_open(control, &fd);

    if (!file)
        return -1;
    fputs(",\"socket\":", file);
    reply_put_tenant(control, tenant, file);
    reply_put_identity(control, tenant, file);
    reply_put_limits(control, tenant, file);
    reply_put_window(control, tenant, file);
    reply_put_programs(control, tenant, file);
    reply_put_notes(control, tenant, file);
    fputs("}\n", file);
    fclose(file);
    reply_mark_all(control);
    return fd;
}
