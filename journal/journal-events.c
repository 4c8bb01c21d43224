/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores the host's events. Their senders do not wait: the thread writes all new events in one
 * transaction.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "journal/journal-private.h"

#define VG_LOG_TAG "journal"

#define DAY_NS (86400 * VG_NS_PER_S)

void
journal_note_free(void *data)
{
    struct journal_note *note = data;

    vg_happening_free(note->event);
    g_free(note);
}

static void
journal_note(vg_journal *journal, enum journal_note_kind kind, const struct vg_happening *event)
{
    struct journal_note *note = g_new0(struct journal_note, 1);

    note->kind = kind;
    note->event = g_memdup2(event, sizeof(*event));
    note->event->boot = g_strdup(event->boot);
    note->event->text = g_strdup(event->text);
    VG_LOCK_SCOPE(&journal->lock);
    if (journal->events.length >= VG_JOURNAL_EVENTS_WAITING_MAX) {
        journal_note_free(g_queue_pop_head(&journal->events));
        journal->events_dropped++;
    }
    g_queue_push_tail(&journal->events, note);
    pthread_cond_signal(&journal->work);
}

void
vg_journal_note_event(vg_journal *journal, const struct vg_happening *event, bool owed)
{
    journal_note(journal, owed ? JOURNAL_NOTE_OWED : JOURNAL_NOTE_EVENT, event);
}

void
vg_journal_settle_event(vg_journal *journal, const char *boot, uint64_t seq)
{
    const struct vg_happening event = {.boot = (char *)boot, .seq = seq};

    journal_note(journal, JOURNAL_NOTE_SETTLED, &event);
}

/* ---- writing ---- */

static int
journal_events_add_one(struct journal_db *db, const struct journal_note *note, GError **err)
{
    const struct vg_happening *event = note->event;

    if (note->kind == JOURNAL_NOTE_SETTLED)
        return journal_db_run(db, NULL, err, "DELETE FROM alert_owed WHERE boot = ? AND seq = ?",
                              "si", event->boot, (int64_t)event->seq);
    if (journal_db_run(db, NULL, err,
                       "INSERT OR IGNORE INTO event (boot, seq, at_ns, type, document) "
                       "VALUES (?, ?, ?, ?, ?)",
                       "siiss", event->boot, (int64_t)event->seq, event->at_ns, event->type,
                       event->text) != 0)
        return -1;
    return note->kind == JOURNAL_NOTE_EVENT
               ? 0
               : journal_db_run(db, NULL, err,
                                "INSERT OR IGNORE INTO alert_owed (boot, seq, at_ns, document) "
                                "VALUES (?, ?, ?, ?)",
                                "siis", event->boot, (int64_t)event->seq, event->at_ns,
                                event->text);
}

static int
journal_events_add(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const GQueue *events = arg;

    (void)ret;
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    for (const GList *link = events->head; link; link = link->next) {
        if (journal_events_add_one(db, link->data, err) != 0)
            return -1;
    }
    return 0;
}

void
journal_events_write(vg_journal *journal)
{
    g_autoptr(GError) err = NULL;
    GQueue events = G_QUEUE_INIT;

    /* The events wait until a file is open. */
    if (!journal->db)
        return;
    pthread_mutex_lock(&journal->lock);
    events = journal->events;
    g_queue_init(&journal->events);
    uint64_t dropped = journal->events_dropped;
    journal->events_dropped = 0;
    pthread_mutex_unlock(&journal->lock);
    if (dropped > 0)
        vg_log_warn_limited(
            "events were lost because the journal was not working count=%" G_GUINT64_FORMAT,
            dropped);
    if (events.length == 0)
        return;
    if (journal_transact(journal, journal_events_add, &events, NULL, &err) == 0) {
        journal->events_stuck = false;
        g_queue_clear_full(&events, journal_note_free);
        return;
    }
    journal->events_stuck = true;
    vg_log_warn_limited("%s", err->message);
    /* Put the events back, before those that arrived in the meantime. */
    VG_LOCK_SCOPE(&journal->lock);
    while (events.length > 0)
        g_queue_push_head(&journal->events, g_queue_pop_tail(&events));
}

struct journal_events_limits {
    int64_t before_ns;
    int64_t entries;
};

static int
journal_events_clean(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_events_limits *limits = arg;

    (void)ret;
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    if (journal_db_run(db, NULL, err, "DELETE FROM event WHERE at_ns < ?", "i",
                       limits->before_ns) != 0)
        return -1;
    return journal_db_run(db, NULL, err,
                          "DELETE FROM event WHERE id <= (SELECT id FROM event "
                          "ORDER BY id DESC LIMIT 1 OFFSET ?)",
                          "i", limits->entries);
}

