/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/guest-talk.h"

#include <stdio.h>
#include <string.h>

#include "actuators/guest-devices.h"
#include "actuators/guest-programs.h"
#include "actuators/guest-words.h"
#include "base/error.h"
#include "base/json.h"
#include "model/migration.h"

#define DEPTH_MAX     8
#define HOOKS_MAX     16 /* the maximum number of hooks named in a text */
#define WORD_MAX      128
#define PROVIDERS_MAX 16
#define AS_TEXT       (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

struct vg_guest_talk {
    int64_t id;         /* the id of the pending request, or 0 */
    json_object *asked; /* the devices to release, or NULL */
    char *opencl_at;    /* may be NULL */
    bool greeted;
    GString *in;   /* bytes that have not been parsed yet */
    size_t open;   /* bytes since the last newline */
    bool dropping; /* bytes are being dropped until the next newline */
    size_t bytes;
    unsigned messages;
};

vg_guest_talk *
vg_guest_talk_new(void)
{
    vg_guest_talk *talk = g_new0(vg_guest_talk, 1);

    talk->in = g_string_new(NULL);
    return talk;
}

void
vg_guest_talk_free(vg_guest_talk *talk)
{
    if (!talk)
        return;
    g_string_free(talk->in, TRUE);
    json_object_put(talk->asked);
    g_free(talk->opencl_at);
    g_free(talk);
}

void
vg_guest_message_clear(struct vg_guest_message *message)
{
    g_free(message->text);
    g_free(message->doubt);
    vg_guest_programs_free(message->programs);
    *message = (struct vg_guest_message){0};
}

/* ---- to the guest ---- */

static json_object *
talk_request(int64_t id, const char *type)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "id", id);
    vg_json_add_string(object, "type", type);
    return object;
}

static char *
talk_line_of(json_object *take_object)
{
    char *line = g_strconcat(json_object_to_json_string_ext(take_object, AS_TEXT), "\n", NULL);

    json_object_put(take_object);
    return line;
}

char *
vg_guest_talk_hello(vg_guest_talk *talk, int64_t id)
{
    json_object *object = talk_request(id, "hello"), *versions = json_object_new_array();

    talk->id = id;
    vg_json_append(versions, json_object_new_int(VG_GUEST_VERSION));
    vg_json_add(object, "versions", versions);
    /* The newline terminates a line that an earlier host may have left incomplete. */
    g_autofree char *line = talk_line_of(object);
    return g_strconcat("\n", line, NULL);
}

char *
vg_guest_talk_order(vg_guest_talk *talk, int64_t id, const char *type, int64_t deadline_ms,
                    const GPtrArray *devices, GError **err)
{
    g_autoptr(json_object) object = talk_request(id, type);

    vg_json_add_int64(object, "deadline_ms", deadline_ms);
    if (devices && vg_guest_devices_add(object, devices, err) < 0)
        return NULL;
    if (talk->opencl_at && strcmp(type, "resume") != 0)
        vg_json_add_string(object, "opencl_at", talk->opencl_at);
    talk->id = id;
    json_object_put(talk->asked);
    talk->asked = strcmp(type, "prepare") == 0
                      ? json_object_get(json_object_object_get(object, "devices"))
                      : NULL;
    return talk_line_of(g_steal_pointer(&object));
}

void
vg_guest_talk_set_place(vg_guest_talk *talk, const char *opencl_at)
{
    g_free(talk->opencl_at);
    talk->opencl_at = g_strdup(opencl_at);
}

char *
vg_guest_talk_status(vg_guest_talk *talk, int64_t id, const GPtrArray *devices, GError **err)
{
    g_autoptr(json_object) object = talk_request(id, "status");

    if (vg_guest_devices_add(object, devices, err) < 0)
        return NULL;
    talk->id = id;
    return talk_line_of(g_steal_pointer(&object));
}

char *
vg_guest_talk_cancel(int64_t id)
{
    return talk_line_of(talk_request(id, "cancel"));
}

