/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether OpenCL proxies isolate their clients, and whether others can read the VMs' data on
 * the network.
 */
#include "config.h"

#include <string.h>

#include "cli/doctor.h"
#include "cli/output.h"

/* Returns whether an address is TCP on a network, not only on this machine. */
static bool
proxies_is_clear(const char *address)
{
    return g_str_has_prefix(address, "tcp:") && !g_str_has_prefix(address, "tcp:127.") &&
           !g_str_has_prefix(address, "tcp:localhost:") && !g_str_has_prefix(address, "tcp:[::1]:");
}

static const char *
proxies_string(json_object *row, const char *name)
{
    const char *text = json_object_get_string(vg_output_member(row, name));

    return text ? text : "";
}

/* Collects the distinct addresses of rows, either the unencrypted or the encrypted ones. */
static void
proxies_find(json_object *rows, const char *member, bool is_clear, GPtrArray *found)
{
    for (size_t i = 0; i < vg_output_length(rows); i++) {
        const char *address = proxies_string(json_object_array_get_idx(rows, i), member);
        const bool is_wanted =
            is_clear ? proxies_is_clear(address) : g_str_has_prefix(address, "tls:");
        if (is_wanted && !g_ptr_array_find_with_equal_func(found, address, g_str_equal, NULL))
            g_ptr_array_add(found, (char *)address);
    }
}

/* Adds a check for each proxy. The rows are sockets, so a proxy may have several. */
static void
proxies_check_confinement(json_object *checks, json_object *rows)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    for (size_t i = 0; i < vg_output_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        const char *proxy = proxies_string(row, "proxy");
        const char *confinement = proxies_string(row, "confinement");
        if (!g_hash_table_add(seen, (char *)proxy))
            continue;
        if (strcmp(confinement, "full") == 0)
            vg_doctor_add(checks, "vgpu-proxy", VG_HEALTH_OK, NULL,
                          "%s: it confines its clients' processes", proxy);
        else
            vg_doctor_add(checks, "vgpu-proxy", VG_HEALTH_LACKS, "man vgpu-proxy",
                          "%s: %s: a VM can read this host's files through it, and end other VMs' "
                          "programs",
                          proxy,
                          strcmp(confinement, "none") == 0
                              ? "it runs with --unconfined"
                              : "it is an older version, which does not confine its clients");
    }
}

/* Adds a check for each socket whose token or key all users can read. */
static void
proxies_check_secrets(json_object *checks, json_object *rows)
{
    for (size_t i = 0; i < vg_output_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        const char *secrets = proxies_string(row, "open_secrets");
        if (!secrets[0])
            continue;
        g_autofree char *what = g_strdup_printf("proxy %s", proxies_string(row, "socket"));
        vg_doctor_add(checks, what, VG_HEALTH_LACKS, "man vgpu-proxy", "%s", secrets);
    }
}

void
vg_doctor_read_proxies(json_object *checks, json_object *document)
{
    g_autoptr(GPtrArray) clear = g_ptr_array_new(), encrypted = g_ptr_array_new();
    json_object *items = vg_output_member(document, "items");
    json_object *guests = vg_output_member(document, "guests");

    proxies_check_confinement(checks, items);
    proxies_check_secrets(checks, items);
    proxies_find(items, "socket", true, clear);
    proxies_find(guests, "address", true, clear);
    proxies_find(items, "socket", false, encrypted);
    proxies_find(guests, "address", false, encrypted);
    for (guint i = 0; i < clear->len; i++) {
        g_autofree char *what = g_strdup_printf("proxy %s", (const char *)clear->pdata[i]);
        vg_doctor_add(checks, what, VG_HEALTH_LACKS, "man vgpu-proxy",
                      "traffic, including the token, is not encrypted: anyone who can read it "
                      "can impersonate the VM; use a tls address instead");
    }
    for (guint i = 0; i < encrypted->len; i++) {
        g_autofree char *what = g_strdup_printf("proxy %s", (const char *)encrypted->pdata[i]);
        vg_doctor_add(checks, what, VG_HEALTH_OK, NULL, "all its traffic is encrypted");
    }
}
