/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores tokens: as hashes in the file, and all of them in memory, so that checking a token does
 * not wait for the disk.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "journal/journal-private.h"

#define TOKEN_SIZE 32 /* the number of random bytes */
/* The prefix makes a leaked token recognisable. */
#define TOKEN_PREFIX "vgpud_"

static void
journal_token_hash(const char *text, uint8_t ret[JOURNAL_HASH_SIZE])
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    gsize size = JOURNAL_HASH_SIZE;

    g_checksum_update(sum, (const guchar *)text, (gssize)strlen(text));
    g_checksum_get_digest(sum, ret, &size);
}

/* Compares two hashes in constant time. */
static bool
journal_token_matches(const uint8_t a[JOURNAL_HASH_SIZE], const uint8_t b[JOURNAL_HASH_SIZE])
{
    unsigned differ = 0;

    for (size_t i = 0; i < JOURNAL_HASH_SIZE; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}

/* ---- changing ---- */

static int
journal_token_add(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_token *token = arg;
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT count(*), count(nullif(name <> ?, 1)) FROM token", "s", token->token.name);
    int status = statement ? journal_db_step(db, statement, err) : -1;
    int64_t all = status > 0 ? sqlite3_column_int64(statement, 0) : 0;
    bool taken = status > 0 && sqlite3_column_int64(statement, 1) > 0;

    (void)ret;
    journal_db_end(statement);
    if (status < 0)
        return -1;
    if (taken)
        return vg_error(err, VG_E_CONFLICT, "the token '%s' already exists", token->token.name);
    if (all >= VG_JOURNAL_TOKENS_MAX)
        return vg_error(err, VG_E_REFUSED, "there are %d tokens, the maximum: revoke unused ones",
                        VG_JOURNAL_TOKENS_MAX);
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    return journal_db_run(
        db, NULL, err, "INSERT INTO token VALUES (?, ?, ?, ?, nullif(?, 0), NULL)", "sbsii",
        token->token.name, (const void *)token->hash, (size_t)JOURNAL_HASH_SIZE,
        vg_role_names[token->token.role], token->token.made_ns, token->token.expires_ns);
}

static int
journal_token_remove(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const char *name = arg;
    int changes = 0;

    (void)ret;
    if (journal_db_run(db, &changes, err, "DELETE FROM token WHERE name = ?", "s", name) != 0)
        return -1;
    return changes > 0 ? 0 : vg_error(err, VG_E_NOT_FOUND, "there is no token '%s'", name);
}

static struct journal_token *
journal_token_copy(const struct journal_token *token)
{
    struct journal_token *copy = g_memdup2(token, sizeof(*token));

    copy->token.name = g_strdup(token->token.name);
    return copy;
}

static char *
journal_token_text(GError **err)
{
    uint8_t bytes[TOKEN_SIZE];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        vg_error_errno(err, errno, "cannot get random bytes for a token");
        return NULL;
    }
    g_autofree char *base64 = g_base64_encode(bytes, sizeof(bytes));
    g_strdelimit(base64, "+", '-');
    g_strdelimit(base64, "/", '_');
    g_strdelimit(base64, "=", '\0');
    return g_strconcat(TOKEN_PREFIX, base64, NULL);
}

static int
journal_token_by_name(const void *a, const void *b)
{
    const struct journal_token *x = *(struct journal_token *const *)a;
    const struct journal_token *y = *(struct journal_token *const *)b;

    return strcmp(x->token.name, y->token.name);
}

char *
vg_journal_create_token(vg_journal *journal, const char *name, enum vg_role role, int64_t at_ns,
                        int64_t expires_ns, GError **err)
{
    if (!vg_token_is_name(name)) {
        vg_error(err, VG_E_INVALID,
                 "'%s' is not a valid token name: use 1 to %d letters, digits, '.', '_' and '-'",
                 name, VG_TOKEN_NAME_MAX);
        return NULL;
    }
    g_autofree char *text = journal_token_text(err);
    if (!text)
        return NULL;
    struct journal_token token = {
        .token = {.name = (char *)name, .role = role, .made_ns = at_ns, .expires_ns = expires_ns},
    };
    journal_token_hash(text, token.hash);
    if (journal_ask_thread(journal, journal_token_add, journal_token_copy(&token),
                           journal_token_free, NULL, NULL, err) != 0)
        return NULL;
    VG_LOCK_SCOPE(&journal->lock);
    g_ptr_array_add(journal->tokens, journal_token_copy(&token));
    g_ptr_array_sort(journal->tokens, journal_token_by_name);
    return g_steal_pointer(&text);
}

