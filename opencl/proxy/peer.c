/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>
#include <netdb.h>
#include <netinet/in.h>

#define PEER_DEPTH 256 /* generations of parents */

unsigned
vg_peer_cid(int fd)
{
    struct sockaddr_vm other = {.svm_family = 0};
    socklen_t size = sizeof other;

    return getpeername(fd, (struct sockaddr *)&other, &size) == 0 && other.svm_family == AF_VSOCK
               ? other.svm_cid
               : 0;
}

void
vg_peer_describe(int fd, char text[PROXY_FROM_MAX])
{
    union {
        struct sockaddr any;
        struct sockaddr_storage room;
        struct sockaddr_vm vm;
    } other = {.any = {.sa_family = AF_UNSPEC}};
    struct ucred who = {.pid = 0};
    socklen_t size = sizeof other, who_size = sizeof who;
    char host[INET6_ADDRSTRLEN], port[8];

    getpeername(fd, &other.any, &size);
    if (other.any.sa_family == AF_VSOCK)
        snprintf(text, PROXY_FROM_MAX, "CID %u", other.vm.svm_cid);
    else if ((other.any.sa_family == AF_INET || other.any.sa_family == AF_INET6) &&
             getnameinfo(&other.any, size, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(text, PROXY_FROM_MAX, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size) == 0 && who.pid > 0)
        snprintf(text, PROXY_FROM_MAX, "process %d of user %u", (int)who.pid, (unsigned)who.uid);
    else
        snprintf(text, PROXY_FROM_MAX, "somewhere");
}

/* Returns the parent, 0 if it has none here, or -1 if that is unknown. */
static pid_t
peer_parent(pid_t pid)
{
    char path[32], line[512] = "";
    int parent = -1;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[n] = '\0';
    /* The name may also contain parentheses. */
    const char *end = strrchr(line, ')');
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : -1;
}

bool
vg_peer_is_own(int fd, uid_t uid)
{
    struct ucred who = {.pid = 0};
    socklen_t size = sizeof who;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return true;
    /* A process outside this PID namespace has no pid here. */
    pid_t pid = who.pid > 0 ? who.pid : -1;
    for (unsigned i = 0; i < PEER_DEPTH && pid > 1; i++) {
        if (pid == getpid())
            return true;
        pid = peer_parent(pid);
    }
    return (pid < 0 || pid > 1) && who.uid == uid;
}
