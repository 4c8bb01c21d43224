/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/proxy-config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define AT_PROXY(member) offsetof(struct vg_proxy_config, member)

const struct vg_conf_key vg_proxy_keys[VG_PROXY_N_KEYS] = {
    {"proxy", "address", VG_CONF_STRING, AT_PROXY(address), "", 0, 118, NULL,
     "Address that the VM's programs use to reach a vgpu-proxy: tls:HOST:PORT, tcp:HOST:PORT, "
     "vsock:2:PORT, or none."},
    {"proxy", "token_file", VG_CONF_STRING, AT_PROXY(token_file), "", 0, 4000, NULL,
     "File with the token of the proxy's socket; it must not be readable by all users."},
};

static bool
proxy_config_is_port(const char *text)
{
    char *end;
    guint64 port = g_ascii_strtoull(text, &end, 10);

    return g_ascii_isdigit(text[0]) && *end == '\0' && port > 0 && port <= 65535;
}

static bool
proxy_config_is_address(const char *address)
{
    const char *colon = strrchr(address, ':');

    for (const char *at = address; *at; at++) {
        if (!g_ascii_isgraph(*at))
            return false;
    }
    if (g_str_has_prefix(address, "vsock:2:"))
        return proxy_config_is_port(address + strlen("vsock:2:"));
    return (g_str_has_prefix(address, "tcp:") || g_str_has_prefix(address, "tls:")) &&
           colon > address + strlen("tcp:") && proxy_config_is_port(colon + 1);
}

/* Returns the error in a group, or NULL. The caller frees it. */
static char *
proxy_config_fault(const struct vg_proxy_config *proxy)
{
    if (!proxy->address[0])
        return g_strdup("address, which this VM uses to reach the proxy, is missing");
    if (strcmp(proxy->address, "none") == 0)
        return NULL;
    if (!proxy_config_is_address(proxy->address))
        return g_strdup_printf("address: '%s' is neither tls:HOST:PORT nor tcp:HOST:PORT nor "
                               "vsock:2:PORT, nor none",
                               proxy->address);
    if (!proxy->token_file[0])
        return g_strdup("token_file is missing: the proxy accepts no client without a token");
    if (!g_path_is_absolute(proxy->token_file))
        return g_strdup_printf("token_file: '%s' is not an absolute path", proxy->token_file);
    return NULL;
}

void
vg_proxy_config_check(const GPtrArray *proxies, GString *errors)
{
    for (guint i = 0; i < proxies->len; i++) {
        const struct vg_proxy_config *proxy = proxies->pdata[i];
        g_autofree char *fault = proxy_config_fault(proxy);
        if (fault)
            g_string_append_printf(errors, "%s%s:%u: [proxy %s] %s", errors->len > 0 ? "\n" : "",
                                   proxy->item.file, proxy->item.line, proxy->item.name, fault);
    }
}

char *
vg_proxy_config_token(const char *path, GError **err)
{
    char text[VG_PROXY_TOKEN_MAX + 2] = "";
    struct stat st;
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    ssize_t n = is_file ? read(fd, text, sizeof(text) - 1) : -1;
    int error = fd >= 0 && !is_file ? EINVAL : errno;

    if (fd >= 0)
        close(fd);
    if (n < 0) {
        vg_error(err, VG_E_INVALID, "the token cannot be read from '%s': %s", path,
                 g_strerror(error));
        return NULL;
    }
    if (st.st_mode & S_IRWXO) {
        vg_error(err, VG_E_INVALID,
                 "all users of this machine can read '%s', which holds a token; run `chmod o= %s`",
                 path, path);
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    bool ok = strlen(text) >= VG_PROXY_TOKEN_MIN && strlen(text) <= VG_PROXY_TOKEN_MAX;
    for (const char *at = text; ok && *at; at++)
        ok = g_ascii_isgraph(*at);
    if (ok)
        return g_strdup(text);
    vg_error(err, VG_E_INVALID,
             "the first line of '%s' is not a token of %d to %d bytes without blanks", path,
             VG_PROXY_TOKEN_MIN, VG_PROXY_TOKEN_MAX);
    return NULL;
}
