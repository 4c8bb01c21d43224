/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/vm_sockets.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define ADDRESS_TCP   "tcp:"
#define ADDRESS_TLS   "tls:"
#define ADDRESS_VSOCK "vsock:"

/* Returns what comes after WORD, or NULL if the text does not start with it. */
static const char *
address_after(const char *address, const char *word)
{
    size_t size = strlen(word);

    return strncmp(address, word, size) == 0 ? address + size : NULL;
}

/* Returns HOST:PORT, or NULL if it is another kind of address. */
static const char *
address_tcp(const char *address)
{
    const char *tls = address_after(address, ADDRESS_TLS);

    return tls ? tls : address_after(address, ADDRESS_TCP);
}

bool
vg_wire_address_is_far(const char *address)
{
    return address_tcp(address) || address_after(address, ADDRESS_VSOCK);
}

bool
vg_wire_address_is_tls(const char *address)
{
    return address_after(address, ADDRESS_TLS);
}

bool
vg_wire_address_host(const char *address, char host[VG_WIRE_HOST_MAX])
{
    const char *tcp = address_tcp(address), *colon = tcp ? strrchr(tcp, ':') : NULL;

    if (!colon || colon == tcp)
        return false;
    const bool has_brackets = *tcp == '[' && colon[-1] == ']';
    const size_t size = (size_t)(colon - tcp) - (has_brackets ? 2 : 0);
    if (size == 0 || size >= VG_WIRE_HOST_MAX)
        return false;
    memcpy(host, tcp + has_brackets, size);
    host[size] = '\0';
    return true;
}

bool
vg_wire_address_is_clear(const char *address)
{
    char host[VG_WIRE_HOST_MAX];

    return address_after(address, ADDRESS_TCP) && vg_wire_address_host(address, host) &&
           strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0 &&
           strcmp(host, "localhost") != 0;
}

void
vg_wire_address_limit(int fd, int limit_s)
{
    const struct timeval limit = {.tv_sec = limit_s};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void
vg_wire_address_tune(int fd)
{
    /* A buffer large enough to keep both sides busy with large data. If the other side has not
     * received anything for a minute, it will not. */
    const int bytes = 1 << 20, on = 1, idle_s = 30, between_s = 10, most_ms = 60000;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

/* Returns all addresses of HOST:PORT, which the caller frees, or NULL with errno. */
static struct addrinfo *
address_resolve(const char *text, int flags)
{
    const struct addrinfo hints = {
        .ai_flags = flags | AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(text, ':');
    struct addrinfo *found = NULL;

    errno = EINVAL;
    if (!colon || colon == text)
        return NULL;
    bool has_brackets = *text == '[' && colon[-1] == ']';
    char *host = strndup(text + has_brackets, (size_t)(colon - text) - (has_brackets ? 2 : 0));
    int wrong = host ? getaddrinfo(host, colon + 1, &hints, &found) : EAI_MEMORY;
    free(host);
    if (wrong)
        errno = wrong == EAI_SYSTEM ? errno : wrong == EAI_MEMORY ? ENOMEM : EADDRNOTAVAIL;
    return wrong ? NULL : found;
}

/* Parses CID:PORT, or PORT for all CIDs. */
static bool
address_parse_vsock(const char *text, bool has_cid, struct sockaddr_vm *address)
{
    char *end;

    *address = (struct sockaddr_vm){.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY};
    errno = EINVAL;
    if (has_cid) {
        address->svm_cid = (unsigned)strtoul(text, &end, 10);
        if (end == text || *end != ':')
            return false;
        text = end + 1;
    }
    address->svm_port = (unsigned)strtoul(text, &end, 10);
    return end != text && *end == '\0';
}

static int
address_try(const struct sockaddr *address, socklen_t size, int limit_s)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    vg_wire_address_limit(fd, limit_s);
    if (connect(fd, address, size) == 0)
        return fd;
    /* The error of connect() after the limit. */
    int error = errno == EINPROGRESS || errno == EAGAIN ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
}

/* Connects to the address in TEXT, and reports where. */
static int
address_connect_tcp(const char *text, struct vg_wire_place *place, int limit_s)
{
    struct addrinfo *all = address_resolve(text, 0);
    int fd = -1;

    for (const struct addrinfo *one = all; one && fd < 0; one = one->ai_next) {
        fd = address_try(one->ai_addr, one->ai_addrlen, limit_s);
        if (fd >= 0 && place) {
            memcpy(&place->at, one->ai_addr, one->ai_addrlen);
            place->size = one->ai_addrlen;
        }
    }
    int error = errno;
    if (all)
        freeaddrinfo(all);
    errno = error;
    return fd;
}

int
vg_wire_address_connect(const char *address, struct vg_wire_place *place, int limit_s)
{
    const char *tcp = address_tcp(address);
    const char *vsock = address_after(address, ADDRESS_VSOCK);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_vm vm;

    if (vsock)
        return address_parse_vsock(vsock, true, &vm)
                   ? address_try((struct sockaddr *)&vm, sizeof vm, limit_s)
                   : -1;
    if (!tcp && strlen(address) >= sizeof path.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!tcp) {
        strcpy(path.sun_path, address);
        return address_try((struct sockaddr *)&path, sizeof path, limit_s);
    }
    if (place && place->size)
        return address_try((struct sockaddr *)&place->at, place->size, limit_s);
    return address_connect_tcp(tcp, place, limit_s);
}

static int
address_bind(const struct sockaddr *address, socklen_t size)
{
    const int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, size) == 0 && listen(fd, 64) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int
vg_wire_address_listen(const char *address)
{
    const char *tcp = address_tcp(address);
    const char *vsock = address_after(address, ADDRESS_VSOCK);
    struct sockaddr_vm vm;

    if (!tcp)
        return vsock && address_parse_vsock(vsock, false, &vm)
                   ? address_bind((struct sockaddr *)&vm, sizeof vm)
                   : -1;
    struct addrinfo *first = address_resolve(tcp, AI_PASSIVE);
    int fd = first ? address_bind(first->ai_addr, first->ai_addrlen) : -1;
    int error = errno;
    if (first)
        freeaddrinfo(first);
    errno = error;
    return fd;
}

bool
vg_wire_address_token(const char *path, char token[VG_WIRE_TOKEN_MAX])
{
    char bytes[VG_WIRE_TOKEN_MAX + 2] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    size_t size = 0;
    while (size < (size_t)n && bytes[size] != '\n')
        size++;
    const bool ok = size >= 16 && size <= VG_WIRE_TOKEN_MAX;
    if (ok) {
        memset(token, 0, VG_WIRE_TOKEN_MAX);
        memcpy(token, bytes, size);
    }
    explicit_bzero(bytes, sizeof bytes);
    errno = EINVAL;
    return ok;
}
