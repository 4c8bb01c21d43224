/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/etcd-wire.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"

#define ANSWER_DEPTH 16
#define TOKEN_MAX    8192
#define WORDS_MAX    1024

/* The gRPC codes in refusals. */
enum { GRPC_NOT_FOUND = 5, GRPC_OUT_OF_RANGE = 11, GRPC_UNAUTHENTICATED = 16 };

static void
wire_pair_free(void *data)
{
    struct vg_etcd_pair *pair = data;

    g_free(pair->key);
    g_free(pair->value);
    g_free(pair);
}

void
vg_etcd_answer_clear(struct vg_etcd_answer *answer)
{
    g_clear_pointer(&answer->pairs, g_ptr_array_unref);
}

/* ---- requests ---- */

static void
wire_add_bytes(json_object *object, const char *name, const char *bytes, size_t size)
{
    g_autofree char *text = g_base64_encode((const guchar *)bytes, size);

    vg_json_add_string(object, name, text);
}

static void
wire_add_text(json_object *object, const char *name, const char *text)
{
    wire_add_bytes(object, name, text, strlen(text));
}

static void
wire_add_number(json_object *object, const char *name, int64_t number)
{
    g_autofree char *text = g_strdup_printf("%" PRId64, number);

    vg_json_add_string(object, name, text);
}

static char *
wire_text(json_object *take_object)
{
    char *text = vg_json_to_text(take_object, false);

    json_object_put(take_object);
    return text;
}

/* Adds the end of the range of all keys with a prefix. */
static void
wire_add_end(json_object *object, const char *prefix)
{
    g_autofree char *end = g_strdup(prefix);
    size_t length = strlen(end);

    /* Keys are ASCII, so the last byte cannot overflow. */
    end[length - 1]++;
    wire_add_bytes(object, "range_end", end, length);
}

static json_object *
wire_range(const struct vg_etcd_range *range)
{
    json_object *object = json_object_new_object();

    /* The smallest key after another one has an additional NUL. */
    if (range->after)
        wire_add_bytes(object, "key", range->after, strlen(range->after) + 1);
    else
        wire_add_text(object, "key", range->key);
    if (range->is_prefix) {
        wire_add_end(object, range->key);
        wire_add_number(object, "limit", VG_ETCD_PAGE);
    }
    if (range->keys_only)
        vg_json_add_bool(object, "keys_only", true);
    if (range->serializable)
        vg_json_add_bool(object, "serializable", true);
    if (range->revision > 0)
        wire_add_number(object, "revision", range->revision);
    if (range->changed_revision > 0)
        wire_add_number(object, "min_mod_revision", range->changed_revision);
    return object;
}

char *
vg_etcd_write_range(const struct vg_etcd_range *range)
{
    return wire_text(wire_range(range));
}

static json_object *
wire_condition(const struct vg_etcd_condition *condition)
{
    json_object *object = json_object_new_object();
    const bool created = condition->created || condition->revision == 0;

    vg_json_add_string(object, "target", created ? "CREATE" : "MOD");
    vg_json_add_string(object, "result", "EQUAL");
    wire_add_text(object, "key", condition->key);
    wire_add_number(object, created ? "create_revision" : "mod_revision", condition->revision);
    return object;
}

static json_object *
wire_write(const struct vg_etcd_write *write)
{
    json_object *object = json_object_new_object(), *operation = json_object_new_object();

    wire_add_text(object, "key", write->key);
    if (write->value) {
        wire_add_text(object, "value", write->value);
        wire_add_number(object, "lease", write->lease);
    }
    vg_json_add(operation, write->value ? "request_put" : "request_delete_range", object);
    return operation;
}

char *
vg_etcd_write_txn(const struct vg_etcd_txn *txn)
{
    json_object *object = json_object_new_object();
    json_object *compare = json_object_new_array(), *success = json_object_new_array();

    for (size_t i = 0; i < txn->n_conditions; i++)
        vg_json_append(compare, wire_condition(&txn->conditions[i]));
    for (size_t i = 0; i < txn->n_writes; i++)
        vg_json_append(success, wire_write(&txn->writes[i]));
    vg_json_add(object, "compare", compare);
    vg_json_add(object, "success", success);
    if (txn->otherwise) {
        json_object *failure = json_object_new_array(), *operation = json_object_new_object();
        vg_json_add(operation, "request_range",
                    wire_range(&(struct vg_etcd_range){.key = txn->otherwise}));
        vg_json_append(failure, operation);
        vg_json_add(object, "failure", failure);
    }
    return wire_text(object);
}

