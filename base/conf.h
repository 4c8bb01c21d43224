/* SPDX-License-Identifier: Apache-2.0
 *
 * INI configuration from one static table of keys. The table drives the defaults, the parser, the
 * dump and the manual page, so that they cannot disagree. The syntax is that of GKeyFile: [group],
 * key=value, whole-line comments with #, and the escapes \s \n \t \r \\. If a key is given twice,
 * the last value applies. A '-' in the name of a key is treated as '_'.
 *
 * The caller defines a plain struct and a table whose entries refer to its members by offset. The
 * struct owns its strings, see vg_conf_clear(). Pure; any thread, as long as no other thread uses
 * the struct.
 */
#ifndef VG_BASE_CONF_H
#define VG_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* The maximum length of a text in bytes. It is far above any hand-written file, and far below any
 * size that would cause problems. */
#define VG_CONF_TEXT_MAX (1024 * 1024)

/* The maximum number of mistakes in a text that are reported one by one; the others are only
 * counted. */
#define VG_CONF_ERRORS_MAX 50

enum vg_conf_type {
    VG_CONF_DOUBLE,   /* double; finite */
    VG_CONF_INT,      /* int64_t; decimal */
    VG_CONF_COUNT,    /* int64_t; decimal; a share such as 10% is stored as negative hundredths of a
                         percent */
    VG_CONF_BOOL,     /* bool; true, false, yes, no, on, off */
    VG_CONF_DURATION, /* int64_t ns; number and ns, us, ms, s, min, h or d; no unit: s */
    VG_CONF_STRING,   /* char *, owned, never NULL */
    VG_CONF_ENUM,     /* int, index into values */
    VG_CONF_TYPE_MAX
};

/* Flag for a type: the key is read only when the program starts. The dump says so. */
#define VG_CONF_START 0x100U

struct vg_conf_key {
    const char *group;
    const char *name;
    unsigned type; /* an enum vg_conf_type, optionally with VG_CONF_START */
    /* the offset of the member in the struct; its C type is given above */
    size_t offset;
    const char *fallback;      /* the default, as written in the file */
    double min;                /* inclusive; in seconds for a DURATION, in bytes for a STRING */
    double max;                /* not used for BOOL and ENUM; at most 2^53 for an INT */
    const char *const *values; /* the words of an ENUM, ending with NULL */
    const char *help;          /* one sentence, including the unit, that ends with '.' */
};

static inline enum vg_conf_type
vg_conf_key_type(const struct vg_conf_key *key)
{
    return (enum vg_conf_type)(key->type & ~VG_CONF_START);
}

/* Sets every member to its default. Earlier values are not freed. */
void vg_conf_defaults(const struct vg_conf_key *keys, size_t n_keys, void *conf);

/* Sets the members whose keys are in the text. *conf must contain defaults or an earlier
 * configuration. Fails with VG_E_INVALID if the text is too long, not UTF-8 or not INI, has an
 * unknown group or key, or if a value is malformed or out of range. *conf is then unchanged. The
 * message has a line for each mistake, up to VG_CONF_ERRORS_MAX: "FILE:LINE: ", or "line LINE: " if
 * file is NULL, and then the key, the value and the allowed range. */
int vg_conf_parse(const struct vg_conf_key *keys, size_t n_keys, const char *file, const char *text,
                  size_t size, void *conf, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The place where a key was last set; file is owned, and NULL if the key was not set. */
struct vg_conf_place {
    char *file;
    unsigned line;
    bool bad; /* the value there is invalid */
};

/* [KIND NAME] groups. A file may have any number of them; each is an element of a list. */
struct vg_conf_list {
    const char *kind; /* also the group in the table of the element's keys */
    const struct vg_conf_key *keys;
    size_t n_keys;
    size_t size; /* the size of an element, whose struct starts with a struct vg_conf_item */
    /* the offset of the list in the struct: GPtrArray *, made by vg_conf_lists_init() */
    size_t offset;
    size_t max; /* the maximum number of elements */
};

/* The start of an element. A name has 1 to VG_CONF_ITEM_NAME_MAX letters, digits, '.', '-' and
 * '_'. */
struct vg_conf_item {
    char *name;    /* owned */
    char *file;    /* the file where the element was first named; owned */
    unsigned line; /* the line in that file */
};

#define VG_CONF_ITEM_NAME_MAX 64

/* Creates empty lists. Their elements are in the order in which they are first named. */
void vg_conf_lists_init(const struct vg_conf_list *lists, size_t n_lists, void *conf);
void vg_conf_lists_clear(const struct vg_conf_list *lists, size_t n_lists, void *conf);

/* Returns the elements in the format of vg_conf_dump(); the caller frees it. */
char *vg_conf_lists_dump(const struct vg_conf_list *lists, size_t n_lists, const void *conf);

/* Everything that a file may contain. */
struct vg_conf_schema {
    const struct vg_conf_key *keys;
    size_t n_keys;
    const struct vg_conf_list *lists;
    size_t n_lists;
};

/* Parses a file as vg_conf_parse() does, with lists. Valid values are stored even if others are
 * invalid, so that the caller can continue and find all mistakes. places receives the place of each
 * key. */
int vg_conf_parse_some(const struct vg_conf_schema *schema, const char *file, const char *text,
                       size_t size, void *conf, struct vg_conf_place *places,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the configuration as a commented file that vg_conf_parse() reads back to the same values.
 * The caller frees it with g_free(). */
char *vg_conf_dump(const struct vg_conf_key *keys, size_t n_keys, const void *conf);

/* Returns whether a key has the same value in two structs. */
bool vg_conf_same(const struct vg_conf_key *key, const void *a, const void *b);

/* Frees the strings. */
void vg_conf_clear(const struct vg_conf_key *keys, size_t n_keys, void *conf);

#endif
