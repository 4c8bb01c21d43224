/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/listen.h"
#include "opencl/proxy/secret.h"
#include "opencl/wire/address.h"

#define SOCKETS_CLIENTS 4    /* minimum number of clients of a socket without a configured number */
#define SOCKETS_LINE    4096 /* maximum length of a line in a file, in bytes */
#define SOCKETS_RETRY   INT64_C(5000000000) /* ns */
#define SOCKETS_FAULT   (SOCKETS_LINE + 256)

bool
vg_sockets_open(struct proxy_sockets *sockets)
{
    sockets->tenants = calloc(PROXY_TENANTS_MAX, sizeof *sockets->tenants);
    sockets->retry = INT64_MAX;
    return sockets->tenants != NULL;
}

/* ---- what a text says ---- */

static bool
sockets_number(const char *text, unsigned most, unsigned *number, char fault[SOCKETS_FAULT])
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value > most) {
        snprintf(fault, SOCKETS_FAULT, "'%s' is not a number up to %u", text, most);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

static bool
sockets_word(struct proxy_tenant *tenant, const char *word, char fault[SOCKETS_FAULT])
{
    unsigned number = 0;

    if (strncmp(word, "weight=", 7) == 0)
        return sockets_number(word + 7, PROXY_WEIGHT_MAX, &tenant->weight, fault);
    if (strncmp(word, "cid=", 4) == 0)
        return sockets_number(word + 4, UINT_MAX, &tenant->cid, fault);
    if (strncmp(word, "memory=", 7) == 0) {
        if (!sockets_number(word + 7, UINT_MAX, &number, fault))
            return false;
        tenant->memory = (uint64_t)number << 20;
        return true;
    }
    if (strncmp(word, "vm-memory=", 10) == 0) {
        if (!sockets_number(word + 10, UINT_MAX, &number, fault))
            return false;
        tenant->vm_memory = (uint64_t)number << 20;
        return true;
    }
    if (strncmp(word, "clients=", 8) == 0)
        return sockets_number(word + 8, VG_SERVE_POOL_MAX, &tenant->clients_max, fault);
    if (strncmp(word, "vm=", 3) == 0 && strlen(word + 3) >= PROXY_VM_MAX) {
        snprintf(fault, SOCKETS_FAULT, "the VM's name is longer than %d bytes", PROXY_VM_MAX - 1);
        return false;
    }
    if (strncmp(word, "vm=", 3) == 0 && word[3]) {
        tenant->vm = word + 3;
        return true;
    }
    if (strncmp(word, "token=", 6) == 0) {
        tenant->has_token = vg_wire_address_token(word + 6, tenant->token);
        if (!tenant->has_token)
            snprintf(fault, SOCKETS_FAULT, "cannot read a token of 16 to %d bytes from '%s': %s",
                     VG_WIRE_TOKEN_MAX, word + 6, strerror(errno));
        tenant->token_file = word + 6;
        if (tenant->has_token)
            vg_secret_warn(tenant->token_file, "a token");
        return tenant->has_token;
    }
    snprintf(fault, SOCKETS_FAULT, "'%s' is not a socket property", word);
    return false;
}

/* Parses
 * SOCKET[,weight=NUMBER][,clients=NUMBER][,memory=MIB][,vm-memory=MIB][,vm=NAME][,token=FILE]
 * [,cid=NUMBER]. The tenant borrows parts of it. */
static bool
sockets_parse(const struct proxy_sockets *sockets, char *text, struct proxy_tenant *tenant,
              char fault[SOCKETS_FAULT])
{
    char *rest = text;

    *tenant = (struct proxy_tenant){.path = strsep(&rest, ","),
                                    .weight = 1,
                                    .clients_max = sockets->clients_max,
                                    .memory = sockets->memory,
                                    .vm_memory = UINT64_MAX,
                                    .listener = -1};
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ","))
        if (!sockets_word(tenant, word, fault))
            return false;
    const bool is_tls = vg_wire_address_is_tls(tenant->path);
    if (is_tls && !sockets->tls->certificate) {
        snprintf(fault, SOCKETS_FAULT, "'%s' needs --tls-certificate and --tls-key", tenant->path);
        return false;
    }
    tenant->configured = tenant->weight;
    if (*tenant->path && tenant->weight > 0 && tenant->memory > 0 && tenant->vm_memory > 0 &&
        tenant->clients_max > 0 &&
        (!vg_wire_address_is_far(tenant->path) || tenant->has_token ||
         (is_tls && sockets->tls->ca && tenant->vm)))
        return true;
    snprintf(fault, SOCKETS_FAULT,
             "a socket needs a path, and a weight, memory and number of clients above 0; a network "
             "socket also needs a token, or TLS with --tls-client-ca and a VM");
    return false;
}

