/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/alias.h"

#include <string.h>

#include "base/error.h"
#include "trace/adapter.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define IN_NAME LETTERS "0123456789_?"

/* Two names for the same field or event. */
struct pair {
    char *theirs;
    char *ours;
};

struct vg_alias {
    struct pair event;
    GArray *fields; /* struct pair */
};

struct vg_aliases {
    GPtrArray *list; /* struct vg_alias, owned */
};

static void
pair_clear(void *data)
{
    struct pair *pair = data;

    g_free(pair->theirs);
    g_free(pair->ours);
}

static void
alias_free(void *data)
{
    struct vg_alias *alias = data;

    pair_clear(&alias->event);
    g_array_unref(alias->fields);
    g_free(alias);
}

static void
clear(void *data)
{
    struct vg_aliases *aliases = data;

    g_ptr_array_unref(aliases->list);
}

vg_aliases *
vg_aliases_ref(vg_aliases *aliases)
{
    return aliases ? g_atomic_rc_box_acquire(aliases) : NULL;
}

void
vg_aliases_unref(vg_aliases *aliases)
{
    if (aliases)
        g_atomic_rc_box_release_full(aliases, clear);
}

/* ---- reading ---- */

/* Returns the name at *pos, and advances *pos past it. Returns NULL if there is none, or it is too
 * long. */
static char *
alias_take_name(const char **pos)
{
    size_t len = strspn(*pos, IN_NAME);

    if (len == 0 || len > VG_ALIAS_NAME_MAX)
        return NULL;
    *pos += len;
    return g_strndup(*pos - len, len);
}

/* Parses "theirs=ours" at *pos. */
static bool
take_pair(const char **pos, struct pair *ret)
{
    struct pair pair = {.theirs = alias_take_name(pos)};

    if (pair.theirs && **pos == '=') {
        (*pos)++;
        pair.ours = alias_take_name(pos);
    }
    if (pair.ours) {
        *ret = pair;
        return true;
    }
    pair_clear(&pair);
    return false;
}

static int
malformed(const char *entry, GError **err)
{
    return vg_error(err, VG_E_INVALID,
                    "'%.*s' is not of the form THEIR_EVENT=OUR_EVENT or "
                    "THEIR_EVENT=OUR_EVENT(THEIR_FIELD=OUR_FIELD,...)",
                    (int)MIN(strcspn(entry, " \t\n"), 100), entry);
}

static int
check_field(const struct vg_alias *alias, const struct pair *pair, GError **err)
{
    if (alias->fields->len >= VG_ALIAS_FIELDS_MAX)
        return vg_error(err, VG_E_INVALID, "'%s' has more than %d fields", alias->event.theirs,
                        VG_ALIAS_FIELDS_MAX);
    if (vg_alias_field(alias, pair->ours))
        return vg_error(err, VG_E_INVALID, "'%s' has field '%s' twice", alias->event.theirs,
                        pair->ours);
    if (!vg_adapter_has_field(vg_adapter_find(alias->event.ours), pair->ours))
        return vg_error(err, VG_E_INVALID, "event %s has no field '%s'", alias->event.ours,
                        pair->ours);
    return 0;
}

/* Parses "(theirs=ours,...)" at *pos. */
static int
take_fields(struct vg_alias *alias, const char *entry, const char **pos, GError **err)
{
    do {
        struct pair pair;
        (*pos)++;
        if (!take_pair(pos, &pair))
            return malformed(entry, err);
        if (check_field(alias, &pair, err) < 0) {
            pair_clear(&pair);
            return -1;
        }
        g_array_append_val(alias->fields, pair);
    } while (**pos == ',');
    if (**pos != ')')
        return malformed(entry, err);
    (*pos)++;
    return 0;
}

static int
check_event(const vg_aliases *aliases, const struct pair *event, GError **err)
{
    const struct vg_adapter *adapter = vg_adapter_find(event->ours);

    if (!adapter || adapter->type != VG_EVENT_GPU)
        return vg_error(err, VG_E_INVALID, "'%s' is not a supported GPU event", event->ours);
    if (vg_aliases_find(aliases, event->theirs))
        return vg_error(err, VG_E_INVALID, "'%s' appears twice", event->theirs);
    if (aliases->list->len >= VG_ALIASES_MAX)
        return vg_error(err, VG_E_INVALID, "more than %d events", VG_ALIASES_MAX);
    return 0;
}

static int
take_alias(vg_aliases *aliases, const char **pos, GError **err)
{
    const char *entry = *pos;
    struct pair event;

    if (!take_pair(pos, &event))
        return malformed(entry, err);
    struct vg_alias *alias = g_new0(struct vg_alias, 1);
    alias->event = event;
    alias->fields = g_array_new(FALSE, FALSE, sizeof(struct pair));
    g_array_set_clear_func(alias->fields, pair_clear);
    int status = check_event(aliases, &event, err);
    if (status == 0 && **pos == '(')
        status = take_fields(alias, entry, pos, err);
    if (status == 0 && **pos && !g_ascii_isspace(**pos))
        status = malformed(entry, err);
    if (status == 0)
        g_ptr_array_add(aliases->list, alias);
    else
        alias_free(alias);
    return status;
}

vg_aliases *
vg_aliases_new(const char *text, GError **err)
{
    g_autoptr(vg_aliases) aliases = g_atomic_rc_box_new0(vg_aliases);
    const char *pos = text;

    aliases->list = g_ptr_array_new_with_free_func(alias_free);
    if (strlen(text) > VG_ALIAS_TEXT_MAX) {
        vg_error(err, VG_E_INVALID, "longer than %d bytes", VG_ALIAS_TEXT_MAX);
        return NULL;
    }
    for (;;) {
        while (g_ascii_isspace(*pos))
            pos++;
        if (!*pos)
            break;
        if (take_alias(aliases, &pos, err) < 0)
            return NULL;
    }
    return aliases->list->len > 0 ? g_steal_pointer(&aliases) : NULL;
}

/* ---- looking up ---- */

const struct vg_alias *
vg_aliases_find(const vg_aliases *aliases, const char *event_name)
{
    for (guint i = 0; aliases && i < aliases->list->len; i++) {
        const struct vg_alias *alias = g_ptr_array_index(aliases->list, i);
        if (strcmp(alias->event.theirs, event_name) == 0)
            return alias;
    }
    return NULL;
}

const char *
vg_alias_event(const struct vg_alias *alias)
{
    return alias->event.ours;
}

const char *
vg_alias_field(const struct vg_alias *alias, const char *field)
{
    for (guint i = 0; alias && i < alias->fields->len; i++) {
        const struct pair *pair = &g_array_index(alias->fields, struct pair, i);
        if (strcmp(pair->ours, field) == 0)
            return pair->theirs;
    }
    return NULL;
}
