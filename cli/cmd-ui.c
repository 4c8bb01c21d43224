/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl ui: makes vgpud's web page available to a browser, which cannot connect to a unix socket.
 * Listens on a port of the loopback interface, and forwards requests to the socket if they contain
 * the token generated for this run. Other users of this machine can also connect to the port, and
 * vgpud would treat their requests as this user's.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "client/remote.h"

#define UI_HEAD_MAX      16384
#define UI_HEAD_NS       (10 * VG_NS_PER_S) /* the time limit for a complete head */
#define UI_CONNECTIONS   64
#define UI_LINGER_MS     500
#define UI_LINGER_READS  64
#define UI_TOKEN_BYTES   24
#define UI_PUMP_BYTES    65536
#define UI_PORT_MAX      65535
#define UI_REFUSAL_BYTES 512

enum { KEY_PORT = 0xb00 };

struct ui_args {
    struct vg_online_args online;
    int64_t port; /* 0 for any free port */
};

struct ui {
    const char *socket;
    char *authorization; /* "Bearer TOKEN" */
    char hosts[2][32];   /* the browser's possible values of Host */
    int fd;
};

/* The head of a request as received. Its fields are searched one by one. */
struct ui_head {
    char bytes[UI_HEAD_MAX + 1];
    size_t size; /* including the bytes after the head */
    size_t length;
};

static bool
ui_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static void
ui_refuse(int fd, int status, const char *title, const char *detail)
{
    char text[UI_REFUSAL_BYTES];
    g_autofree char *body = g_strdup_printf(
        "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\"}\n", title,
        status, detail);

    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     status, title, strlen(body), body);
    (void)ui_write(fd, text, MIN((size_t)n, sizeof(text) - 1));
}

/* Reads until the empty line. */
static bool
ui_read_head(int fd, struct ui_head *head)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + UI_HEAD_NS;
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    head->size = 0;
    while (head->size < UI_HEAD_MAX && vg_clock_poll(&readable, 1, until_ns) > 0) {
        ssize_t n = recv(fd, head->bytes + head->size, UI_HEAD_MAX - head->size, 0);
        if (n <= 0)
            return false;
        head->size += (size_t)n;
        head->bytes[head->size] = '\0';
        const char *end = memmem(head->bytes, head->size, "\r\n\r\n", strlen("\r\n\r\n"));
        if (end) {
            head->length = (size_t)(end - head->bytes) + strlen("\r\n\r\n");
            return true;
        }
    }
    return false;
}

/* Returns whether all parsers see the same lines in the head. A line end that only one of them
 * recognises could hide a second, unchecked request. */
static bool
ui_is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' && text[i + 1] == '\n')
            i++;
        else if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    }
    return true;
}

/* Returns the value of the field with this name, or NULL unless it occurs exactly once. The caller
 * frees it. */
static char *
ui_field(char **lines, const char *name)
{
    char *value = NULL;

    for (guint i = 1; lines[i]; i++) {
        const size_t length = strlen(name);
        if (g_ascii_strncasecmp(lines[i], name, length) != 0 || lines[i][length] != ':')
            continue;
        if (value) {
            g_free(value);
            return NULL;
        }
        value = g_strstrip(g_strdup(lines[i] + length + 1));
    }
    return value;
}

static bool
ui_is_same(const char *a, const char *b)
{
    const size_t length = strlen(a);
    unsigned char differs = 0;

    if (strlen(b) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

/* Returns whether the request is for a file of the page, which contains no figures. */
static bool
ui_is_page(const char *line)
{
    static const char *const files[] = {"GET / HTTP/", "GET /ui HTTP/", "GET /ui/app.js HTTP/",
                                        "GET /ui/app.css HTTP/"};

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        if (g_str_has_prefix(line, files[i]))
            return true;
    }
    return false;
}

/* Creates the head for vgpud. The client is identified as this process's owner. There is one
 * request per connection, so everything after the head belongs to its body. The caller frees it. */
static char *
ui_make_head(char **lines)
{
    static const char *const not_ours[] = {
        "Authorization:", "Connection:", "Keep-Alive:", "Upgrade:"};
    GString *head = g_string_new(NULL);

    g_string_append_printf(head, "%s\r\nConnection: close\r\n", lines[0]);
    for (guint i = 1; lines[i] && lines[i][0]; i++) {
        bool skip = false;
        for (size_t k = 0; k < G_N_ELEMENTS(not_ours); k++)
            skip |= g_ascii_strncasecmp(lines[i], not_ours[k], strlen(not_ours[k])) == 0;
        if (!skip)
            g_string_append_printf(head, "%s\r\n", lines[i]);
    }
    g_string_append(head, "\r\n");
    return g_string_free(head, FALSE);
}

static int
ui_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 ||
        g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path) ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* Copies bytes in both directions until vgpud or the browser closes its side. */