char *
vg_guest_talk_proxy(vg_guest_talk *talk, int64_t id, const char *at, const char *token)
{
    json_object *object = talk_request(id, "proxy");

    talk->id = id;
    if (at) {
        vg_json_add_string(object, "at", at);
        vg_json_add_string(object, "token", token);
    }
    return talk_line_of(object);
}

/* ---- untrusted text ---- */

static void
talk_append_hooks(GString *text, json_object *object)
{
    for (size_t i = 0; i < HOOKS_MAX; i++) {
        json_object *hook = vg_guest_words_item(object, "hooks", i);
        g_autofree char *name = hook ? vg_guest_words_text(hook, "name", WORD_MAX) : NULL;
        if (!name)
            return;
        g_string_append_printf(text, "%s%s (%lld ms)", i ? ", " : "; hooks run: ", name,
                               (long long)vg_guest_words_number(hook, "ms"));
    }
}

static void
talk_append_holder(GString *text, json_object *object)
{
    json_object *holder = vg_guest_words_item(object, "holders", 0);
    g_autofree char *comm = holder ? vg_guest_words_text(holder, "comm", WORD_MAX) : NULL;
    g_autofree char *path = holder ? vg_guest_words_text(holder, "path", WORD_MAX) : NULL;

    if (comm && path)
        g_string_append_printf(text, ": process %lld (%s) has %s open",
                               (long long)vg_guest_words_number(holder, "pid"), comm, path);
}

/* Appends " of process 153 (python3), 1612 MiB". */
static void
talk_append_process(GString *text, json_object *object)
{
    g_autofree char *comm = vg_guest_words_text(object, "comm", WORD_MAX);
    const int64_t bytes = vg_guest_words_number(object, "bytes");

    if (!comm)
        return;
    g_string_append_printf(text, " of process %lld (%s)",
                           (long long)vg_guest_words_number(object, "pid"), comm);
    if (bytes > 0)
        g_string_append_printf(text, ", %lld MiB", (long long)(bytes >> 20));
}

/* Appends ", 57344 MiB, 12 s after the request" if the driver copies. */
static void
talk_append_copying(GString *text, json_object *object)
{
    const int64_t bytes = vg_guest_words_number(object, "bytes");

    if (!json_object_object_get_ex(object, "bytes", NULL) ||
        json_object_object_get_ex(object, "pid", NULL))
        return;
    if (bytes > 0)
        g_string_append_printf(text, ", %lld MiB", (long long)(bytes >> 20));
    g_string_append_printf(text, ", %lld s after the request",
                           (long long)vg_guest_words_number(object, "elapsed_ms") / 1000);
}

static void
talk_put_progress(GString *text, json_object *object)
{
    g_autofree char *step = vg_guest_words_text(object, "step", WORD_MAX);
    g_autofree char *hook = vg_guest_words_text(object, "hook", WORD_MAX);
    g_autofree char *verb = vg_guest_words_text(object, "verb", WORD_MAX);
    g_autofree char *unit = vg_guest_words_text(object, "unit", WORD_MAX);
    g_autofree char *message = vg_guest_words_text(object, "message", VG_GUEST_TEXT_MAX / 2);

    g_string_append_printf(text, "in the guest: %s", step ? step : "working");
    if (hook)
        g_string_append_printf(text, " %s", hook);
    if (verb && unit)
        g_string_append_printf(text, ": %s %s", verb, unit);
    if (message)
        g_string_append_printf(text, ": %s", message);
    talk_append_process(text, object);
    talk_append_copying(text, object);
    talk_append_holder(text, object);
}

static void
talk_put_hello(GString *text, json_object *object)
{
    g_autofree char *agent = vg_guest_words_text(object, "agent", WORD_MAX);
    g_autofree char *state = vg_guest_words_text(object, "state", WORD_MAX);

    g_string_append_printf(text, "agent %s answers; its state is %s", agent ? agent : "(unknown)",
                           state ? state : "unknown");
}

