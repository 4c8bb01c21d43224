/* SPDX-License-Identifier: Apache-2.0
 *
 * INI configuration from one static table of keys. The table drives the defaults, the parser, the
 * dump and the manual page, so that they cannot disagree. The syntax is that of GKeyFile: [group],
 * key=value, whole-line # comments, \s \n \t \r \\ escapes; of a key given twice the last one
 * counts; a '-' in the name of a key is a '_'.
 *
 * The caller defines a plain struct and a table whose entries point into it by offset. Strings in
 * the struct are owned by it: vg_conf_clear(). Pure; any thread, as long as nobody else uses the
 * struct.
 */
#ifndef VG_BASE_CONF_H
#define VG_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* Longest text, in bytes: far above any hand-written file, far below what hurts. */
#define VG_CONF_TEXT_MAX (1024 * 1024)

/* Mistakes of a text that are told; of more their number. */
#define VG_CONF_ERRORS_MAX 50

enum vg_conf_type {
    VG_CONF_DOUBLE,   /* double; finite */
    VG_CONF_INT,      /* int64_t; decimal */
    VG_CONF_BOOL,     /* bool; true, false, yes, no, on, off */
    VG_CONF_DURATION, /* int64_t ns; number and ns, us, ms, s, min, h or d; no unit: s */
    VG_CONF_STRING,   /* char *, owned, never NULL */
    VG_CONF_ENUM,     /* int, index into values */
    VG_CONF_TYPE_MAX
};

struct vg_conf_key {
    const char *group;
    const char *name;
    enum vg_conf_type type;
    size_t offset;             /* of the member in the struct; its C type is given above */
    const char *fallback;      /* the default, as one would write it in the file */
    double min;                /* inclusive; DURATION: seconds; STRING: bytes */
    double max;                /* not used for BOOL and ENUM; INT: at most 2^53 */
    const char *const *values; /* ENUM: NULL-terminated */
    const char *help;          /* one sentence, unit included */
};

/* Fills every member with its default; what was there before is not freed. */
void vg_conf_defaults(const struct vg_conf_key *keys, size_t n_keys, void *conf);

/* Takes the keys that the text sets over into *conf, which must hold defaults or an earlier
 * configuration. VG_E_INVALID for text that is too long, not UTF-8, not INI, for unknown groups and
 * keys (named), and for values that are malformed or out of range (key, value and range named);
 * *conf is then untouched. The message has a line for each mistake, up to VG_CONF_ERRORS_MAX:
 * "FILE:LINE: " and what is wrong, or "line LINE: " where file is NULL. */
int vg_conf_parse(const struct vg_conf_key *keys, size_t n_keys, const char *file, const char *text,
                  size_t size, void *conf, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Where a key was set last; file is owned, NULL: nowhere. */
struct vg_conf_place {
    char *file;
    unsigned line;
    bool bad; /* its value there is not good */
};

/* Groups [KIND NAME], of which a file may have any number: each is an element of a list. */
struct vg_conf_list {
    const char *kind; /* the group of its keys, too */
    const struct vg_conf_key *keys;
    size_t n_keys;
    size_t size;   /* of an element; its struct begins with a struct vg_conf_item */
    size_t offset; /* of the list in the struct: GPtrArray *, made by vg_conf_lists_init() */
    size_t max;    /* elements */
};

/* How an element begins. A name has 1 to VG_CONF_ITEM_NAME_MAX letters, digits, '.', '-' and '_'.
 */
struct vg_conf_item {
    char *name;    /* owned */
    char *file;    /* owned: where the element was first named */
    unsigned line; /* there */
};

#define VG_CONF_ITEM_NAME_MAX 64

/* Empty lists, in the order in which their elements were first named. */
void vg_conf_lists_init(const struct vg_conf_list *lists, size_t n_lists, void *conf);
void vg_conf_lists_clear(const struct vg_conf_list *lists, size_t n_lists, void *conf);

/* What vg_conf_dump() would write of the elements; the caller frees it. */
char *vg_conf_lists_dump(const struct vg_conf_list *lists, size_t n_lists, const void *conf);

/* What a file may have in it. */
struct vg_conf_schema {
    const struct vg_conf_key *keys;
    size_t n_keys;
    const struct vg_conf_list *lists;
    size_t n_lists;
};

/* As vg_conf_parse(), of a file, with lists; what is right is taken over also where something is
 * wrong, so that the caller can go on looking for mistakes. places: of each key. */
int vg_conf_parse_some(const struct vg_conf_schema *schema, const char *file, const char *text,
                       size_t size, void *conf, struct vg_conf_place *places,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The configuration as a commented file that vg_conf_parse() reads back to the same values.
 * The caller frees it with g_free(). */
char *vg_conf_dump(const struct vg_conf_key *keys, size_t n_keys, const void *conf);

/* Whether a key has the same value in two structs. */
bool vg_conf_same(const struct vg_conf_key *key, const void *a, const void *b);

/* Frees the strings. */
void vg_conf_clear(const struct vg_conf_key *keys, size_t n_keys, void *conf);

#endif
