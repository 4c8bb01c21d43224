/* SPDX-License-Identifier: Apache-2.0
 *
 * INI configuration from one static table of keys. The table drives the defaults, the parser, the
 * dump and the manual page, so that they cannot disagree. The syntax is that of GKeyFile: [group],
 * key=value, comments that begin with # and fill a line, and the escapes \s \n \t \r \\. If a key
 * is given twice, the last one counts; a '-' in the name of a key is a '_'.
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

/* The maximum length of a text in bytes, which is far above any hand-written file, and far below
 * what hurts. */
#define VG_CONF_TEXT_MAX (1024 * 1024)

/* The maximum number of mistakes of a text that are reported; further ones are counted. */
#define VG_CONF_ERRORS_MAX 50

enum vg_conf_type {
    VG_CONF_DOUBLE, /* double; finite */
    VG_CONF_INT,    /* int64_t; decimal */
    VG_CONF_COUNT, /* int64_t; decimal, or a share such as 10%: hundredths of a percent, negative */
    VG_CONF_BOOL,  /* bool; true, false, yes, no, on, off */
    VG_CONF_DURATION, /* int64_t ns; number and ns, us, ms, s, min, h or d; no unit: s */
    VG_CONF_STRING,   /* char *, owned, never NULL */
    VG_CONF_ENUM,     /* int, index into values */
    VG_CONF_TYPE_MAX
};

/* Marks a type: the key is read at start only, which the dump says. */
#define VG_CONF_START 0x100U

struct vg_conf_key {
    const char *group;
    const char *name;
    unsigned type; /* an enum vg_conf_type, with VG_CONF_START or without */
    /* the offset of the member in the struct; its C type is given above */
    size_t offset;
    const char *fallback;      /* the default, as one would write it in the file */
    double min;                /* inclusive; in seconds for a DURATION, in bytes for a STRING */
    double max;                /* not used for BOOL and ENUM; at most 2^53 for an INT */
    const char *const *values; /* the words of an ENUM, ending with NULL */
    const char *help;          /* one sentence, unit included, ended by '.' */
};

static inline enum vg_conf_type
vg_conf_key_type(const struct vg_conf_key *key)
{
    return (enum vg_conf_type)(key->type & ~VG_CONF_START);
}

/* Fills every member with its default; earlier values are not freed. */
void vg_conf_defaults(const struct vg_conf_key *keys, size_t n_keys, void *conf);

/* Sets the members whose keys are in the text; *conf must hold defaults or an earlier
 * configuration. Fails with VG_E_INVALID if the text is too long, not UTF-8 or not INI, if it has
 * an unknown group or key, or if a value is malformed or out of range; *conf is then untouched. The
 * message has a line for each mistake, up to VG_CONF_ERRORS_MAX: "FILE:LINE: ", or "line LINE: " if
 * file is NULL, and then the key, the value and the range in question. */
int vg_conf_parse(const struct vg_conf_key *keys, size_t n_keys, const char *file, const char *text,
                  size_t size, void *conf, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The place where a key was set last; file is owned, and NULL if the key was not set. */
struct vg_conf_place {
    char *file;
    unsigned line;
    bool bad; /* the value there is wrong */
};

/* The groups [KIND NAME], of which a file may have any number; each is an element of a list. */
struct vg_conf_list {
    const char *kind; /* the group of the element's keys, too */
    const struct vg_conf_key *keys;
    size_t n_keys;
    size_t size; /* the size of an element, whose struct begins with a struct vg_conf_item */
    /* the offset of the list in the struct: GPtrArray *, made by vg_conf_lists_init() */
    size_t offset;
    size_t max; /* the maximum number of elements */
};

/* The beginning of an element. A name has 1 to VG_CONF_ITEM_NAME_MAX letters, digits, '.', '-' and
 * '_'. */
struct vg_conf_item {
    char *name;    /* owned */
    char *file;    /* the place where the element was first named; owned */
    unsigned line; /* the line in that file */
};

#define VG_CONF_ITEM_NAME_MAX 64

/* Makes empty lists, whose elements come in the order in which they are first named. */
void vg_conf_lists_init(const struct vg_conf_list *lists, size_t n_lists, void *conf);
void vg_conf_lists_clear(const struct vg_conf_list *lists, size_t n_lists, void *conf);

/* Returns the text of vg_conf_dump() for the elements; the caller frees it. */
char *vg_conf_lists_dump(const struct vg_conf_list *lists, size_t n_lists, const void *conf);

/* Everything that a file may contain. */
struct vg_conf_schema {
    const struct vg_conf_key *keys;
    size_t n_keys;
    const struct vg_conf_list *lists;
    size_t n_lists;
};

/* Parses a file as vg_conf_parse() does, with lists. Good values are taken over even if others are
 * wrong, so that the caller can go on to look for mistakes. places has the place of each key. */
int vg_conf_parse_some(const struct vg_conf_schema *schema, const char *file, const char *text,
                       size_t size, void *conf, struct vg_conf_place *places,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the configuration as a commented file, from which vg_conf_parse() reads the same values.
 * The caller frees it with g_free(). */
char *vg_conf_dump(const struct vg_conf_key *keys, size_t n_keys, const void *conf);

/* Returns whether a key has the same value in two structs. */
bool vg_conf_same(const struct vg_conf_key *key, const void *a, const void *b);

/* Frees the strings. */
void vg_conf_clear(const struct vg_conf_key *keys, size_t n_keys, void *conf);

#endif
