/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicates with the agent in a guest through the domain's virtio port. libvirt's stream is
 * non-blocking, so that the deadline and cancel are checked whatever the guest does.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/guest-talk.h"
#include "actuators/virt-host.h"
#include "base/clock.h"
#include "base/error.h"

#define CHANNEL  "org.vgpud.guest.0"
#define CHECK_NS (20 * VG_NS_PER_MS)
/* After this time without a message, no agent is running: vgpud-guest(7). */
#define HELLO_NS   (10 * VG_NS_PER_S)
#define SILENCE_NS (15 * VG_NS_PER_S)
/* The time for a rebooted guest to boot. */
#define BOOT_NS       (300 * VG_NS_PER_S)
#define BOOT_CHECK_NS (500 * VG_NS_PER_MS)
/* The maximum delay of QEMU's report that the reboot closed the port. */
#define RESET_NS (2 * VG_NS_PER_S)
/* The number of reboots after which the request fails. */
#define REBOOTS_MAX 3
/* The guest notices a new host in two ways: the port opens, and data arrives. If the data arrives
 * first, the agent does not know the new host yet and drops its answer. Therefore, the hello is
 * repeated. */
#define HELLO_AGAIN_NS (2 * VG_NS_PER_S)
/* The interval between requests to a busy agent. It is busy after a cancelled request, or after
 * another program has taken its channel. */
#define BUSY_NS (500 * VG_NS_PER_MS)
/* The time after the deadline for the agent to undo an unfinished order, limited to half of the
 * remaining time. */
#define UNDO_MS 40000
/* The same for an order that itself undoes another (resume): the agent may still have to check the
 * devices and resume programs. */
#define ANSWER_MS 12000
/* Limits of the protocol. */
#define DEADLINE_MS_MIN 100
#define DEADLINE_MS_MAX 3600000

/* QEMU reports port changes at most once per second. A port that has just opened may therefore look
 * closed for this time. */
#define CLOSED_CHECKS 12
#define CLOSED_NS     (200 * VG_NS_PER_MS)

#define PIECE 4096

struct channel {
    vg_virt_host *host;
    virDomainPtr domain;
    virStreamPtr stream;
    virStreamPtr refused;       /* the last stream that libvirt failed to open, or NULL */
    const struct vg_verb *verb; /* &limits, or the caller's */
    struct vg_verb limits;
    const char *opencl_at; /* may be NULL */
    vg_guest_talk *talk;
    int64_t last_id;
    int64_t heard_ns;
    char *hello;
    int64_t hello_ns; /* the time to repeat the hello unless it was answered */
    bool ended;       /* the stream has ended or failed */
    bool taken;       /* the stream has ended, but libvirt still answers */
    int64_t asked_ns; /* the time of the first request */
    bool rebooted;    /* the guest has rebooted since then and has lost the order */
};

void
vg_guest_answer_clear(struct vg_guest_answer *answer)
{
    g_free(answer->text);
    g_free(answer->doubt);
    vg_guest_programs_free(answer->programs);
    *answer = (struct vg_guest_answer){0};
}

/* ---- bytes ---- */

static void
channel_free_refused(struct channel *channel)
{
    if (channel->refused)
        virStreamFree(channel->refused);
    channel->refused = NULL;
}

/* Opens the channel. On failure, the stream stays until channel_free_refused(), because
 * virStreamFree() would clear libvirt's error. */
static int
channel_try(struct channel *channel, unsigned flags)
{
    channel_free_refused(channel);
    channel->stream = virStreamNew(channel->host->connection, VIR_STREAM_NONBLOCK);
    if (channel->stream &&
        virDomainOpenChannel(channel->domain, CHANNEL, channel->stream, flags) == 0)
        return 0;
    channel->refused = g_steal_pointer(&channel->stream);
    return -1;
}

/* Returns whether the guest's side of the port is closed. libvirt learns of an opening with a
 * delay. */
static bool
channel_is_closed(struct channel *channel)
{
    for (int i = 0; i < CLOSED_CHECKS; i++) {
        g_autofree char *xml = vg_virt_host_xml(channel->host, channel->domain, 0, NULL);
        if (!xml || !vg_domain_xml_channel_is_closed(xml, CHANNEL) ||
            vg_verb_pause(channel->verb, CLOSED_NS, "the agent in the guest", NULL) < 0)
            return false;
    }
    return true;
}

/* Returns whether libvirt currently reports the guest's side as closed. */
static bool
channel_is_shut(struct channel *channel)
{
    g_autofree char *xml = vg_virt_host_xml(channel->host, channel->domain, 0, NULL);

    return xml && vg_domain_xml_channel_is_closed(xml, CHANNEL);
}