static void
talk_put_error(GString *text, json_object *object)
{
    g_autofree char *code = vg_guest_words_text(object, "code", WORD_MAX);
    g_autofree char *message = vg_guest_words_text(object, "message", VG_GUEST_TEXT_MAX / 2);
    g_autofree char *undo_error = vg_guest_words_text(object, "undo_error", VG_GUEST_TEXT_MAX / 4);

    g_string_append_printf(text, "%s (%s)", message ? message : "no message",
                           code ? code : "no code");
    if (undo_error)
        g_string_append_printf(text, "; the steps already taken could not be undone: %s",
                               undo_error);
}

/* ---- devices that were released ---- */

/* Turns an answer into an error unless it names every device that was to be released. */
static void
talk_check_released(const vg_guest_talk *talk, json_object *object, struct vg_guest_message *ret)
{
    json_object *missing =
        vg_guest_devices_missing(talk->asked, json_object_object_get(object, "released"));

    if (!missing)
        return;
    ret->kind = VG_GUEST_ERROR;
    ret->undone = false;
    g_free(ret->text);
    ret->text =
        g_strdup_printf("the agent reports success, but not that it has released the device %s",
                        json_object_to_json_string_ext(missing, AS_TEXT));
}

/* ---- a status ---- */

/* Reads each provider's part of a status: its programs, and whether they can be released. Returns
 * the first reason why not. The caller frees it. */
static char *
talk_read_providers(json_object *object, struct vg_guest_message *ret)
{
    char *why = NULL;

    ret->releasable = true;
    for (size_t i = 0; i < PROVIDERS_MAX; i++) {
        json_object *provider = vg_guest_words_item(object, "providers", i), *releasable = NULL;
        if (!provider)
            break;
        vg_guest_programs_add(provider, &ret->programs);
        if (!json_object_object_get_ex(provider, "releasable", &releasable) || !releasable ||
            json_object_get_boolean(releasable))
            continue;
        ret->releasable = false;
        if (!why)
            why = vg_guest_words_text(provider, "why", VG_GUEST_TEXT_MAX / 2);
    }
    return why;
}

/* Returns whether the agent releases a program with this pid. */
static bool
talk_is_program(const struct vg_guest_programs *programs, int64_t pid)
{
    for (guint i = 0; programs && i < programs->programs->len; i++) {
        if (((const struct vg_guest_program *)programs->programs->pdata[i])->pid == pid)
            return true;
    }
    return false;
}

/* Counts the processes that have a GPU open and that the agent does not release. *ret_first
 * describes the first one. The caller frees it. */
static int64_t
talk_count_holders(json_object *object, const struct vg_guest_programs *programs, char **ret_first)
{
    int64_t n = 0, last_pid = 0;
    json_object *device, *holder;

    for (size_t i = 0; (device = vg_guest_words_item(object, "devices", i)); i++) {
        for (size_t k = 0; (holder = vg_guest_words_item(device, "holders", k)); k++) {
            const int64_t pid = vg_guest_words_number(holder, "pid");
            if (pid == last_pid || talk_is_program(programs, pid))
                continue;
            last_pid = pid;
            if (n++ > 0)
                continue;
            g_autofree char *comm = vg_guest_words_text(holder, "comm", 64);
            g_autofree char *path = vg_guest_words_text(holder, "path", VG_GUEST_TEXT_MAX / 4);
            *ret_first = g_strdup_printf("process %lld (%s) has %s open", (long long)pid,
                                         comm ? comm : "?", path ? path : "a GPU");
        }
    }
    return n;
}

/* Returns whether a hook runs, or a unit stops, before the GPUs are released. */
static bool
talk_stops_something(json_object *object)
{
    static const char *const lists[] = {"prepare", "stop"};
    json_object *provider;

    for (size_t i = 0; (provider = vg_guest_words_item(object, "providers", i)); i++) {
        for (size_t k = 0; k < G_N_ELEMENTS(lists); k++) {
            json_object *list = json_object_object_get(provider, lists[k]);
            if (json_object_is_type(list, json_type_array) && json_object_array_length(list) > 0)
                return true;
        }
    }
    return false;
}

/* Checks for processes that have a GPU open and that the agent does not release. For forked
 * children that close it, the agent reports only their number. */