int
journal_events_tidy(vg_journal *journal, GError **err)
{
    struct journal_events_limits limits;

    pthread_mutex_lock(&journal->lock);
    limits.before_ns = vg_clock_realtime_ns() - journal->event_days * DAY_NS;
    limits.entries = journal->event_entries;
    pthread_mutex_unlock(&journal->lock);
    return journal_transact(journal, journal_events_clean, &limits, NULL, err);
}

/* ---- reading ---- */

struct journal_events_page {
    struct vg_happening_query query;
    char *types, *after_boot, *upto_boot;
};

static void
journal_events_page_free(void *data)
{
    struct journal_events_page *page = data;

    g_free(page->types);
    g_free(page->after_boot);
    g_free(page->upto_boot);
    g_free(page);
}

/* Finds the id after which a query starts. Fails with VG_E_NOT_FOUND if no event of that run is
 * stored. */
static int
journal_events_find(struct journal_db *db, const struct vg_happening_query *query, int64_t *ret,
                    GError **err)
{
    sqlite3_stmt *find = journal_db_query(
        db, err,
        "SELECT max(CASE WHEN seq <= ?2 THEN id END), min(id) - 1 FROM event WHERE boot = ?1", "si",
        query->after_boot, (int64_t)query->after_seq);
    int status = find ? journal_db_step(db, find, err) : -1;

    if (status > 0 && sqlite3_column_type(find, 1) != SQLITE_NULL)
        *ret = sqlite3_column_int64(find, sqlite3_column_type(find, 0) != SQLITE_NULL ? 0 : 1);
    else if (status > 0)
        status = vg_error(err, VG_E_NOT_FOUND, "no events of vgpud's run '%s' are stored",
                          query->after_boot);
    journal_db_end(find);
    return status < 0 ? -1 : 0;
}

/* Reads an event. Returns NULL if a newer version wrote it. */
static void *
journal_event_row(sqlite3_stmt *statement, GError **err)
{
    const char *type = vg_happening_type(journal_db_text(statement, 4));

    (void)err;
    if (!type)
        return NULL;
    struct vg_happening *event = g_new0(struct vg_happening, 1);
    event->id = sqlite3_column_int64(statement, 0);
    event->boot = g_strdup(journal_db_text(statement, 1));
    event->seq = (uint64_t)sqlite3_column_int64(statement, 2);
    event->at_ns = sqlite3_column_int64(statement, 3);
    event->type = type;
    event->text = g_strdup(journal_db_text(statement, 5));
    return event;
}

static int
journal_events_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_events_page *page = arg;
    const struct vg_happening_query *query = &page->query;
    int64_t after = 0;

    if (query->after_boot && journal_events_find(db, query, &after, err) != 0)
        return -1;
    g_autofree char *types = query->types ? g_strconcat(",", query->types, ",", NULL) : NULL;
    sqlite3_stmt *statement = journal_db_query(
        db, err,
        "SELECT id, boot, seq, at_ns, type, document FROM event WHERE id > ?1 AND at_ns >= ?2 "
        "AND at_ns < ?3 AND (?4 = '' OR instr(?4, ',' || type || ',') > 0) "
        "AND NOT (boot = ?5 AND seq > ?6) ORDER BY id LIMIT ?7",
        "iiissii", after, query->since_ns, query->until_ns, types ? types : "",
        query->upto_boot ? query->upto_boot : "", (int64_t)query->upto_seq, (int64_t)query->limit);
    return journal_db_list(db, statement, journal_event_row, vg_happening_free, ret, err);
}

GPtrArray *
vg_journal_list_events(vg_journal *journal, const struct vg_happening_query *query, GError **err)
{
    struct journal_events_page *page = g_new0(struct journal_events_page, 1);

    page->query = *query;
    page->query.limit = MIN(query->limit, INT32_MAX);
    page->query.types = page->types = g_strdup(query->types);
    page->query.after_boot = page->after_boot = g_strdup(query->after_boot);
    page->query.upto_boot = page->upto_boot = g_strdup(query->upto_boot);
    return journal_ask_list(journal, journal_events_read, page, journal_events_page_free, err);
}

/* ---- owed to the alert command ---- */

static void *
journal_owed_row(sqlite3_stmt *statement, GError **err)
{
    struct vg_happening *event = g_new0(struct vg_happening, 1);

    (void)err;
    event->boot = g_strdup(journal_db_text(statement, 0));
    event->seq = (uint64_t)sqlite3_column_int64(statement, 1);
    event->at_ns = sqlite3_column_int64(statement, 2);
    event->type = VG_HAPPENING_ALERT;
    event->text = g_strdup(journal_db_text(statement, 3));
    return event;
}

static int
journal_owed_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT boot, seq, at_ns, document FROM alert_owed ORDER BY id", "");

    (void)arg;
    return journal_db_list(db, statement, journal_owed_row, vg_happening_free, ret, err);
}

GPtrArray *
vg_journal_list_owed(vg_journal *journal, GError **err)
{
    return journal_ask_list(journal, journal_owed_read, NULL, journal_no_free, err);
}