char *
vg_etcd_write_grant(int64_t ttl_s)
{
    json_object *object = json_object_new_object();

    wire_add_number(object, "TTL", ttl_s);
    return wire_text(object);
}

char *
vg_etcd_write_lease(int64_t lease)
{
    json_object *object = json_object_new_object();

    wire_add_number(object, "ID", lease);
    return wire_text(object);
}

char *
vg_etcd_write_login(const char *user, const char *password)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "name", user);
    vg_json_add_string(object, "password", password);
    return wire_text(object);
}

/* ---- answers ---- */

static json_object *
wire_parse(const char *text, size_t size, GError **err)
{
    g_autoptr(GError) bad = NULL;
    json_object *document = vg_json_parse(text, size, VG_ETCD_ANSWER_MAX, ANSWER_DEPTH, &bad);

    if (!document)
        vg_error(err, VG_E_EXTERNAL, "etcd's answer cannot be read: %s", bad->message);
    return document;
}

/* Turns an error about a member into an error about the answer. */
static int
wire_bad(GError *take_bad, GError **err)
{
    vg_error(err, VG_E_EXTERNAL, "etcd's answer cannot be used: %s", take_bad->message);
    g_error_free(take_bad);
    return -1;
}

/* Reads a 64-bit integer, which is a string. Some versions of etcd write small ones as numbers. */
static int
wire_number(const struct vg_json_node *object, const char *name, int64_t min, int64_t *ret,
            GError **err)
{
    struct vg_json_node node;
    const char *text;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &node, err);

    if (found <= 0)
        return found;
    if (json_object_is_type(node.value, json_type_int))
        return vg_json_int64(&node, min, INT64_MAX, ret, err);
    if (vg_json_string(&node, 24, &text, err) < 0)
        return -1;
    return g_ascii_string_to_signed(text, 10, min, INT64_MAX, ret, err) ? 0 : -1;
}

/* Reads an id, which uses all 64 bits. */
static int
wire_id(const struct vg_json_node *object, const char *name, uint64_t *ret, GError **err)
{
    struct vg_json_node node;
    const char *text;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &node, err);

    if (found <= 0)
        return found;
    if (vg_json_string(&node, 24, &text, err) < 0)
        return -1;
    return g_ascii_string_to_unsigned(text, 10, 0, UINT64_MAX, ret, err) ? 0 : -1;
}

static int
wire_bool(const struct vg_json_node *object, const char *name, bool *ret, GError **err)
{
    struct vg_json_node node;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &node, err);

    return found <= 0 ? found : vg_json_bool(&node, ret, err);
}

/* Reads bytes. *ret is NULL if they are not a text or too long: any client of etcd may have written
 * them. The caller frees *ret. */
static int
wire_text_of(const struct vg_json_node *object, const char *name, size_t max, char **ret,
             GError **err)
{
    struct vg_json_node node;
    const char *coded = "";
    gsize size = 0;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &node, err);

    if (found < 0 || (found == 1 && vg_json_string(&node, VG_ETCD_ANSWER_MAX, &coded, err) < 0))
        return -1;
    g_autofree char *bytes = (char *)g_base64_decode(coded, &size);
    if (strlen(coded) % 4 != 0 || strlen(coded) / 4 * 3 > size + 2)
        return vg_error(err, VG_E_INVALID, "%s: is not base64", name);
    if (size <= max && !memchr(bytes, '\0', size) && g_utf8_validate(bytes, (gssize)size, NULL))
        *ret = g_strndup(bytes, size);
    return 0;
}

static int
wire_pair(const struct vg_json_node *node, struct vg_etcd_pair *ret, GError **err)
{
    if (vg_json_object(node, err) < 0 ||
        wire_text_of(node, "key", VG_ETCD_KEY_MAX, &ret->key, err) < 0 ||
        wire_text_of(node, "value", VG_ETCD_VALUE_MAX, &ret->value, err) < 0 ||
        wire_number(node, "create_revision", 1, &ret->create_revision, err) < 0 ||
        wire_number(node, "mod_revision", 1, &ret->mod_revision, err) < 0 ||
        wire_number(node, "lease", INT64_MIN, &ret->lease, err) < 0)
        return -1;
    if (!ret->value)
        ret->value = g_strdup("");
    if ((ret->key && !*ret->key) || ret->create_revision == 0 ||
        ret->mod_revision < ret->create_revision)
        return vg_error(err, VG_E_INVALID, "a pair without a key, or with impossible revisions");
    return 0;
}

