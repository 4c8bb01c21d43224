/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the bodies of requests.
 */
#include "config.h"

#include "api/parse.h"
#include "base/error.h"
#include "base/json.h"
#include "model/free-up.h"

#define RULE_MAX 64

/* Parses a body, which must be an object with only these members. example is a valid body. */
static int
read_body(const char *text, size_t size, const char *example, const char *const *members,
          json_object **ret, GError **err)
{
    if (size == 0)
        return vg_error(err, VG_E_INVALID, "the body is empty; it must be like %s", example);
    g_autoptr(json_object) value = vg_json_parse(text, size, size, VG_PLAN_BODY_DEPTH, err);
    if (!value) {
        g_prefix_error(err, "body: ");
        return -1;
    }
    const struct vg_json_node root = vg_json_root(value);
    if (vg_json_object(&root, err) < 0)
        return -1;
    json_object_object_foreach(value, name, member)
    {
        (void)member;
        if (!g_strv_contains(members, name))
            return vg_error(err, VG_E_INVALID, "%s: unknown member", name);
    }
    *ret = g_steal_pointer(&value);
    return 0;
}

/* Returns whether an optional member exists. */
static bool
has_member(const struct vg_json_node *root, const char *name)
{
    return json_object_object_get_ex(root->value, name, NULL);
}

/* Reads an optional string. The caller frees *ret. */
static int
read_text(const struct vg_json_node *root, const char *name, size_t max, char **ret, GError **err)
{
    struct vg_json_node node;
    const char *text = NULL;

    if (has_member(root, name) && (vg_json_member(root, name, VG_JSON_REQUIRED, &node, err) < 0 ||
                                   vg_json_string(&node, max, &text, err) < 0))
        return -1;
    *ret = g_strdup(text);
    return 0;
}

int
vg_parse_plan_request(const char *text, size_t size, struct vg_plan_request *ret, GError **err)
{
    static const char *const members[] = {"dry_run", "rule", "free_up", NULL};
    g_autoptr(json_object) value = NULL;
    g_autofree char *rule = NULL, *free_up = NULL;
    struct vg_json_node node;
    bool dry_run;

    if (read_body(text, size, "{\"dry_run\": true}", members, &value, err) < 0)
        return -1;
    const struct vg_json_node root = vg_json_root(value);
    if (vg_json_member(&root, "dry_run", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_bool(&node, &dry_run, err) < 0 ||
        read_text(&root, "rule", RULE_MAX, &rule, err) < 0 ||
        read_text(&root, "free_up", VG_FREE_UP_TEXT_MAX, &free_up, err) < 0)
        return -1;
    if (rule && free_up)
        return vg_error(err, VG_E_INVALID, "free_up: it cannot be combined with `rule`");
    *ret = (struct vg_plan_request){dry_run, g_steal_pointer(&rule), g_steal_pointer(&free_up)};
    return 0;
}

void
vg_plan_request_free(void *data)
{
    struct vg_plan_request *wanted = data;

    g_free(wanted->rule);
    g_free(wanted->free_up);
    g_free(wanted);
}

void
vg_token_request_free(void *data)
{
    struct vg_token_request *wanted = data;

    g_free(wanted->name);
    g_free(wanted);
}

int
vg_parse_token_request(const char *text, size_t size, struct vg_token_request *ret, GError **err)
{
    static const char *const members[] = {"name", "role", "lifetime_s", NULL};
    g_autoptr(json_object) value = NULL;
    const char *name, *role_name;
    struct vg_json_node node;
    int64_t lifetime_s = 0;
    enum vg_role role;

    if (read_body(text, size, "{\"name\": \"nova\", \"role\": \"reader\"}", members, &value, err) <
        0)
        return -1;
    const struct vg_json_node root = vg_json_root(value);
    if (vg_json_member(&root, "name", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_string(&node, VG_TOKEN_NAME_MAX, &name, err) < 0)
        return -1;
    if (!vg_token_is_name(name))
        return vg_error(err, VG_E_INVALID,
                        "name: a token's name may contain only letters, digits, '.', '_' and '-'");
    if (vg_json_member(&root, "role", VG_JSON_REQUIRED, &node, err) < 0 ||
        vg_json_string(&node, RULE_MAX, &role_name, err) < 0)
        return -1;
    if (!vg_role_from_name(role_name, &role))
        return vg_error(err, VG_E_INVALID, "role: it must be reader, operator, admin or peer");
    if (has_member(&root, "lifetime_s") &&
        (vg_json_member(&root, "lifetime_s", VG_JSON_REQUIRED, &node, err) < 0 ||
         vg_json_int64(&node, 1, VG_TOKEN_LIFETIME_MAX_S, &lifetime_s, err) < 0))
        return -1;
    *ret =
        (struct vg_token_request){.name = g_strdup(name), .role = role, .lifetime_s = lifetime_s};
    return 0;
}

void *
vg_parse_record(const char *text, size_t size, const char *example,
                const struct vg_record_type *type, GError **err)
{
    g_autoptr(GPtrArray) members = g_ptr_array_new();
    g_autoptr(json_object) value = NULL;

    for (size_t i = 0; i < type->n_fields; i++)
        g_ptr_array_add(members, (void *)type->fields[i].name);
    g_ptr_array_add(members, NULL);
    if (read_body(text, size, example, (const char *const *)members->pdata, &value, err) < 0)
        return NULL;
    const struct vg_json_node root = vg_json_root(value);
    return vg_record_read(type, &root, err);
}
