/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/admit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"

#define ADMIT_SECOND INT64_C(1000000000)

/* The rate of accepted connections per socket. */
static const struct proxy_rate_limit admit_comes = {200, 100};

/* The rate of new processes per socket. A loop of short programs gets through. */
static const struct proxy_rate_limit admit_forks = {64, 20};

/* The rate of log lines per socket. */
static const struct proxy_rate_limit admit_lines = {100, 1};

/* ---- rates ---- */

bool
vg_admit_may_accept(const struct proxy_tenant *tenant)
{
    const int64_t now = vg_cl_now();

    return vg_rate_may(&tenant->comes, &admit_comes, now) &&
           (!vg_wire_address_is_tls(tenant->path) ||
            vg_rate_may(&tenant->forks, &admit_forks, now));
}

void
vg_admit_accepted(struct proxy_tenant *tenant)
{
    vg_rate_take(&tenant->comes, &admit_comes, vg_cl_now());
}

bool
vg_admit_may_fork(struct proxy_tenant *tenant)
{
    return vg_rate_take(&tenant->forks, &admit_forks, vg_cl_now());
}

/* ---- the log ---- */

/* Returns whether another line may be written. Writes how many were omitted before it. */
static bool
admit_may_say(struct proxy_tenant *tenant)
{
    if (!vg_rate_take(&tenant->lines, &admit_lines, vg_cl_now())) {
        tenant->n_unsaid++;
        return false;
    }
    if (tenant->n_unsaid)
        vg_cl_say("%s: %llu more messages were suppressed", tenant->path,
                  (unsigned long long)tenant->n_unsaid);
    tenant->n_unsaid = 0;
    return true;
}

void
vg_admit_say(struct proxy_tenant *tenant, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (!admit_may_say(tenant))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    vg_cl_say("%s", line);
}

void
vg_admit_refuse(struct proxy_tenant *tenant, int fd, const char *to_it, const char *format, ...)
{
    char why[VG_SERVE_NOTE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (fd >= 0)
        vg_wire_arrival_refuse(fd, to_it);
    vg_admit_say(tenant, "%s: a client was refused: %s", tenant->path, why);
    vg_serve_note(&tenant->refused, "%s", why);
}

/* ---- connections that have shown nothing yet ---- */

void
vg_arrivals_open(struct proxy_arrivals *arrivals)
{
    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++)
        arrivals->of[i].fd = -1;
}

void
vg_arrival_end(struct proxy_arrivals *arrivals, struct proxy_arrival *arrival)
{
    if (arrival->fd >= 0)
        close(arrival->fd);
    arrivals->n--;
    free(arrival->known_as);
    *arrival = (struct proxy_arrival){.fd = -1};
}

static bool
arrival_is_stale(const struct proxy_arrival *arrival)
{
    return arrival->tenant->is_gone || arrival->tenant->serial != arrival->serial;
}

static unsigned
arrivals_of(const struct proxy_arrivals *arrivals, uint64_t serial)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++)
        n += arrivals->of[i].fd >= 0 && arrivals->of[i].serial == serial;
    return n;
}

/* Returns the oldest arrival of the socket SERIAL. */
static struct proxy_arrival *
arrivals_oldest(struct proxy_arrivals *arrivals, uint64_t serial)
{
    struct proxy_arrival *oldest = NULL;

    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++) {
        struct proxy_arrival *arrival = &arrivals->of[i];
        if (arrival->fd >= 0 && arrival->serial == serial &&
            (!oldest || arrival->since < oldest->since))
            oldest = arrival;
    }
    return oldest;
}

/* Returns the socket with the most arrivals, which is more than one if all places are taken. */
static uint64_t
arrivals_fullest(const struct proxy_arrivals *arrivals)
{
    uint64_t serial = 0;
    unsigned most = 0;

    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++) {
        unsigned n = arrivals_of(arrivals, arrivals->of[i].serial);
        if (n > most) {
            most = n;
            serial = arrivals->of[i].serial;
        }
    }
    return serial;
}

static void
arrival_drop(struct proxy_arrivals *arrivals, struct proxy_arrival *arrival)
{
    if (!arrival_is_stale(arrival))
        vg_admit_refuse(arrival->tenant, arrival->fd, "too many connections of this VM are waiting",
                        "a waiting program from %s, because more are arriving", arrival->from);
    vg_arrival_end(arrivals, arrival);
}

/* Returns a free place. If there is none, frees another one. */
static struct proxy_arrival *
arrivals_place(struct proxy_arrivals *arrivals, uint64_t serial)
{
    if (arrivals_of(arrivals, serial) >= PROXY_ARRIVALS_SOCKET)
        arrival_drop(arrivals, arrivals_oldest(arrivals, serial));
    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++)
        if (arrivals->of[i].fd < 0)
            return &arrivals->of[i];
    struct proxy_arrival *oldest = arrivals_oldest(arrivals, arrivals_fullest(arrivals));
    arrival_drop(arrivals, oldest);
    return oldest;
}

void
vg_arrival_begin(struct proxy_arrivals *arrivals, struct proxy_tenant *tenant, int fd,
                 const char *from, const char *known_as)
{
    struct proxy_arrival *arrival = arrivals_place(arrivals, tenant->serial);
    char *copy = known_as ? strdup(known_as) : NULL;

    *arrival = (struct proxy_arrival){.fd = fd,
                                      .tenant = tenant,
                                      .serial = tenant->serial,
                                      .known_as = copy,
                                      .since = vg_cl_now()};
    snprintf(arrival->from, sizeof arrival->from, "%s", from);
    arrivals->n++;
}

