/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/listen.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>

#include "api/connect.h"
#include "api/http.h"
#include "base/clock.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define POOL_THREADS 2
#define BACKLOG      1024
/* Only these versions, with the algorithms that GnuTLS considers secure. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define CONN_MEMORY    (64 * 1024)

static int
listen_fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static void
listen_on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code)
{
    struct vg_listener *listener = cls;
    vg_api *api = listener->api;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        unsigned idle_s = (unsigned)CLAMP(VG_API_LIMIT(api, idle_ns) / VG_NS_PER_S, 1, 86400);
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, idle_s);
        struct vg_conn *conn = vg_conn_new(listener, listen_fd_of(connection));
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        conn->session = info ? info->tls_session : NULL;
        *socket_context = conn;
    } else if (*socket_context) {
        vg_conn_free(*socket_context);
        *socket_context = NULL;
    }
}

G_GNUC_PRINTF(2, 0)
static void
listen_on_log(void *cls, const char *fmt, va_list args)
{
    char text[512];

    (void)cls;
    g_vsnprintf(text, sizeof(text), fmt, args);
    vg_log_debug("%s", g_strchomp(text));
}

void
vg_listener_free(void *data)
{
    struct vg_listener *listener = data;

    if (listener->daemon)
        MHD_stop_daemon(listener->daemon);
    g_free(listener);
}

/* Starts a listener with the descriptor. name is for the error message. */
static int
listen_start(vg_api *api, int take_fd, bool is_tcp, const char *name, GError **err)
{
    struct vg_listener *listener = g_new0(struct vg_listener, 1);
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG | (is_tcp ? MHD_USE_TLS : 0);
    const char *ca = is_tcp ? vg_tls_client_ca(api->tls) : NULL;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)vg_tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        /* Requests a certificate from these CAs. A client without one is admitted here, and checked
         * later. */
        {ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, (void *)ca},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem always[] = {
#if MHD_VERSION >= 0x01000000
        /* Newer versions would redirect a client that writes a blank into a path. Older ones refuse
         * it. */
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#endif
        {MHD_OPTION_END, 0, NULL},
    };
    sigset_t all, old;

    listener->api = api;
    listener->is_tcp = is_tcp;
    /* libmicrohttpd's threads inherit this mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    listener->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, api, MHD_OPTION_EXTERNAL_LOGGER, listen_on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, take_fd, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)(is_tcp ? 0 : POOL_THREADS), MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CLAMP(api->limits.connections, POOL_THREADS, 100000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY, MHD_OPTION_URI_LOG_CALLBACK,
        http_on_uri, api, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, api,
        MHD_OPTION_NOTIFY_CONNECTION, listen_on_connection, listener, MHD_OPTION_ARRAY, always,
        MHD_OPTION_ARRAY, is_tcp ? tls : none, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (listener->daemon) {
        g_ptr_array_add(api->listeners, listener);
        return 0;
    }
    close(take_fd);
    g_free(listener);
    return vg_error(err, VG_E_EXTERNAL, "libmicrohttpd cannot listen on '%s'", name);
}

/* Returns whether this is a port in decimal digits. getaddrinfo() accepts larger numbers. */
static bool
listen_is_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    const guint64 port = g_ascii_strtoull(text, NULL, 10);

    return digits > 0 && digits <= 5 && !text[digits] && port > 0 && port <= UINT16_MAX;
}

/* Parses "192.0.2.1:8447" or "[2001:db8::1]:8447". Host names are not supported. */
static int
listen_parse_address(const char *text, struct addrinfo **ret, GError **err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    bool bracketed = size >= 2 && text[0] == '[' && text[size - 1] == ']';
    g_autofree char *host = g_strndup(bracketed ? text + 1 : text, bracketed ? size - 2 : size);
    const bool is_ipv6 = bracketed && strchr(host, ':');
    struct in_addr ipv4;

    /* inet_pton() accepts only four decimal numbers, unlike getaddrinfo(). */
    if (!colon || (!is_ipv6 && inet_pton(AF_INET, host, &ipv4) != 1) ||
        !listen_is_port(colon + 1) || getaddrinfo(host, colon + 1, &hints, ret) != 0)
        return vg_error(err, VG_E_INVALID,
                        "'%s' is not an IP address with a port from 1 to 65535, such as "
                        "192.0.2.1:8447, 0.0.0.0:8447 or [::]:8447",
                        text);
    return 0;
}

/* Returns whether an address means all addresses of its family. */
static bool
listen_is_any(const struct addrinfo *address)
{
    const struct sockaddr_in *ipv4 = (const void *)address->ai_addr;
    const struct sockaddr_in6 *ipv6 = (const void *)address->ai_addr;

    return address->ai_family == AF_INET ? ipv4->sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr);
}

/* Returns whether listening on one address prevents listening on the other. */
static bool
listen_collide(const struct addrinfo *a, const struct addrinfo *b)
{
    const struct sockaddr_in6 *x = (const void *)a->ai_addr, *y = (const void *)b->ai_addr;

    /* The port has the same place in addresses of both families. */
    if (a->ai_family != b->ai_family || x->sin6_port != y->sin6_port)
        return false;
    return listen_is_any(a) || listen_is_any(b) ||
           (a->ai_addrlen == b->ai_addrlen && memcmp(x, y, a->ai_addrlen) == 0);
}

int
vg_api_check_listen(const char *const *addresses, GError **err)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func((GDestroyNotify)freeaddrinfo);

    for (size_t i = 0; addresses[i]; i++) {
        struct addrinfo *address = NULL;
        if (listen_parse_address(addresses[i], &address, err) < 0)
            return -1;
        g_ptr_array_add(list, address);
        for (guint other = 0; other < i; other++) {
            if (listen_collide(list->pdata[other], address))
                return vg_error(err, VG_E_INVALID,
                                "'%s' and '%s' need the same port of the same address",
                                addresses[other], addresses[i]);
        }
    }
    return 0;
}

static int
listen_on(vg_api *api, const char *text, GError **err)
{
    const int one = 1;
    struct addrinfo *address = NULL;

    if (listen_parse_address(text, &address, err) != 0)
        return -1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool works = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                 (address->ai_family != AF_INET6 ||
                  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) == 0) &&
                 bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    int errnum = errno;
    freeaddrinfo(address);
    if (works)
        return listen_start(api, fd, true, text, err);
    if (fd >= 0)
        close(fd);
    return vg_error_errno(err, errnum, "cannot listen on '%s'", text);
}

int
vg_listen(vg_api *api, const struct vg_api_options *options, GError **err)
{
    const char *const *addresses = options->listen;

    if (addresses && addresses[0]) {
        api->tls = vg_tls_new(options->certificate, options->key, options->client_ca, err);
        if (!api->tls)
            return -1;
    }
    for (size_t i = 0; addresses && addresses[i]; i++) {
        if (listen_on(api, addresses[i], err) != 0)
            return -1;
    }
    /* Start the socket last: when it answers, the other listeners do, too. */
    return listen_start(api, vg_socket_take_fd(api->socket), false, options->socket, err);
}