static char *
talk_read_holders(json_object *object, struct vg_guest_message *ret)
{
    const struct vg_guest_programs *programs = ret->programs;
    const bool lists_all = !programs || programs->total <= programs->programs->len;
    g_autofree char *first = NULL;

    if (talk_count_holders(object, programs, &first) <= (programs ? programs->forked : 0) ||
        !lists_all)
        return NULL;
    if (!talk_stops_something(object)) {
        ret->releasable = false;
        return g_steal_pointer(&first);
    }
    ret->doubt = g_strdup_printf(
        "in the guest, %s: unless a hook or unit ends that process, the GPU is not released",
        first);
    return NULL;
}

static void
talk_read_status(GString *text, json_object *object, struct vg_guest_message *ret)
{
    g_autofree char *why = talk_read_providers(object, ret);
    g_autofree char *held = talk_read_holders(object, ret);
    json_object *list = json_object_object_get(object, "missing");
    json_object *first =
        json_object_is_type(list, json_type_array) ? json_object_array_get_idx(list, 0) : NULL;
    g_autofree char *missing =
        json_object_is_type(first, json_type_string)
            ? vg_guest_words_clean(json_object_get_string(first), VG_GUEST_TEXT_MAX / 4)
            : NULL;

    ret->releasable = ret->releasable && !missing;
    if (missing)
        g_string_append(text, missing);
    else if (!ret->releasable)
        g_string_append(text, why ? why : held ? held : "it gave no reason");
    else
        g_string_append(text, "it could release its GPUs now");
}

/* ---- from the guest ---- */

int
vg_guest_talk_feed(vg_guest_talk *talk, const char *data, size_t size, GError **err)
{
    talk->bytes += size;
    if (talk->bytes > VG_GUEST_BYTES_MAX)
        return vg_error(err, VG_E_EXTERNAL, "the guest has sent more than %d bytes",
                        VG_GUEST_BYTES_MAX);
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) + 1 : size;
        talk->open = end ? 0 : talk->open + part;
        if (!talk->dropping)
            g_string_append_len(talk->in, data, (gssize)part);
        if (end)
            talk->dropping = false;
        data += part;
        size -= part;
        if (talk->open <= VG_GUEST_LINE_MAX || talk->dropping)
            continue;
        if (talk->greeted)
            return vg_error(err, VG_E_EXTERNAL, "the guest has sent a line of more than %d bytes",
                            VG_GUEST_LINE_MAX);
        g_string_truncate(talk->in, talk->in->len - talk->open);
        talk->dropping = true;
    }
    return 0;
}

static int
talk_kind_of(const char *type, const char *code, enum vg_guest_message_kind *ret)
{
    static const struct {
        const char *type;
        enum vg_guest_message_kind kind;
    } kinds[] = {{"progress", VG_GUEST_PROGRESS}, {"hello", VG_GUEST_HELLO},
                 {"prepared", VG_GUEST_PREPARED}, {"resumed", VG_GUEST_RESUMED},
                 {"status", VG_GUEST_STATUS},     {"error", VG_GUEST_ERROR},
                 {"switched", VG_GUEST_SWITCHED}, {"proxy", VG_GUEST_PROXY}};

    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (strcmp(kinds[i].type, type) != 0)
            continue;
        *ret = kinds[i].kind == VG_GUEST_ERROR && g_strcmp0(code, "busy") == 0 ? VG_GUEST_BUSY
                                                                               : kinds[i].kind;
        return 1;
    }
    return 0;
}