/* Opens the channel. If the request only reads (`looks`), it must neither wait for a missing agent
 * nor take over the channel: it fails immediately, with VG_E_BUSY if another client has the
 * channel. */
static int
channel_open(struct channel *channel, bool looks, GError **err)
{
    g_autofree char *xml = vg_virt_host_xml(channel->host, channel->domain, 0, err);

    if (!xml)
        return -1;
    if (!vg_domain_xml_has_channel(xml, CHANNEL))
        return vg_error(err, VG_E_NOT_FOUND,
                        "'%s' has no channel %s to an agent: add <channel type='unix'><target "
                        "type='virtio' name='%s'/></channel> to its devices",
                        virDomainGetName(channel->domain), CHANNEL, CHANNEL);
    if (looks && channel_is_closed(channel))
        return vg_error(err, VG_E_NOT_FOUND,
                        "no process in '%s' has opened its end of the channel "
                        "%s",
                        virDomainGetName(channel->domain), CHANNEL);
    /* Another client may still hold a stream, even a dead one. VIR_DOMAIN_CHANNEL_FORCE ends this
     * stream, and a live client notices it. */
    if (channel_try(channel, 0) < 0 &&
        (looks || channel_try(channel, VIR_DOMAIN_CHANNEL_FORCE) < 0)) {
        if (looks && virGetLastErrorCode() == VIR_ERR_OPERATION_FAILED) {
            virResetLastError();
            return vg_error(err, VG_E_BUSY, "another program is using the channel %s of '%s'",
                            CHANNEL, virDomainGetName(channel->domain));
        }
        return vg_virt_host_failed(channel->host, err, "cannot open the channel %s of '%s'",
                                   CHANNEL, virDomainGetName(channel->domain));
    }
    virResetLastError();
    return 0;
}

static void
channel_close(struct channel *channel)
{
    /* virStreamFinish() waits until the last bytes have arrived. */
    if (channel->stream && virStreamFinish(channel->stream) < 0)
        virStreamAbort(channel->stream);
    if (channel->stream)
        virStreamFree(channel->stream);
    channel_free_refused(channel);
    virResetLastError();
    channel->stream = NULL;
    g_clear_pointer(&channel->talk, vg_guest_talk_free);
    g_clear_pointer(&channel->hello, g_free);
}

static int
channel_lost(struct channel *channel, GError **err)
{
    const char *name = virDomainGetName(channel->domain);

    channel->ended = true;
    if (!vg_virt_host_answers(channel->host))
        return vg_error(err, VG_E_UNREACHABLE,
                        "the connection to '%s' was lost during a request to the agent of '%s'",
                        channel->host->uri, name);
    channel->taken = true;
    return vg_error(err, VG_E_EXTERNAL,
                    "the channel to the agent of '%s' was closed: the VM has ended, or another "
                    "program has taken the channel",
                    name);
}

static int
channel_send(struct channel *channel, const char *line, GError **err)
{
    size_t left = strlen(line);

    while (left > 0) {
        int sent = virStreamSend(channel->stream, line, left);
        if (sent == -2) {
            if (vg_verb_pause(channel->verb, CHECK_NS, "the agent in the guest to read the request",
                              err) < 0)
                return -1;
            continue;
        }
        if (sent < 0)
            return channel_lost(channel, err);
        line += sent;
        left -= (size_t)sent;
    }
    return 0;
}

/* Reads bytes. Returns 1 if some have arrived, 0 if none. */
static int
channel_receive(struct channel *channel, GError **err)
{
    char piece[PIECE];
    int size = virStreamRecv(channel->stream, piece, sizeof piece);

    if (size == -2)
        return 0;
    if (size <= 0)
        return channel_lost(channel, err);
    return vg_guest_talk_feed(channel->talk, piece, (size_t)size, err) < 0 ? -1 : 1;
}

/* ---- messages ---- */

static int64_t
channel_new_id(struct channel *channel)
{
    channel->last_id = MAX(vg_clock_realtime_ns() / VG_NS_PER_US, channel->last_id + 1);
    return channel->last_id;
}

static int
channel_send_hello(struct channel *channel, GError **err)
{
    channel->hello_ns = vg_clock_monotonic_ns() + HELLO_AGAIN_NS;
    return channel_send(channel, channel->hello, err);
}

