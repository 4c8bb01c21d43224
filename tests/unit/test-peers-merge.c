/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes one picture of the answers of several peers, by whom their hosts are proved; and the
 * URIs and names by which other hosts are reached and known.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "cluster/certificate-names.h"
#include "cluster/peers.h"
#include "cluster/uri.h"
#include "model/arrival.h"

#define X "aaaaaaaa-1c0e-4d3a-9d53-0d2c5f9a8e11"
#define Y "bbbbbbbb-1c0e-4d3a-9d53-0d2c5f9a8e11"

/* ---- answers ---- */

/* Makes a sealed snapshot of a host with these VMs, which are called like their UUIDs. */
static vg_snapshot *
snapshot_of(const char *name, const char *const *uuids)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);

    for (size_t i = 0; uuids && uuids[i]; i++)
        vg_snap_host_add_vm(host, uuids[i])->uuid = g_strdup(uuids[i]);
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

#define VMS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void
view_free(void *data)
{
    struct vg_peer_view *view = data;

    vg_peer_info_free(view->info);
    vg_snapshot_free((vg_snapshot *)view->snapshot);
    if (view->approvals)
        g_ptr_array_unref(view->approvals);
    g_free(view);
}

static struct vg_peer_view *
add_view(GPtrArray *views, const char *host, enum vg_host_proof proof, const char *const *uuids)
{
    struct vg_peer_view *view = g_new0(struct vg_peer_view, 1);

    view->info = vg_peer_info_new();
    view->info->name = g_strdup_printf("peer-%u", views->len);
    view->info->host = g_strdup(host);
    view->info->state = VG_PEER_REACHABLE;
    view->info->host_proof = proof;
    if (proof != VG_PROOF_PROVED)
        view->info->host_reason = g_strdup("it is in doubt");
    view->snapshot = snapshot_of(host, uuids);
    g_ptr_array_add(views, view);
    return view;
}

static GPtrArray *
moves(const char *uuid, const char *to, bool moving)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_approval_free);

    g_ptr_array_add(list, vg_approval_new(uuid, to, moving));
    return list;
}

struct site {
    vg_snapshot *own;
    GPtrArray *views, *notes;
    GPtrArray *own_moves; /* or NULL */
    vg_snapshot *merged;
};

static void
site_begin(struct site *site, const char *const *own_vms)
{
    *site = (struct site){
        .own = snapshot_of("own", own_vms),
        .views = g_ptr_array_new_with_free_func(view_free),
        .notes = g_ptr_array_new_with_free_func(g_free),
    };
}

static void
site_merge(struct site *site)
{
    site->merged = vg_peers_merge(site->own, site->views, site->own_moves, site->notes);
}

static void
site_end(struct site *site)
{
    vg_snapshot_free(site->merged);
    vg_snapshot_free(site->own);
    g_ptr_array_unref(site->views);
    g_ptr_array_unref(site->notes);
    if (site->own_moves)
        g_ptr_array_unref(site->own_moves);
}

/* Returns the number of VMs of a host, or -1 if it is left out. */
static int
vms_of(const struct site *site, const char *name)
{
    const struct vg_snap_host *host = vg_snapshot_find_host(site->merged, name);

    return host ? (int)host->vms->len : -1;
}

static bool
notes_say(const struct site *site, const char *words)
{
    for (guint i = 0; i < site->notes->len; i++) {
        if (strstr(site->notes->pdata[i], words))
            return true;
    }
    return false;
}

static void
test_a_host_that_is_proved_goes_first(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct site site;
        site_begin(&site, NULL);
        if (order == 0)
            add_view(site.views, "b", VG_PROOF_UNPROVED, VMS(X, Y));
        add_view(site.views, "b", VG_PROOF_PROVED, VMS(X));
        if (order == 1)
            add_view(site.views, "b", VG_PROOF_UNPROVED, VMS(X, Y));
        site_merge(&site);
        assert_int_equal(vms_of(&site, "b"), 1);
        assert_false(vg_snapshot_find_host(site.merged, "b")->maintenance);
        assert_true(notes_say(&site, "host 'b' is in"));
        site_end(&site);
    }
}