static int
wire_pairs(const struct vg_json_node *range, struct vg_etcd_answer *ret, GError **err)
{
    struct vg_json_node list;
    int found = vg_json_member(range, "kvs", VG_JSON_OPTIONAL, &list, err);

    if (found < 0 || wire_number(range, "count", 0, &ret->count, err) < 0 ||
        wire_bool(range, "more", &ret->more, err) < 0)
        return -1;
    if (found == 0)
        return 0;
    if (vg_json_array(&list, VG_ETCD_PAGE, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(&list); i++) {
        const struct vg_json_node node = vg_json_item(&list, i);
        struct vg_etcd_pair *pair = g_new0(struct vg_etcd_pair, 1);
        g_ptr_array_add(ret->pairs, pair);
        if (wire_pair(&node, pair, err) < 0)
            return -1;
        if (!pair->key)
            g_ptr_array_set_size(ret->pairs, (int)ret->pairs->len - 1);
    }
    return 0;
}

static int
wire_header(const struct vg_json_node *root, struct vg_etcd_answer *ret, GError **err)
{
    struct vg_json_node header;

    ret->pairs = g_ptr_array_new_with_free_func(wire_pair_free);
    if (vg_json_member(root, "header", VG_JSON_REQUIRED, &header, err) < 0 ||
        wire_id(&header, "cluster_id", &ret->cluster, err) < 0 ||
        wire_number(&header, "revision", 1, &ret->revision, err) < 0)
        return -1;
    return ret->revision > 0 ? 0 : vg_error(err, VG_E_INVALID, "header.revision: is missing");
}

int
vg_etcd_read_range(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err)
{
    g_autoptr(json_object) document = wire_parse(text, size, err);
    const struct vg_json_node root = vg_json_root(document);
    GError *bad = NULL;

    if (!document)
        return -1;
    if (wire_header(&root, ret, &bad) < 0 || wire_pairs(&root, ret, &bad) < 0)
        return wire_bad(bad, err);
    return 0;
}

/* Reads the pairs in the answers to a transaction's operations. */
static int
wire_responses(const struct vg_json_node *root, struct vg_etcd_answer *ret, GError **err)
{
    struct vg_json_node list, range;
    int found = vg_json_member(root, "responses", VG_JSON_OPTIONAL, &list, err);

    if (found <= 0)
        return found;
    if (vg_json_array(&list, VG_ETCD_PAGE, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(&list); i++) {
        const struct vg_json_node node = vg_json_item(&list, i);
        found = vg_json_member(&node, "response_range", VG_JSON_OPTIONAL, &range, err);
        if (found < 0 || (found == 1 && wire_pairs(&range, ret, err) < 0))
            return -1;
    }
    return 0;
}

int
vg_etcd_read_txn(const char *text, size_t size, struct vg_etcd_answer *ret, GError **err)
{
    g_autoptr(json_object) document = wire_parse(text, size, err);
    const struct vg_json_node root = vg_json_root(document);
    GError *bad = NULL;

    if (!document)
        return -1;
    if (wire_header(&root, ret, &bad) < 0 ||
        wire_bool(&root, "succeeded", &ret->succeeded, &bad) < 0 ||
        wire_responses(&root, ret, &bad) < 0)
        return wire_bad(bad, err);
    return 0;
}

int
vg_etcd_read_grant(const char *text, size_t size, int64_t *ret_lease, int64_t *ret_ttl_s,
                   GError **err)
{
    g_autoptr(json_object) document = wire_parse(text, size, err);
    const struct vg_json_node root = vg_json_root(document);
    GError *bad = NULL;
    int64_t lease = 0, ttl_s = 0;

    if (!document)
        return -1;
    if (wire_number(&root, "ID", INT64_MIN, &lease, &bad) < 0 ||
        wire_number(&root, "TTL", 0, &ttl_s, &bad) < 0)
        return wire_bad(bad, err);
    if (lease == 0 || ttl_s <= 0)
        return vg_error(err, VG_E_EXTERNAL, "etcd's answer cannot be used: it grants no lease");
    *ret_lease = lease;
    *ret_ttl_s = ttl_s;
    return 0;
}

int
vg_etcd_read_keep_alive(const char *text, size_t size, int64_t *ret_ttl_s, GError **err)
{
    g_autoptr(json_object) document = wire_parse(text, size, err);
    const struct vg_json_node root = vg_json_root(document);
    struct vg_json_node result;
    GError *bad = NULL;
    int64_t ttl_s = 0;

    if (!document)
        return -1;
    if (vg_json_member(&root, "result", VG_JSON_REQUIRED, &result, &bad) < 0 ||
        wire_number(&result, "TTL", INT64_MIN, &ttl_s, &bad) < 0)
        return wire_bad(bad, err);
    if (ttl_s <= 0)
        return vg_error(err, VG_E_NOT_FOUND, "the lease has ended");
    *ret_ttl_s = ttl_s;
    return 0;
}

char *
vg_etcd_read_token(const char *text, size_t size, GError **err)
{
    g_autoptr(json_object) document = wire_parse(text, size, err);
    const struct vg_json_node root = vg_json_root(document);
    struct vg_json_node node;
    const char *token;
    GError *bad = NULL;

    if (!document)
        return NULL;
    if (vg_json_member(&root, "token", VG_JSON_REQUIRED, &node, &bad) < 0 ||
        vg_json_string(&node, TOKEN_MAX, &token, &bad) < 0) {
        wire_bad(bad, err);
        return NULL;
    }
    for (const char *at = token; *at; at++) {
        if (!g_ascii_isgraph(*at)) {
            vg_error(err, VG_E_EXTERNAL,
                     "etcd's token contains a character that a header cannot contain");
            return NULL;
        }
    }
    return g_strdup(token);
}

/* ---- refusals ---- */

/* Reads {"error", "message", "code"}. For anything else, *ret_words is empty. */
static int64_t
wire_read_words(const char *text, size_t size, char **ret_words)
{
    g_autoptr(json_object) document = vg_json_parse(text, size, 65536, ANSWER_DEPTH, NULL);
    const struct vg_json_node root = vg_json_root(document);
    struct vg_json_node node;
    const char *words = "";
    int64_t code = 0;

    if (json_object_is_type(document, json_type_object)) {
        if (wire_number(&root, "code", 0, &code, NULL) < 0)
            code = 0;
        if (vg_json_member(&root, "message", VG_JSON_OPTIONAL, &node, NULL) != 1 ||
            vg_json_string(&node, WORDS_MAX, &words, NULL) < 0)
            words = "";
    }
    *ret_words = g_strdup(words);
    return code;
}

enum vg_etcd_refusal
vg_etcd_read_refusal(long status, const char *text, size_t size, GError **err)
{
    g_autofree char *words = NULL;
    const int64_t code = wire_read_words(text, size, &words);
    const char *said = *words ? words : "it gave no reason";

    /* The user's permissions have changed, or authentication was enabled in the meantime. */
    if (status == 401 || code == GRPC_UNAUTHENTICATED || strstr(words, "auth store is old") ||
        strstr(words, "user name is empty")) {
        vg_error(err, VG_E_DENIED, "etcd does not know this vgpud: %s", said);
        return VG_ETCD_LOGIN;
    }
    if (strstr(words, "authentication is not enabled")) {
        vg_error(err, VG_E_EXTERNAL, "authentication is disabled in etcd: %s", said);
        return VG_ETCD_NO_LOGIN;
    }
    if (code == GRPC_OUT_OF_RANGE && strstr(words, "compacted")) {
        vg_error(err, VG_E_CONFLICT, "etcd has compacted that revision: %s", said);
        return VG_ETCD_COMPACTED;
    }
    /* Alarms that persist until an administrator disarms them. */
    if (strstr(words, "database space exceeded") || strstr(words, "corrupt cluster")) {
        vg_error(err, VG_E_EXTERNAL, "etcd has raised an alarm: %s", said);
        return VG_ETCD_NEVER;
    }
    if (status == 429 || status >= 500 || status < 400) {
        vg_error(err, VG_E_BUSY, "etcd answered with status %ld: %s", status, said);
        return VG_ETCD_AGAIN;
    }
    if (code == GRPC_NOT_FOUND && strstr(words, "lease"))
        vg_error(err, VG_E_NOT_FOUND, "the lease has ended");
    else if (status == 403 || strstr(words, "authentication failed"))
        vg_error(err, VG_E_DENIED, "etcd does not allow this vgpud's user to do that: %s", said);
    else
        vg_error(err, VG_E_EXTERNAL, "etcd answered with status %ld: %s", status, said);
    return VG_ETCD_NEVER;
}
