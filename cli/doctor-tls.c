/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports whether a VM's memory is encrypted during a migration.
 */
#include "config.h"

#include <string.h>

#include "cli/doctor.h"
#include "cli/output.h"
#include "model/migration-tls.h"

static const char *
doctor_tls_text(json_object *object, const char *member)
{
    return json_object_get_string(vg_output_member(object, member));
}

static void
doctor_tls_add(json_object *checks, const struct vg_tls_facts *facts, const char *peer)
{
    const struct vg_tls_choice choice = vg_tls_choose(facts);
    g_autofree char *why = choice.why;
    g_autofree char *what = g_strdup_printf("tls to %s", peer);

    if (choice.refused)
        vg_doctor_add(checks, what, VG_HEALTH_BROKEN, NULL, "VMs cannot be moved to it: %s", why);
    else if (choice.tls == VG_MOVE_TLS_YES)
        vg_doctor_add(checks, what, VG_HEALTH_OK, NULL, "migrations use TLS: %s", why);
    else
        vg_doctor_add(checks, what, choice.warns ? VG_HEALTH_LACKS : VG_HEALTH_OK, NULL,
                      "migrations send the VM's memory in clear text: %s%s", why,
                      choice.warns ? "; see TLS OF MIGRATIONS in vgpud(8)" : "");
}

void
vg_doctor_read_tls(json_object *checks, json_object *host, json_object *peers)
{
    json_object *items = vg_output_member(peers, "items");
    const char *mode = doctor_tls_text(host, "daemon.setup.tls");
    const char *own = doctor_tls_text(host, "daemon.setup.migration_tls");
    const char *name = doctor_tls_text(host, "name");
    struct vg_tls_facts facts = {.from = name ? name : "", .own = vg_tls_certs_of(own)};

    /* An older vgpud never uses TLS and does not report this member. */
    if (!mode || !json_object_get_boolean(vg_output_member(host, "daemon.setup.acting")))
        return;
    while (facts.mode < VG_TLS_MODE_MAX && strcmp(vg_tls_mode_names[facts.mode], mode) != 0)
        facts.mode++;
    for (size_t i = 0; facts.mode < VG_TLS_MODE_MAX && i < vg_output_length(items); i++) {
        json_object *peer = json_object_array_get_idx(items, i);
        const char *host_name = doctor_tls_text(peer, "host");
        facts.uri = doctor_tls_text(peer, "libvirt_uri");
        facts.to = host_name ? host_name : doctor_tls_text(peer, "name");
        facts.other = vg_tls_certs_of(doctor_tls_text(peer, "migration_tls"));
        if (facts.uri && facts.to && host_name)
            doctor_tls_add(checks, &facts, facts.to);
    }
}