bool
vg_sockets_add(struct proxy_sockets *sockets, char *text)
{
    char fault[SOCKETS_FAULT];

    struct proxy_tenant *tenant = &sockets->tenants[sockets->n];

    if (!sockets_parse(sockets, text, tenant, fault)) {
        fprintf(stderr, "vgpu-proxy: %s\n", fault);
        return false;
    }
    tenant->serial = ++sockets->n_serials;
    sockets->n++;
    return true;
}

/* ---- listening ---- */

static bool
sockets_listen(const struct proxy_sockets *sockets, struct proxy_tenant *tenant)
{
    if (!tenant->pool)
        tenant->pool = vg_share_new_pool(tenant->vm_memory);
    if (!tenant->pool)
        return false;
    tenant->listener = vg_wire_address_is_far(tenant->path)
                           ? vg_wire_address_listen(tenant->path)
                           : vg_proxy_listen(tenant->path, SOCK_STREAM, sockets->mode);
    if (tenant->listener >= 0 && vg_wire_address_is_clear(tenant->path))
        vg_cl_say(
            "%s: all data, including the token, is unencrypted; use a tls address to encrypt it",
            tenant->path);
    return tenant->listener >= 0;
}

const char *
vg_sockets_listen(struct proxy_sockets *sockets)
{
    for (unsigned i = 0; i < sockets->n; i++)
        if (!sockets_listen(sockets, &sockets->tenants[i]))
            return sockets->tenants[i].path;
    return NULL;
}

int
vg_sockets_look(struct proxy_sockets *sockets)
{
    int64_t now = vg_cl_now();

    if (sockets->retry == INT64_MAX)
        return -1;
    if (now < sockets->retry)
        return (int)((sockets->retry - now) / 1000000) + 1;
    sockets->retry = INT64_MAX;
    for (unsigned i = 0; i < sockets->n; i++) {
        struct proxy_tenant *tenant = &sockets->tenants[i];
        if (tenant->is_gone || tenant->listener >= 0)
            continue;
        if (sockets_listen(sockets, tenant))
            vg_cl_say("%s: listening now", tenant->path);
        else
            sockets->retry = now + SOCKETS_RETRY;
    }
    return sockets->retry == INT64_MAX ? -1 : (int)(SOCKETS_RETRY / 1000000);
}

static void
sockets_unlisten(struct proxy_tenant *tenant)
{
    if (tenant->listener < 0)
        return;
    close(tenant->listener);
    tenant->listener = -1;
    if (!vg_wire_address_is_far(tenant->path))
        unlink(tenant->path);
}

void
vg_sockets_close(struct proxy_sockets *sockets)
{
    for (unsigned i = 0; i < sockets->n; i++)
        sockets_unlisten(&sockets->tenants[i]);
    sockets->retry = INT64_MAX;
}

unsigned
vg_sockets_usual_clients(unsigned clients_max)
{
    unsigned n = clients_max / 4;

    n = n < SOCKETS_CLIENTS ? SOCKETS_CLIENTS : n;
    return n < clients_max ? n : clients_max;
}

void
vg_sockets_report(const struct proxy_sockets *sockets, const struct proxy_share *share)
{
    for (unsigned i = 0; i < sockets->n; i++) {
        const struct proxy_tenant *tenant = &sockets->tenants[i];
        if (tenant->is_gone)
            continue;
        vg_cl_say("%s: weight %u, had the device for %.6f s in %llu turns, %llu terminated",
                  tenant->path, tenant->weight, (double)vg_share_held(share, tenant) / 1e9,
                  (unsigned long long)tenant->turns, (unsigned long long)tenant->ended);
    }
}