/* Reads the text and the programs of a message of known type. */
static void
talk_read_content(json_object *object, struct vg_guest_message *ret)
{
    const enum vg_guest_message_kind kind = ret->kind;
    GString *text = g_string_new(NULL);
    g_autofree char *raw = NULL;

    vg_guest_programs_add(object, &ret->programs);
    switch (kind) {
    case VG_GUEST_PROGRESS:
        talk_put_progress(text, object);
        break;
    case VG_GUEST_HELLO:
        talk_put_hello(text, object);
        break;
    case VG_GUEST_PREPARED:
    case VG_GUEST_RESUMED:
    case VG_GUEST_SWITCHED:
        g_string_append(text, kind == VG_GUEST_PREPARED   ? "the guest has released its GPUs"
                              : kind == VG_GUEST_SWITCHED ? "the programs have switched"
                                                          : "the guest has its GPUs again");
        if (vg_guest_words_flag(object, "already"))
            g_string_append(text, ", as before");
        vg_guest_programs_append(text, ret->programs);
        talk_append_hooks(text, object);
        break;
    case VG_GUEST_STATUS:
        talk_read_status(text, object, ret);
        break;
    case VG_GUEST_PROXY:
        g_string_append(text, "the guest has stored the proxy's address for its programs");
        break;
    case VG_GUEST_BUSY:
    case VG_GUEST_ERROR:
        talk_put_error(text, object);
        break;
    default:
        break;
    }
    raw = g_string_free(text, FALSE);
    ret->text = vg_guest_words_clean(raw, VG_GUEST_TEXT_MAX);
}

/* Reads a message. Returns 1 if it answers the pending request, 0 if it answers another request or
 * has an unknown type. */
static int
talk_read_message(vg_guest_talk *talk, json_object *object, struct vg_guest_message *ret)
{
    json_object *id = json_object_object_get(object, "id");
    g_autofree char *type = vg_guest_words_text(object, "type", WORD_MAX);
    g_autofree char *code = vg_guest_words_text(object, "code", WORD_MAX);
    struct vg_guest_message message = {0};
    /* An error without an id refers to a line that the agent could not parse. After all older
     * messages were read, it refers to this host's line. */
    bool ours = id ? json_object_is_type(id, json_type_int) && json_object_get_int64(id) == talk->id
                   : talk->greeted && g_strcmp0(type, "error") == 0;

    if (!ours || !type || !talk_kind_of(type, code, &message.kind))
        return 0;
    talk_read_content(object, &message);
    if (message.kind == VG_GUEST_HELLO &&
        vg_guest_words_number(object, "version") != VG_GUEST_VERSION)
        message.kind = VG_GUEST_ERROR;
    message.minor = vg_guest_words_number(object, "minor");
    message.ram_bytes = vg_guest_words_number(object, "ram_bytes");
    /* An order that was not started need not be undone. */
    message.undone =
        !json_object_object_get_ex(object, "undone", NULL) || vg_guest_words_flag(object, "undone");
    message.unknown = message.kind == VG_GUEST_ERROR && g_strcmp0(code, "unknown-type") == 0;
    if (message.kind == VG_GUEST_PREPARED)
        talk_check_released(talk, object, &message);
    talk->greeted = true;
    *ret = message;
    return 1;
}

static int
talk_read_line(vg_guest_talk *talk, const char *line, size_t size, struct vg_guest_message *ret,
               GError **err)
{
    g_autoptr(GError) error = NULL;

    if (size > 0 && line[size - 1] == '\r')
        size--;
    if (size == 0)
        return 0;
    g_autoptr(json_object) object = vg_json_parse(line, size, VG_GUEST_LINE_MAX, DEPTH_MAX, &error);
    if (object && json_object_is_type(object, json_type_object))
        return talk_read_message(talk, object, ret);
    if (!talk->greeted)
        return 0;
    return vg_error(err, VG_E_EXTERNAL, "the guest sent an invalid message: %s",
                    error ? error->message : "not an object");
}

int
vg_guest_talk_next(vg_guest_talk *talk, struct vg_guest_message *ret, GError **err)
{
    for (;;) {
        const char *end = memchr(talk->in->str, '\n', talk->in->len);
        if (!end)
            return 0;
        if (++talk->messages > VG_GUEST_MESSAGES_MAX)
            return vg_error(err, VG_E_EXTERNAL, "the guest has sent more than %d messages",
                            VG_GUEST_MESSAGES_MAX);
        size_t size = (size_t)(end - talk->in->str);
        int result = talk_read_line(talk, talk->in->str, size, ret, err);
        g_string_erase(talk->in, 0, (gssize)size + 1);
        if (result != 0)
            return result;
    }
}