static void
test_a_host_that_is_disputed_is_left_out(void **state)
{
    struct site site;

    (void)state;
    site_begin(&site, NULL);
    add_view(site.views, "b", VG_PROOF_DISPUTED, VMS(X));
    add_view(site.views, "c", VG_PROOF_PROVED, VMS(X));
    site_merge(&site);
    assert_int_equal(vms_of(&site, "b"), -1);
    assert_int_equal(vms_of(&site, "c"), 1);
    assert_true(notes_say(&site, "peer 'peer-0' is left out: it is in doubt"));
    site_end(&site);
}

/* It counts, and nothing goes to it or leaves it. */
static void
test_a_host_that_is_not_proved_is_shut(void **state)
{
    struct site site;

    (void)state;
    site_begin(&site, VMS(X));
    add_view(site.views, "b", VG_PROOF_UNPROVED, VMS(Y));
    site_merge(&site);
    const struct vg_snap_host *host = vg_snapshot_find_host(site.merged, "b");
    assert_true(host->maintenance);
    assert_true(((const struct vg_snap_vm *)host->vms->pdata[0])->never_move);
    host = vg_snapshot_find_host(site.merged, "own");
    assert_false(host->maintenance);
    assert_false(((const struct vg_snap_vm *)host->vms->pdata[0])->never_move);
    assert_true(notes_say(&site, "it is in doubt"));
    site_end(&site);
}

/* Nobody is left out because another one says that it has one of its VMs. */
static void
test_a_vm_that_two_hosts_have(void **state)
{
    struct site site;

    (void)state;
    site_begin(&site, VMS(X));
    add_view(site.views, "b", VG_PROOF_PROVED, VMS("BBBBBBBB-1c0e-4d3a-9d53-0d2c5f9a8e11"));
    add_view(site.views, "c", VG_PROOF_PROVED, VMS(X, Y));
    site_merge(&site);
    assert_int_equal(vms_of(&site, "own"), 0);
    assert_int_equal(vms_of(&site, "b"), 0);
    assert_int_equal(vms_of(&site, "c"), 0);
    assert_true(notes_say(&site, "hosts 'own' and 'c' both have it"));
    assert_true(notes_say(&site, "hosts 'b' and 'c' both have it"));
    site_end(&site);
}

static void
test_a_vm_is_left_to_the_host_that_is_proved(void **state)
{
    struct site site;

    (void)state;
    site_begin(&site, NULL);
    add_view(site.views, "b", VG_PROOF_UNPROVED, VMS(X));
    add_view(site.views, "c", VG_PROOF_PROVED, VMS(X));
    site_merge(&site);
    assert_int_equal(vms_of(&site, "b"), 0);
    assert_int_equal(vms_of(&site, "c"), 1);
    site_end(&site);
}

/* What a move explains is left to its source, from whichever side it is seen; what is only wanted
 * explains nothing. */
static void
test_a_vm_that_moves(void **state)
{
    struct site site;

    (void)state;
    site_begin(&site, VMS(X, Y));
    add_view(site.views, "b", VG_PROOF_PROVED, VMS(X))->approvals = moves(X, "own", true);
    add_view(site.views, "c", VG_PROOF_PROVED, VMS(Y));
    site.own_moves = moves(Y, "c", true);
    site_merge(&site);
    assert_int_equal(vms_of(&site, "own"), 1);
    assert_int_equal(vms_of(&site, "b"), 1);
    assert_int_equal(vms_of(&site, "c"), 0);
    assert_int_equal(site.notes->len, 0);
    site_end(&site);
    site_begin(&site, VMS(X));
    add_view(site.views, "b", VG_PROOF_PROVED, VMS(X))->approvals = moves(X, "own", false);
    site_merge(&site);
    assert_int_equal(vms_of(&site, "own") + vms_of(&site, "b"), 0);
    site_end(&site);
}

/* ---- URIs ---- */