static int
channel_fail_silent(const struct channel *channel, int64_t silence_ns, GError **err)
{
    const char *name = virDomainGetName(channel->domain);
    const char *paused = vg_virt_host_pause(channel->domain);

    if (paused)
        return vg_error(err, VG_E_TIMEOUT,
                        "'%s' is %s, so its agent cannot answer; `virsh -c %s resume %s` resumes "
                        "it",
                        name, paused, channel->host->uri, name);
    return vg_error(err, VG_E_TIMEOUT,
                    "the agent in '%s' has not answered for %lld s: are the guest and its agent "
                    "running?",
                    name, (long long)(silence_ns / VG_NS_PER_S));
}

/* Fails if the guest has rebooted since the request. */
static int
channel_check_reboot(struct channel *channel, GError **err)
{
    if (vg_virt_reboots_last_ns(channel->host->reboots) <= channel->asked_ns)
        return 0;
    channel->rebooted = true;
    return vg_error(err, VG_E_EXTERNAL,
                    "the guest of '%s' has rebooted during a request to its "
                    "agent",
                    virDomainGetName(channel->domain));
}

/* Waits for the next message. silence_ns limits the time since the last message or the request. If
 * the connection to libvirt is lost, the guest is not to blame. */
static int
channel_next(struct channel *channel, int64_t silence_ns, struct vg_guest_message *ret,
             GError **err)
{
    for (;;) {
        int found = vg_guest_talk_next(channel->talk, ret, err);
        if (found > 0)
            channel->heard_ns = vg_clock_monotonic_ns();
        if (found != 0)
            return found < 0 ? -1 : 0;
        int came = channel_receive(channel, err);
        if (came < 0)
            return -1;
        if (!came && !vg_virt_host_answers(channel->host))
            return channel_lost(channel, err);
        /* Check the deadline between pieces, as a guest may send endlessly. */
        if (vg_verb_pause(channel->verb, came ? 0 : CHECK_NS, "the agent in the guest", err) < 0)
            return -1;
        if (channel_check_reboot(channel, err) < 0)
            return -1;
        if (vg_clock_monotonic_ns() - channel->heard_ns > silence_ns)
            return channel_fail_silent(channel, silence_ns, err);
        if (vg_clock_monotonic_ns() > channel->hello_ns && channel_send_hello(channel, err) < 0)
            return -1;
    }
}

static int
channel_hello(struct channel *channel, struct vg_guest_message *ret, GError **err)
{
    channel->hello = vg_guest_talk_hello(channel->talk, channel_new_id(channel));
    channel->heard_ns = vg_clock_monotonic_ns();
    if (channel_send_hello(channel, err) < 0 || channel_next(channel, HELLO_NS, ret, err) < 0)
        return -1;
    channel->hello_ns = INT64_MAX;
    if (ret->kind == VG_GUEST_HELLO)
        return 0;
    vg_error(err, VG_E_EXTERNAL, "the agent in '%s' refused: %s", virDomainGetName(channel->domain),
             ret->text);
    vg_guest_message_clear(ret);
    return -1;
}

static int
channel_order(struct channel *channel, const char *type, const GPtrArray *devices, GError **err)
{
    bool undoes = strcmp(type, "resume") != 0;
    int64_t left_ms = (channel->verb->deadline_ns - vg_clock_monotonic_ns()) / VG_NS_PER_MS;
    int64_t copy_ms = vg_guest_undo_ns(channel->verb->gpu_bytes) / VG_NS_PER_MS;
    copy_ms = undoes ? MIN(copy_ms, left_ms / 2) : 0;
    left_ms -= copy_ms;
    int64_t deadline_ms = left_ms - MIN(undoes ? UNDO_MS : ANSWER_MS, left_ms / 2);
    const int64_t id = channel_new_id(channel);
    g_autofree char *line =
        strcmp(type, "status") == 0
            ? vg_guest_talk_status(channel->talk, id, devices, err)
            : vg_guest_talk_order(channel->talk, id, type,
                                  CLAMP(deadline_ms, DEADLINE_MS_MIN, DEADLINE_MS_MAX), devices,
                                  err);

    channel->heard_ns = vg_clock_monotonic_ns();
    return line ? channel_send(channel, line, err) : -1;
}

static int
channel_answer(struct channel *channel, const char *type, const GPtrArray *devices,
               struct vg_guest_message *ret, GError **err)
{
    const enum vg_guest_message_kind wanted = strcmp(type, "prepare") == 0  ? VG_GUEST_PREPARED
                                              : strcmp(type, "status") == 0 ? VG_GUEST_STATUS
                                              : strcmp(type, "switch") == 0 ? VG_GUEST_SWITCHED
                                                                            : VG_GUEST_RESUMED;