unsigned
vg_arrivals_poll(const struct proxy_arrivals *arrivals, struct pollfd *at)
{
    if (arrivals->n == 0)
        return 0;
    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++) {
        const struct proxy_arrival *arrival = &arrivals->of[i];
        at[i] = (struct pollfd){.fd = arrival->is_whole ? -1 : arrival->fd, .events = POLLIN};
    }
    return PROXY_ARRIVALS_MAX;
}

bool
vg_arrival_is_known(const struct proxy_arrival *arrival)
{
    const struct proxy_tenant *tenant = arrival->tenant;

    return arrival->known_as && tenant->vm && strcmp(arrival->known_as, tenant->vm) == 0;
}

/* Returns the terms of the present configuration. */
static struct vg_wire_terms
arrival_terms(const struct proxy_arrival *arrival)
{
    const struct proxy_tenant *tenant = arrival->tenant;

    return (struct vg_wire_terms){.is_far = vg_wire_address_is_far(tenant->path),
                                  .token = tenant->has_token ? tenant->token : NULL,
                                  .is_known = vg_arrival_is_known(arrival)};
}

/* Refuses an arrival for the reason in errno. */
static void
arrival_refuse(struct proxy_arrivals *arrivals, struct proxy_arrival *arrival)
{
    struct proxy_tenant *tenant = arrival->tenant;
    const bool is_tls = vg_wire_address_is_tls(tenant->path);

    if (errno == EACCES && tenant->has_token)
        vg_admit_refuse(tenant, arrival->fd, "it expects another token",
                        "a program with a wrong token, from %s", arrival->from);
    else if (errno == EACCES && is_tls)
        vg_admit_refuse(tenant, arrival->fd,
                        "it requires a certificate of its VM, and none was "
                        "presented",
                        "a program without a certificate for '%s', from %s",
                        tenant->vm ? tenant->vm : "", arrival->from);
    else if (errno == EACCES)
        vg_admit_refuse(tenant, arrival->fd, "it has no token and therefore accepts no client",
                        "a program from %s, because the socket has no token", arrival->from);
    else if (errno == EPROTONOSUPPORT)
        vg_admit_refuse(tenant, arrival->fd, "it does not accept TLS: its address starts with tcp:",
                        "a TLS client from %s, which this address does not accept", arrival->from);
    else if (errno == EPROTO)
        vg_admit_refuse(tenant, arrival->fd, "it does not support this version of the library",
                        "a client from %s that uses another protocol", arrival->from);
    else
        vg_admit_refuse(tenant, -1, "",
                        "a program from %s that disconnected before it had "
                        "started: %s",
                        arrival->from, strerror(errno));
    vg_arrival_end(arrivals, arrival);
}

bool
vg_arrival_hear(struct proxy_arrivals *arrivals, unsigned place, short events)
{
    struct proxy_arrival *arrival = &arrivals->of[place];
    enum vg_wire_arrived arrived;

    if (arrival->fd < 0 || arrival_is_stale(arrival) || (!events && !arrival->is_whole))
        return false;
    const struct vg_wire_terms terms = arrival_terms(arrival);
    if (arrival->is_whole)
        arrived = vg_wire_arrival_may_come(&arrival->said, &terms) ? VG_WIRE_ARRIVED_ALL
                                                                   : VG_WIRE_ARRIVED_REFUSED;
    else
        arrived = vg_wire_arrival_read(&arrival->said, arrival->fd, &terms);
    arrival->is_whole = arrived == VG_WIRE_ARRIVED_ALL;
    if (arrived == VG_WIRE_ARRIVED_REFUSED)
        arrival_refuse(arrivals, arrival);
    return arrived == VG_WIRE_ARRIVED_ALL;
}

int
vg_arrivals_look(struct proxy_arrivals *arrivals)
{
    const int64_t now = vg_cl_now();
    int64_t least = -1;

    for (unsigned i = 0; arrivals->n > 0 && i < PROXY_ARRIVALS_MAX; i++) {
        struct proxy_arrival *arrival = &arrivals->of[i];
        if (arrival->fd < 0)
            continue;
        int64_t left = arrival->since + PROXY_ARRIVAL_S * ADMIT_SECOND - now;
        if (arrival_is_stale(arrival)) {
            vg_arrival_end(arrivals, arrival);
            continue;
        }
        if (left <= 0 && arrival->is_whole) {
            arrival_drop(arrivals, arrival);
            continue;
        }
        if (left <= 0) {
            vg_admit_refuse(arrival->tenant, arrival->fd, "the program sent nothing in time",
                            "a client that sent nothing for %d s, from %s", PROXY_ARRIVAL_S,
                            arrival->from);
            vg_arrival_end(arrivals, arrival);
            continue;
        }
        if (arrival->is_whole)
            left = PROXY_PAUSE_MS * INT64_C(1000000);
        least = least < 0 || left < least ? left : least;
    }
    return least < 0 ? -1 : (int)(least / 1000000) + 1;
}

void
vg_arrivals_close(struct proxy_arrivals *arrivals)
{
    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++)
        if (arrivals->of[i].fd >= 0)
            vg_arrival_end(arrivals, &arrivals->of[i]);
}

void
vg_arrivals_leave(struct proxy_arrivals *arrivals)
{
    for (unsigned i = 0; i < PROXY_ARRIVALS_MAX; i++) {
        if (arrivals->of[i].fd >= 0)
            close(arrivals->of[i].fd);
        explicit_bzero(&arrivals->of[i].said, sizeof arrivals->of[i].said);
    }
}
