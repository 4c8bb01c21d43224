/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the address of an OpenStack cloud and vgpud's account there from the configuration, a
 * password file, or a clouds.yaml. Messages never contain a secret. Any thread.
 */
#ifndef VG_ACTUATORS_NOVA_CLOUD_H
#define VG_ACTUATORS_NOVA_CLOUD_H

#include <stdbool.h>

#include <glib.h>

/* The options as they are configured. Strings are borrowed, and empty where nothing is configured.
 * Either `cloud` names an entry in the file `clouds`, or auth_url and the options of its account
 * are given. */
struct vg_nova_options {
    const char *cloud;
    const char
        *clouds; /* the path of a clouds.yaml; a secure.yaml in the same directory is read, too */
    const char *auth_url;
    const char *username;
    const char *password_file;
    const char *project_name;
    const char *user_domain_name;
    const char *project_domain_name;
    const char *application_credential_id;
    const char *application_credential_secret_file;
    const char *region;
    const char *interface; /* "public", "internal" or "admin"; if empty, the value in clouds.yaml */
    const char *cacert;
};

/* A cloud and the account in it. Strings are owned, and NULL if they are not given. */
typedef struct vg_nova_cloud {
    char *auth_url; /* the URL of Keystone's version 3, without a slash at its end */
    char *username;
    char *user_id;
    char *password;
    char *user_domain_name;
    char *user_domain_id;
    char *project_name;
    char *project_id;
    char *project_domain_name;
    char *project_domain_id;
    char *application_credential_id;
    char *application_credential_secret;
    char *region;
    char *interface;
    char *cacert;
} vg_nova_cloud;

/* Returns whether a cloud is configured at all. */
bool vg_nova_is_configured(const struct vg_nova_options *options);

/* Reads the files. Returns NULL with VG_E_INVALID if a value is missing, contradictory or
 * malformed, or if all users of this machine can read a file with a secret. */
vg_nova_cloud *vg_nova_cloud_read(const struct vg_nova_options *options, GError **err);

/* Overwrites the secrets, and frees the cloud. NULL is fine. */
void vg_nova_cloud_free(vg_nova_cloud *cloud);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_nova_cloud, vg_nova_cloud_free)

#endif
