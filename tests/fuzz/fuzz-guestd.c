/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a host sends to the agent of a guest: no crash, whatever is ordered is answered
 * once, and every answer is a line that can be read. A byte before each part of the input says what
 * happens after it: what was ordered ends well or badly, or the host goes.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/line.h"
#include "guest/message.h"
#include "guest/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
    struct vg_guest_session session;
    int works, looks;
};

static void
check_send(void *user, const char *line)
{
    json_object *object = json_tokener_parse(line);
    json_object *type, *id;

    (void)user;
    if (!object || strchr(line, '\n') || strlen(line) > VG_GUEST_ANSWER_MAX ||
        !json_object_object_get_ex(object, "type", &type) ||
        !json_object_object_get_ex(object, "id", &id) ||
        !json_object_is_type(type, json_type_string))
        abort();
    json_object_put(object);
}

static int
check_work(void *user, const struct vg_guest_order *order)
{
    struct check *check = user;

    if (check->works++ != 0 || order->request.n_devices < 1 ||
        order->request.n_devices > VG_GUEST_DEVICES_MAX ||
        order->request.deadline_ms < VG_GUEST_DEADLINE_MS_MIN ||
        order->request.deadline_ms > VG_GUEST_DEADLINE_MS_MAX)
        abort();
    vg_guest_session_progress(&check->session, "{\"id\":1,\"type\":\"progress\"}");
    return 0;
}

static int
check_look(void *user, const struct vg_guest_order *order)
{
    struct check *check = user;

    if (check->looks++ != 0 || order->request.n_devices > VG_GUEST_DEVICES_MAX || !order->state)
        abort();
    return 0;
}

static void
check_cancel(void *user)
{
    struct check *check = user;

    if (check->works != 1)
        abort();
}

static const struct vg_guest_session_ops ops = {
    .send = check_send,
    .work = check_work,
    .look = check_look,
    .cancel = check_cancel,
};

/* What the world does between two parts of the input. */
static void
check_happen(struct check *check, struct vg_guest_line *line, uint8_t what)
{
    static const char answer[] = "{\"id\":1,\"type\":\"prepared\"}";

    switch (what % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (check->works > 0) {
            check->works = 0;
            if (what % 8 == 0)
                vg_guest_session_keep(&check->session, "{\"drivers\":[\"a\"],\"providers\":{}}");
            vg_guest_session_ended(&check->session, (enum vg_guest_end)(what % 8), answer);
        }
        break;
    case 4:
        if (check->looks > 0) {
            check->looks = 0;
            vg_guest_session_looked(&check->session, "{\"id\":1,\"type\":\"status\"}");
        }
        break;
    case 5:
        vg_guest_line_reset(line);
        vg_guest_session_hangup(&check->session);
        break;
    case 6:
        vg_guest_session_beat(&check->session);
        break;
    default:
        break;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct check check = {0};
    struct vg_guest_line line = {0};

    vg_guest_session_init(&check.session, &ops, &check);
    while (size > 0) {
        uint8_t what = *data++;
        size--;
        const uint8_t *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end + 1 - data) : size;
        vg_guest_line_feed(&line, (const char *)data, part, vg_guest_session_line, &check.session);
        check_happen(&check, &line, what);
        data += part;
        size -= part;
    }
    vg_guest_line_clear(&line);
    vg_guest_session_clear(&check.session);
    return 0;
}