    if (channel_order(channel, type, devices, err) < 0)
        return -1;
    for (;;) {
        struct vg_guest_message message = {0};
        if (channel_next(channel, SILENCE_NS, &message, err) < 0)
            return -1;
        if (message.kind == VG_GUEST_ERROR || message.kind == wanted) {
            *ret = message;
            return 0;
        }
        if (message.kind != VG_GUEST_PROGRESS && message.kind != VG_GUEST_BUSY) {
            vg_guest_message_clear(&message);
            return vg_error(err, VG_E_EXTERNAL, "the agent in '%s' sent an unexpected answer",
                            virDomainGetName(channel->domain));
        }
        if (channel->verb->tell)
            channel->verb->tell(channel->verb->data, NULL, message.text);
        bool busy = message.kind == VG_GUEST_BUSY;
        vg_guest_message_clear(&message);
        if (busy && (vg_verb_pause(channel->verb, BUSY_NS, "the agent in the guest", err) < 0 ||
                     channel_order(channel, type, devices, err) < 0))
            return -1;
    }
}

/* Cancels an abandoned order, which the guest would otherwise continue. */
static void
channel_cancel(struct channel *channel)
{
    g_autofree char *line = vg_guest_talk_cancel(channel_new_id(channel));

    virStreamSend(channel->stream, line, strlen(line));
    virResetLastError();
}

/* ---- the verbs ---- */

static void
guest_channel_free_device(void *device)
{
    vg_record_free(&vg_move_device_record, device);
}

/* Copies the devices with their current guest addresses, if they are attached. */
static GPtrArray *
devices_now(vg_virt_host *host, virDomainPtr domain, const GPtrArray *devices, GError **err)
{
    g_autoptr(GPtrArray) live = vg_virt_host_devices(host, domain, 0, err);

    if (!live)
        return NULL;
    GPtrArray *now = g_ptr_array_new_with_free_func(guest_channel_free_device);
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        struct vg_move_device *copy = vg_record_copy(&vg_move_device_record, device);
        const vg_domain_device *found = vg_domain_devices_find(live, device->alias, NULL);
        if (found && found->guest_path) {
            g_free(copy->guest_path);
            copy->guest_path = g_strdup(found->guest_path);
        }
        g_ptr_array_add(now, copy);
    }
    return now;
}

static int
channel_request(struct channel *channel, const char *type, const GPtrArray *devices,
                struct vg_guest_message *ret, GError **err)
{
    bool looks = type && strcmp(type, "status") == 0;

    if (channel_open(channel, looks, err) < 0 || channel_hello(channel, ret, err) < 0)
        return -1;
    if (!type)
        return 0;
    vg_guest_message_clear(ret);
    int result = channel_answer(channel, type, devices, ret, err);
    /* A status request changes nothing, and must not cancel another caller's order. If the VM is
     * gone, nothing may be sent: libvirtd 11.3 would then enter an endless loop. */
    if (result < 0 && !looks && !channel->ended && !channel->rebooted)
        channel_cancel(channel);
    return result;
}

/* Waits until a rebooted guest has reopened its end of the channel, and then allows the full time
 * for the order. Waiting for the boot is harmless: the guest has its GPUs, or uses them once it
 * finds them. */
static int
channel_wait_for_boot(struct channel *channel, const struct vg_verb *verb, GError **err)
{
    const int64_t rebooted_ns = vg_virt_reboots_last_ns(channel->host->reboots);
    const int64_t until_ns = rebooted_ns + BOOT_NS;

    channel->rebooted = false;
    channel->limits = *verb;
    channel->verb = &channel->limits;
    channel->asked_ns = vg_clock_monotonic_ns();
    if (rebooted_ns == 0 || channel->asked_ns > until_ns)
        return 0;
    channel->limits.deadline_ns =
        MAX(verb->deadline_ns, until_ns + verb->deadline_ns - channel->asked_ns);
    if (verb->tell)
        verb->tell(verb->data, NULL, "the guest has rebooted; waiting for its agent");
    while (vg_clock_monotonic_ns() < rebooted_ns + RESET_NS || channel_is_shut(channel)) {
        if (vg_clock_monotonic_ns() > until_ns)
            return vg_error(
                err, VG_E_TIMEOUT,
                "the guest of '%s' has rebooted, but its agent did not answer again within %lld s",
                virDomainGetName(channel->domain), (long long)(BOOT_NS / VG_NS_PER_S));
        if (vg_verb_pause(channel->verb, BOOT_CHECK_NS, "the guest to boot", err) < 0)
            return -1;
    }
    return 0;
}