static void
sockets_forget_tenant(const struct proxy_tenant *tenant)
{
    vg_share_free_pool(tenant->pool);
    free(tenant->text);
}

void
vg_sockets_free(struct proxy_sockets *sockets)
{
    for (unsigned i = 0; sockets->tenants && i < sockets->n; i++)
        sockets_forget_tenant(&sockets->tenants[i]);
    free(sockets->tenants);
    sockets->tenants = NULL;
}

void
vg_sockets_leave(const struct proxy_sockets *sockets, const struct proxy_tenant *mine)
{
    for (unsigned i = 0; i < sockets->n; i++) {
        struct proxy_tenant *tenant = &sockets->tenants[i];
        if (tenant->listener >= 0)
            close(tenant->listener);
        if (tenant != mine)
            vg_share_free_pool(tenant->pool);
        explicit_bzero(tenant->token, sizeof tenant->token);
    }
}

/* ---- the folder ---- */

static struct proxy_tenant *
sockets_find(struct proxy_tenant *tenants, unsigned n, const char *path)
{
    for (unsigned i = 0; i < n; i++)
        if (!tenants[i].is_gone && strcmp(tenants[i].path, path) == 0)
            return &tenants[i];
    return NULL;
}

/* The new configuration, before it is applied. */
struct sockets_next {
    struct proxy_tenant tenants[PROXY_TENANTS_MAX];
    unsigned n;
};

/* Clients' processes also inherit freed memory, which must not contain tokens. */
static void
sockets_wipe(struct sockets_next *next)
{
    explicit_bzero(next, sizeof *next);
    free(next);
}

static void
sockets_forget(struct sockets_next *next)
{
    for (unsigned i = 0; i < next->n; i++)
        free(next->tenants[i].text);
    sockets_wipe(next);
}

/* Parses one line. Blanks at both ends are ignored. */
static bool
sockets_read_line(const struct proxy_sockets *sockets, struct sockets_next *next, char *line,
                  char fault[SOCKETS_FAULT])
{
    line += strspn(line, " \t");
    size_t size = strcspn(line, "\r\n");
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t'))
        size--;
    line[size] = '\0';
    if (!*line || *line == '#')
        return true;
    if (next->n == PROXY_TENANTS_MAX) {
        snprintf(fault, SOCKETS_FAULT, "there are more than %d sockets", PROXY_TENANTS_MAX);
        return false;
    }
    struct proxy_tenant *tenant = &next->tenants[next->n];
    char *text = strdup(line);
    if (!text || !sockets_parse(sockets, text, tenant, fault)) {
        free(text);
        return false;
    }
    tenant->text = text;
    const struct proxy_tenant *same = sockets_find(sockets->tenants, sockets->n, tenant->path);
    if (sockets_find(next->tenants, next->n, tenant->path) || (same && !same->text)) {
        snprintf(fault, SOCKETS_FAULT, "the socket '%s' already exists", tenant->path);
        free(text);
        return false;
    }
    next->n++;
    return true;
}

static bool
sockets_read_file(const struct proxy_sockets *sockets, struct sockets_next *next, const char *name)
{
    char path[PATH_MAX], line[SOCKETS_LINE], fault[SOCKETS_FAULT] = "out of memory";
    bool ok = true;

    snprintf(path, sizeof path, "%s/%s", sockets->folder, name);
    FILE *file = fopen(path, "re");
    if (!file) {
        vg_cl_say("%s: %s", path, strerror(errno));
        return false;
    }
    for (unsigned n = 1; ok && fgets(line, sizeof line, file); n++) {
        ok = strchr(line, '\n') || feof(file);
        if (!ok)
            snprintf(fault, sizeof fault, "the line is longer than %d bytes", SOCKETS_LINE - 2);
        ok = ok && sockets_read_line(sockets, next, line, fault);
        if (!ok)
            vg_cl_say("%s:%u: %s", path, n, fault);
    }
    fclose(file);
    return ok;
}

static int
sockets_is_file(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);

    return size > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + size - 5, ".conf") == 0;
}