static void
test_the_host_of_a_url(void **state)
{
    static const struct {
        const char *url, *host;
    } cases[] = {
        {"https://host-a.example:8447", "host-a.example"},
        {"https://10.0.0.7:8447/", "10.0.0.7"},
        {"https://[2001:db8::7]:8447/below/it", "[2001:db8::7]"},
        {"https://host", "host"},
        {"http://host:1", NULL},
        {"https://", NULL},
        {"https://user@host:1", NULL},
        {"https://host:1/?command=x", NULL},
        {"https://host:1#x", NULL},
        {"https://host:1x", NULL},
        {"https://-oProxyCommand=x", NULL},
        {"https://-host", NULL},
        {"https://ho%73t", NULL},
        {"https://host\\x", NULL},
        {"https://host name", NULL},
        {"https://[::1]x", NULL},
        {"https://[::1%25eth0]:1", NULL},
        {"https://[host]:1", NULL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *host = vg_uri_host(cases[i].url, &error);
        if (g_strcmp0(host, cases[i].host) != 0 || !host != !!error)
            fail_msg("%s: '%s'", cases[i].url, host ? host : "(none)");
    }
}

static void
test_a_template_of_the_own_uri(void **state)
{
    static const struct {
        const char *uri, *made;
    } cases[] = {
        {"qemu+tls://host-a/system", "qemu+tls://%h/system"},
        {"qemu+ssh://root@host-a.example:2222/system", "qemu+ssh://root@%h:2222/system"},
        {"qemu+tcp://[::1]:16509/system", "qemu+tcp://%h:16509/system"},
        {"qemu://host-a/system", "qemu://%h/system"},
        {"qemu+ext://host-a/system?command=/bin/x", NULL},
        {"qemu+ext://host-a/system", NULL},
        {"qemu+unix://host-a/system", NULL},
        {"qemu+libssh://host-a/system", NULL},
        {"qemu+tls://host-a/system?pkipath=/x", NULL},
        {"qemu+ssh://host-a/system#x", NULL},
        {"qemu+tls:///system", NULL},
        {"qemu:///system", NULL},
        {"qemu+tls://%h/system", NULL},
        {"nonsense", NULL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *made = vg_uri_template_of(cases[i].uri, &error);
        if (g_strcmp0(made, cases[i].made) != 0 || !made != !!error)
            fail_msg("%s: '%s'", cases[i].uri, made ? made : "(none)");
        if (made)
            assert_int_equal(vg_uri_template_check(made, &error), 0);
    }
    g_autofree char *uri = vg_uri_template_fill("qemu+ssh://root@%h:22/system", "[::1]");
    assert_string_equal(uri, "qemu+ssh://root@[::1]:22/system");
}

static void
test_a_template_that_is_written(void **state)
{
    static const char *const good[] = {"qemu+ssh://vgpud@%h/system?keyfile=/etc/vgpud/id",
                                       "qemu+tls://%h:16514/system"};
    static const char *const bad[] = {"qemu+tls://host/system",
                                      "qemu+tls://%h.example/system",
                                      "qemu+ext://x/system?command=%h",
                                      "qemu+tls://%h/%h",
                                      "%h",
                                      ""};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        assert_int_equal(vg_uri_template_check(good[i], NULL), 0);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        assert_int_equal(vg_uri_template_check(bad[i], NULL), -1);
}

/* ---- names of certificates ---- */

static void
test_whose_certificate(void **state)
{
    char *names[] = {(char *)"node-a.example.org", (char *)"*.example.org", (char *)"Node-B", NULL};
    static const char *const of[] = {"node-a.example.org", "node-a", "node-b", "NODE-A"};
    static const char *const others[] = {
        "node", "node-a.example", "node-a.example.org.x", "node-b.example.org", "example", ""};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(of); i++)
        assert_true(vg_certificate_is_of(names, of[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        assert_false(vg_certificate_is_of(names, others[i]));
    assert_false(vg_certificate_is_of(NULL, "node-a"));
    g_auto(GStrv) none = vg_certificate_names("no certificate");
    assert_null(none[0]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_that_is_proved_goes_first),
        cmocka_unit_test(test_a_host_that_is_disputed_is_left_out),
        cmocka_unit_test(test_a_host_that_is_not_proved_is_shut),
        cmocka_unit_test(test_a_vm_that_two_hosts_have),
        cmocka_unit_test(test_a_vm_is_left_to_the_host_that_is_proved),
        cmocka_unit_test(test_a_vm_that_moves),
        cmocka_unit_test(test_the_host_of_a_url),
        cmocka_unit_test(test_a_template_of_the_own_uri),
        cmocka_unit_test(test_a_template_that_is_written),
        cmocka_unit_test(test_whose_certificate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