int
vg_journal_revoke_token(vg_journal *journal, const char *name, GError **err)
{
    if (journal_ask_thread(journal, journal_token_remove, g_strdup(name), g_free, NULL, NULL,
                           err) != 0)
        return -1;
    VG_LOCK_SCOPE(&journal->lock);
    for (guint i = journal->tokens->len; i > 0; i--) {
        const struct journal_token *token = journal->tokens->pdata[i - 1];
        if (strcmp(token->token.name, name) == 0)
            g_ptr_array_remove_index(journal->tokens, i - 1);
    }
    return 0;
}

/* ---- from memory ---- */

/* Fails if the tokens have never been read. Called under the lock. */
static int
journal_tokens_need(const vg_journal *journal, GError **err)
{
    if (journal->tokens_known)
        return 0;
    const enum vg_error_code code = journal->reason ? journal->reason_code : VG_E_BUSY;
    /* VG_E_DENIED would say that the token is unknown. */
    return vg_error(err, code == VG_E_BUSY || code == VG_E_UNUSABLE ? code : VG_E_IO,
                    "the tokens cannot be read: %s",
                    journal->reason ? journal->reason : "the journal is not open yet");
}

GPtrArray *
vg_journal_list_tokens(vg_journal *journal, GError **err)
{
    VG_LOCK_SCOPE(&journal->lock);
    if (journal_tokens_need(journal, err) < 0)
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_token_free);
    for (guint i = 0; i < journal->tokens->len; i++) {
        const struct journal_token *token = journal->tokens->pdata[i];
        struct vg_token *copy = g_memdup2(&token->token, sizeof(token->token));
        copy->name = g_strdup(token->token.name);
        g_ptr_array_add(list, copy);
    }
    return list;
}

int
vg_journal_check_token(vg_journal *journal, const char *text, int64_t at_ns,
                       struct vg_identity *ret, GError **err)
{
    uint8_t hash[JOURNAL_HASH_SIZE];
    struct journal_token *found = NULL;

    journal_token_hash(text, hash);
    VG_LOCK_SCOPE(&journal->lock);
    if (journal_tokens_need(journal, err) < 0)
        return -1;
    for (guint i = 0; i < journal->tokens->len; i++) {
        struct journal_token *token = journal->tokens->pdata[i];
        if (journal_token_matches(token->hash, hash))
            found = token;
    }
    if (!found)
        return vg_error(err, VG_E_DENIED, "the token is unknown");
    if (found->token.expires_ns != 0 && at_ns >= found->token.expires_ns)
        return vg_error(err, VG_E_DENIED, "the token has expired");
    found->used = true;
    found->token.used_ns = at_ns;
    *ret = (struct vg_identity){.role = found->token.role};
    g_snprintf(ret->name, sizeof(ret->name), "token:%s", found->token.name);
    return 0;
}

/* ---- last uses ---- */

static int
journal_tokens_note_use(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const GPtrArray *tokens = arg;

    (void)ret;
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    for (guint i = 0; i < tokens->len; i++) {
        const struct vg_token *token = tokens->pdata[i];
        if (journal_db_run(db, NULL, err, "UPDATE token SET used_ns = ? WHERE name = ?", "is",
                           token->used_ns, token->name) != 0)
            return -1;
    }
    return 0;
}

int
journal_tokens_tidy(vg_journal *journal, GError **err)
{
    g_autoptr(GPtrArray) used = g_ptr_array_new_with_free_func(vg_token_free);

    pthread_mutex_lock(&journal->lock);
    for (guint i = 0; i < journal->tokens->len; i++) {
        struct journal_token *token = journal->tokens->pdata[i];
        if (!token->used)
            continue;
        struct vg_token *copy = g_memdup2(&token->token, sizeof(token->token));
        copy->name = g_strdup(token->token.name);
        g_ptr_array_add(used, copy);
        token->used = false;
    }
    pthread_mutex_unlock(&journal->lock);
    return used->len == 0 ? 0 : journal_transact(journal, journal_tokens_note_use, used, NULL, err);
}