/* Sends a request to the agent. If another program takes over the channel, repeats only a resume,
 * which is idempotent. An order lost in a reboot is always repeated. */
static int
channel_repeat_request(struct channel *channel, const char *type, const GPtrArray *devices,
                       struct vg_guest_message *ret, GError **err)
{
    const bool repeats = type && strcmp(type, "resume") == 0;
    const struct vg_verb *verb = channel->verb;

    for (unsigned reboots = 0;;) {
        g_autoptr(GError) error = NULL;
        if (channel_wait_for_boot(channel, verb, err) < 0)
            return -1;
        channel->taken = channel->ended = false;
        channel->talk = vg_guest_talk_new();
        vg_guest_talk_set_place(channel->talk, channel->opencl_at);
        int result = channel_request(channel, type, devices, ret, &error);
        channel_close(channel);
        if (result == 0)
            return 0;
        if (channel->rebooted && reboots++ < REBOOTS_MAX)
            continue;
        if (!repeats || !channel->taken ||
            vg_verb_pause(channel->verb, BUSY_NS, "the agent in the guest", NULL) < 0) {
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
    }
}

/* Waits for the agent's answer to a proxy notification. */
static int
channel_await_proxy(struct channel *channel, struct vg_guest_message *ret, GError **err)
{
    for (;;) {
        if (channel_next(channel, SILENCE_NS, ret, err) < 0)
            return -1;
        if (ret->kind == VG_GUEST_PROXY || ret->kind == VG_GUEST_ERROR)
            return 0;
        vg_guest_message_clear(ret);
    }
}

static int
channel_send_proxy(struct channel *channel, const char *token, struct vg_guest_answer *ret,
                   GError **err)
{
    struct vg_guest_message message = {0};

    /* This must not take the channel from a move, just like a status request. */
    if (channel_open(channel, true, err) < 0 || channel_hello(channel, &message, err) < 0)
        return -1;
    if (message.minor < VG_GUEST_MINOR_PROXY) {
        ret->text = g_strdup_printf("its agent is too old for this notification: %s; it needs "
                                    "minor version %d of the protocol or later",
                                    message.text, VG_GUEST_MINOR_PROXY);
        vg_guest_message_clear(&message);
        return 0;
    }
    vg_guest_message_clear(&message);
    g_autofree char *line =
        vg_guest_talk_proxy(channel->talk, channel_new_id(channel), channel->opencl_at, token);
    channel->heard_ns = vg_clock_monotonic_ns();
    if (channel_send(channel, line, err) < 0 || channel_await_proxy(channel, &message, err) < 0)
        return -1;
    ret->ok = message.kind == VG_GUEST_PROXY;
    ret->unknown = message.unknown;
    ret->text = g_steal_pointer(&message.text);
    vg_guest_message_clear(&message);
    return 0;
}

int
vg_virt_host_send_proxy(vg_virt_host *host, const char *uuid, const char *opencl_at,
                        const char *token, const struct vg_verb *verb, struct vg_guest_answer *ret,
                        GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);

    if (!domain)
        return -1;
    struct channel channel = {.host = host,
                              .domain = domain,
                              .verb = verb,
                              .opencl_at = opencl_at,
                              .asked_ns = vg_clock_monotonic_ns(),
                              .talk = vg_guest_talk_new()};
    *ret = (struct vg_guest_answer){0};
    int result = channel_send_proxy(&channel, token, ret, err);
    channel_close(&channel);
    return result;
}

int
vg_virt_host_ask_guest(vg_virt_host *host, const char *uuid, const char *type,
                       const GPtrArray *devices, const char *opencl_at, const struct vg_verb *verb,
                       struct vg_guest_answer *ret, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    struct vg_guest_message message = {0};

    if (!domain)
        return -1;
    g_autoptr(GPtrArray) now = devices ? devices_now(host, domain, devices, err) : NULL;
    if (devices && !now)
        return -1;
    struct channel channel = {.host = host, .domain = domain, .verb = verb, .opencl_at = opencl_at};
    if (channel_repeat_request(&channel, type, now, &message, err) < 0)
        return -1;
    const bool ok =
        message.kind == VG_GUEST_STATUS ? message.releasable : message.kind != VG_GUEST_ERROR;
    *ret = (struct vg_guest_answer){.ok = ok,
                                    .text = g_steal_pointer(&message.text),
                                    .undone = message.undone,
                                    .unknown = message.unknown,
                                    .ram_bytes = message.ram_bytes,
                                    .programs = message.programs,
                                    .doubt = message.doubt};
    return 0;
}
