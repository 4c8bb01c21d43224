/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the tokens. They stay in memory after the file was opened.
 */
#include "config.h"

#include <string.h>

#include "journal/journal-private.h"

void
journal_token_free(void *data)
{
    struct journal_token *token = data;

    g_free(token->token.name);
    g_free(token);
}

/* Reads a role. A role that is unknown to this version grants no permission. */
static enum vg_role
journal_role(const char *name)
{
    enum vg_role role = VG_ROLE_NONE;

    (void)!vg_role_from_name(name, &role);
    return role;
}

static int
journal_tokens_read(struct journal_db *db, GPtrArray *tokens, GError **err)
{
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT name, hash, role, made_ns, expires_ns, used_ns FROM token ORDER BY name",
        "");
    int status = statement ? 1 : -1;

    while (status > 0 && (status = journal_db_step(db, statement, err)) > 0) {
        const void *hash = sqlite3_column_blob(statement, 1);
        if (!hash || sqlite3_column_bytes(statement, 1) != JOURNAL_HASH_SIZE)
            continue; /* such a token gives no access */
        struct journal_token *token = g_new0(struct journal_token, 1);
        memcpy(token->hash, hash, JOURNAL_HASH_SIZE);
        token->token = (struct vg_token){
            .name = g_strdup(journal_db_text(statement, 0)),
            .role = journal_role(journal_db_text(statement, 2)),
            .made_ns = sqlite3_column_int64(statement, 3),
            .expires_ns = sqlite3_column_int64(statement, 4),
            .used_ns = sqlite3_column_int64(statement, 5),
        };
        g_ptr_array_add(tokens, token);
    }
    journal_db_end(statement);
    return status;
}

int
journal_tokens_load(vg_journal *journal, GError **err)
{
    g_autoptr(GPtrArray) tokens = g_ptr_array_new_with_free_func(journal_token_free);

    if (journal_tokens_read(journal->db, tokens, err) != 0)
        return -1;
    VG_LOCK_SCOPE(&journal->lock);
    GPtrArray *before = journal->tokens;
    journal->tokens = g_steal_pointer(&tokens);
    tokens = before;
    journal->tokens_known = true;
    return 0;
}