/* Returns NULL after a message. */
static struct sockets_next *
sockets_read_folder(const struct proxy_sockets *sockets)
{
    struct sockets_next *next = calloc(1, sizeof *next);
    struct dirent **names;
    int n = next ? scandir(sockets->folder, &names, sockets_is_file, alphasort) : -1;
    bool ok = n >= 0;

    if (!ok)
        vg_cl_say("%s: %s", sockets->folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        ok = ok && sockets_read_file(sockets, next, names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (ok)
        return next;
    if (next)
        sockets_forget(next);
    return NULL;
}

static bool
sockets_has_clients(const struct proxy_share *share, const struct proxy_tenant *tenant)
{
    for (unsigned i = 0; i < share->n_clients; i++)
        if (share->clients[i].pid && share->clients[i].tenant == tenant)
            return true;
    return false;
}

/* Its place remains taken until its clients' processes have ended. */
static void
sockets_remove(const struct proxy_share *share, struct proxy_tenant *tenant)
{
    vg_cl_say("%s: closed because its file was removed", tenant->path);
    sockets_unlisten(tenant);
    tenant->is_gone = true;
    for (unsigned i = 0; i < share->n_clients; i++)
        if (share->clients[i].pid && share->clients[i].tenant == tenant)
            kill(share->clients[i].pid, SIGKILL);
}

/* Finds a place, or returns NULL. */
static struct proxy_tenant *
sockets_place(struct proxy_sockets *sockets, const struct proxy_share *share)
{
    for (unsigned i = 0; i < sockets->n; i++) {
        struct proxy_tenant *tenant = &sockets->tenants[i];
        if (tenant->is_gone && !sockets_has_clients(share, tenant)) {
            sockets_forget_tenant(tenant);
            return tenant;
        }
    }
    return sockets->n < PROXY_TENANTS_MAX ? &sockets->tenants[sockets->n++] : NULL;
}

/* Applies the present line to a socket that stays open. */
static void
sockets_change(const struct proxy_share *share, struct proxy_tenant *tenant,
               const struct proxy_tenant *next)
{
    if (tenant->weight != next->weight)
        vg_share_set_weight(share, tenant, next->weight);
    tenant->configured = next->configured;
    free(tenant->text);
    tenant->text = next->text;
    tenant->path = next->path;
    tenant->vm = next->vm;
    tenant->cid = next->cid;
    tenant->memory = next->memory;
    tenant->vm_memory = next->vm_memory;
    if (tenant->pool)
        tenant->pool->most = next->vm_memory;
    tenant->clients_max = next->clients_max;
    tenant->revision++;
    tenant->has_token = next->has_token;
    memcpy(tenant->token, next->token, sizeof tenant->token);
    tenant->token_file = next->token_file;
}

bool
vg_sockets_read(struct proxy_sockets *sockets, const struct proxy_share *share)
{
    struct sockets_next *next = sockets->folder ? sockets_read_folder(sockets) : NULL;

    if (!next)
        return !sockets->folder;
    for (unsigned i = 0; i < sockets->n; i++) {
        struct proxy_tenant *tenant = &sockets->tenants[i];
        if (tenant->text && !tenant->is_gone && !sockets_find(next->tenants, next->n, tenant->path))
            sockets_remove(share, tenant);
    }
    for (unsigned i = 0; i < next->n; i++) {
        struct proxy_tenant *old =
            sockets_find(sockets->tenants, sockets->n, next->tenants[i].path);
        struct proxy_tenant *place = old ? old : sockets_place(sockets, share);
        if (old) {
            sockets_change(share, old, &next->tenants[i]);
        } else if (place) {
            *place = next->tenants[i];
            place->serial = ++sockets->n_serials;
            if (sockets_listen(sockets, place))
                continue;
            vg_cl_say("%s: %s; trying again", place->path, strerror(errno));
            sockets->retry = vg_cl_now() + SOCKETS_RETRY;
        } else {
            vg_cl_say("%s: there are more than %d sockets", next->tenants[i].path,
                      PROXY_TENANTS_MAX);
            free(next->tenants[i].text);
        }
    }
    sockets_wipe(next);
    return true;
}