static void
ui_pump(int client, int server)
{
    struct pollfd sides[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    static char bytes[UI_PUMP_BYTES];

    while (poll(sides, G_N_ELEMENTS(sides), -1) > 0 || errno == EINTR) {
        for (int i = 0; i < 2; i++) {
            if (!(sides[i].revents & (POLLIN | POLLHUP | POLLERR)))
                continue;
            ssize_t n = recv(sides[i].fd, bytes, sizeof(bytes), 0);
            if (n <= 0 || !ui_write(sides[1 - i].fd, bytes, (size_t)n))
                return;
        }
    }
}

/* Reads what the browser is still sending, because closing early would discard the answer. */
static void
ui_linger(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    static char bytes[UI_PUMP_BYTES];

    shutdown(fd, SHUT_WR);
    for (int i = 0; i < UI_LINGER_READS && poll(&readable, 1, UI_LINGER_MS) > 0; i++) {
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            return;
    }
}

static void
ui_serve(const struct ui *ui, int client)
{
    static struct ui_head head;

    if (!ui_read_head(client, &head))
        return;
    if (!ui_is_plain(head.bytes, head.length)) {
        ui_refuse(client, 400, "Bad Request", "the request's header contains control characters");
        return;
    }
    g_autofree char *text = g_strndup(head.bytes, head.length);
    g_auto(GStrv) lines = g_strsplit(text, "\r\n", -1);
    g_autofree char *host = ui_field(lines, "Host");
    g_autofree char *authorization = ui_field(lines, "Authorization");
    /* A page of another site whose name resolves to this machine still sends its own name. */
    if (!host || (strcmp(host, ui->hosts[0]) != 0 && strcmp(host, ui->hosts[1]) != 0)) {
        ui_refuse(client, 400, "Bad Request", "the Host header does not match the link");
        return;
    }
    if (!ui_is_page(lines[0]) &&
        (!authorization || !ui_is_same(authorization, ui->authorization))) {
        ui_refuse(client, 401, "Unauthorized", "open the link that vgpuctl ui printed");
        return;
    }
    int server = ui_connect(ui->socket);
    if (server < 0) {
        ui_refuse(client, 502, "Bad Gateway", "vgpud does not answer at its socket");
        return;
    }
    g_autofree char *ours = ui_make_head(lines);
    if (ui_write(server, ours, strlen(ours)) &&
        ui_write(server, head.bytes + head.length, head.size - head.length))
        ui_pump(client, server);
    close(server);
}

/* ---- the port ---- */

static char *
ui_make_token(void)
{
    unsigned char bytes[UI_TOKEN_BYTES];
    GString *token = g_string_new(NULL);

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        vg_bug("the kernel returned no random bytes");
    for (size_t i = 0; i < sizeof(bytes); i++)
        g_string_append_printf(token, "%02x", bytes[i]);
    return g_string_free(token, FALSE);
}

static int
ui_listen(struct ui *ui, int64_t port, GError **err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof(address);
    const int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ui->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ui->fd >= 0)
        setsockopt(ui->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (ui->fd < 0 || bind(ui->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(ui->fd, UI_CONNECTIONS) != 0 ||
        getsockname(ui->fd, (struct sockaddr *)&address, &size) != 0)
        return vg_error_errno(err, errno, "cannot listen on port %d of 127.0.0.1", (int)port);
    const int is = ntohs(address.sin_port);
    snprintf(ui->hosts[0], sizeof(ui->hosts[0]), "127.0.0.1:%d", is);
    snprintf(ui->hosts[1], sizeof(ui->hosts[1]), "localhost:%d", is);
    return 0;
}

/* Starts a process for each connection. They end with this process. */
static int
ui_run(struct ui *ui, GError **err)
{
    const pid_t self = getpid();
    int serving = 0;

    for (;;) {
        while (serving > 0 && waitpid(-1, NULL, serving < UI_CONNECTIONS ? WNOHANG : 0) > 0)
            serving--;
        int client = accept4(ui->fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (client < 0)
            return vg_error_errno(err, errno, "cannot accept connections");
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ui->fd);
            if (getppid() == self) {
                ui_serve(ui, client);
                ui_linger(client);
            }
            _exit(0);
        }
        serving += child > 0;
        close(client);
    }
}

static int
ui_show(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"links", NULL};
    const struct ui_args *args = data;
    struct vg_remote remote = {0};
    struct ui ui = {.fd = -1};
    g_autoptr(json_object) document = NULL;

    if (vg_remote_resolve(&args->online.remote, &remote, err) < 0)
        return -1;
    /* Connect once, so that a missing vgpud is reported immediately. */
    int status = vg_client_get(client, "/v1", lists, &document, err);
    ui.socket = vg_remote_value(&remote, VG_REMOTE_SOCKET);
    if (status == 0 && !ui.socket) {
        printf("https://%s:%s/\n", remote.host, remote.port);
        vg_cli_warn("open this link in a browser; the page prompts for a token");
    } else if (status == 0 && (status = ui_listen(&ui, args->port, err)) == 0) {
        g_autofree char *token = ui_make_token();
        ui.authorization = g_strconcat("Bearer ", token, NULL);
        printf("http://%s/#token=%s\n", ui.hosts[0], token);
        fflush(stdout);
        status = ui_run(&ui, err);
    }
    if (ui.fd >= 0)
        close(ui.fd);
    g_free(ui.authorization);
    vg_remote_clear(&remote);
    return status;
}

static error_t
ui_parse(int key, char *arg, struct argp_state *state)
{
    struct ui_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_PORT:
        if (!g_ascii_string_to_signed(arg, 10, 1, UI_PORT_MAX, &args->port, NULL))
            vg_cli_usage(state, "--port must be a number from 1 to %d, not '%s'", UI_PORT_MAX, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_ui(int argc, char **argv)
{
    static const struct vg_online_verb verb = {.show = ui_show};
    static const struct argp_option options[] = {
        {"port", KEY_PORT, "PORT", 0, "port to listen on (default: a free port)", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = ui_parse,
        .doc = "Serves a page of charts to browsers on this machine, and prints the link to it. "
               "Press Ctrl-C to stop.",
        .children = vg_online_silent_children,
    };
    struct ui_args args = {.online = {.verbs = &verb, .n_verbs = 1, .silent = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
