/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of a link on the proxy's side.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "opencl/wire/address.h"
#include "opencl/wire/arrival.h"
#include "opencl/wire/link-private.h"
#include "opencl/wire/link-shared.h"
#include "opencl/wire/pass.h"

static bool
take_session(struct vg_wire_link *link, const struct vg_wire_offer *offer)
{
    struct vg_wire_session_welcome welcome = {.magic = VG_WIRE_SESSION_MAGIC,
                                              .linger_s = offer->linger_s};
    struct iovec part = {&welcome, sizeof welcome};

    memcpy(welcome.id, offer->id, sizeof welcome.id);
    if (!vg_wire_link_send(link, &part, 1, NULL, NULL))
        return false;
    link->session = vg_wire_session_begin(link->fd, &welcome, NULL, NULL);
    if (!link->session)
        return false;
    link->fd = -1;
    vg_wire_session_stay(link->session);
    return true;
}

bool
vg_wire_link_take(struct vg_wire_link *link, int fd, const struct vg_wire_arrival *arrival,
                  const struct vg_wire_offer *offer)
{
    struct vg_wire_session_hello session;
    struct link_hello hello;
    int memory = -1;

    *link = (struct vg_wire_link){.fd = fd};
    vg_wire_address_tune(fd);
    if (vg_wire_arrival_session(arrival, &session))
        return take_session(link, offer);
    memcpy(&hello, arrival->bytes, sizeof hello);
    bool is_shared = hello.way == LINK_SHARED && offer->staging > 0;
    hello = (struct link_hello){LINK_MAGIC, is_shared, is_shared ? offer->staging : 0};
    struct vg_wire_shared *shared = is_shared ? vg_wire_shared_make(offer->staging, &memory) : NULL;
    bool ok = (!is_shared || shared) && vg_wire_pass(fd, &hello, sizeof hello, memory, 0);
    int error = errno;
    if (memory >= 0)
        close(memory);
    link->shared = shared;
    errno = error;
    return ok;
}
