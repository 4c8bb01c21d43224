/* SPDX-License-Identifier: Apache-2.0
 *
 * A spelling is matched from its end. Numbers and states are short and have few different
 * characters, so only a comm remains. It is the text between two fixed parts for which all fields
 * to its left match as well. A thread named "a ==> next_comm=b" or "x prev_pid=1" is therefore read
 * correctly.
 */
#include "config.h"

#include "trace/text-body.h"

#include <string.h>

#include "trace/text-line.h"

#define FAILED_TO_PARSE "[FAILED TO PARSE]"

/* The maximum number of words after the fields of the table, which newer kernels or perf (`-F
 * +ip,sym`: address and symbol) add. */
#define APPENDED_WORDS_MAX 4

/* The maximum number of word pairs before the wanted ones. "vcpu 0 reason X" has one. */
#define WORD_PAIRS_MAX 8

struct event_spellings {
    const char *events[4];
    const char *spellings[VG_TEXT_SPELLINGS_MAX];
};

/* {kind:field}. The first spelling of each kind is TP_printk in include/trace/events/sched.h and
 * task.h. Those that start with a comm and ':' are from libtraceevent's plugin_sched_switch.c.
 * Those without "==>" are trace-cmd's output for an event that it cannot format. */
static const struct event_spellings event_table[] = {
    {{"sched_switch"},
     {"prev_comm={t:prev_comm} prev_pid={i:prev_pid} prev_prio={i:prev_prio} "
      "prev_state={s:prev_state} ==> next_comm={t:next_comm} next_pid={i:next_pid} "
      "next_prio={i:next_prio}",
      "{t:prev_comm}:{i:prev_pid} [{i:prev_prio}] {s:prev_state} ==> "
      "{t:next_comm}:{i:next_pid} [{i:next_prio}]",
      "prev_comm={t:prev_comm} prev_pid={i:prev_pid} prev_prio={i:prev_prio} "
      "prev_state={s:prev_state} next_comm={t:next_comm} next_pid={i:next_pid} "
      "next_prio={i:next_prio}"}},
    {{"sched_wakeup", "sched_wakeup_new", "sched_waking"},
     {"comm={t:comm} pid={i:pid} prio={i:prio} target_cpu={i:target_cpu}",
      "comm={t:comm} pid={i:pid} prio={i:prio} success={i:success} target_cpu={i:target_cpu}",
      "{t:comm}:{i:pid} [{i:prio}] CPU:{i:target_cpu}",
      "{t:comm}:{i:pid} [{i:prio}] success={i:success} CPU:{i:target_cpu}",
      "{t:comm}:{i:pid} [{i:prio}]<CPU:{i:target_cpu}>", "{t:comm}:{i:pid} [{i:prio}]"}},
    {{"sched_migrate_task"},
     {"comm={t:comm} pid={i:pid} prio={i:prio} orig_cpu={i:orig_cpu} dest_cpu={i:dest_cpu}"}},
    {{"sched_process_fork"},
     {"comm={t:comm} pid={i:pid} child_comm={t:child_comm} child_pid={i:child_pid}",
      "parent_comm={t:parent_comm} parent_pid={i:parent_pid} child_comm={t:child_comm} "
      "child_pid={i:child_pid}"}},
    {{"sched_process_free", "sched_process_exit", "sched_process_wait"},
     {"comm={t:comm} pid={i:pid} prio={i:prio}",
      "comm={t:comm} pid={i:pid} prio={i:prio} group_dead={w:group_dead}"}},
    {{"sched_process_exec"}, {"filename={t:filename} pid={i:pid} old_pid={i:old_pid}"}},
    {{"task_newtask"},
     {"pid={i:pid} comm={t:comm} clone_flags={w:clone_flags} oom_score_adj={i:oom_score_adj}"}},
    /* drivers/gpu/drm/i915/gvt/trace.h */
    {{"render_mmio"},
     {"VM{i:old_id} -> VM{i:new_id} {w:action} reg {w:reg}, old {w:old_val} new {w:new_val}"}},
    /* tools/perf/util/event.c */
    {{"perf_comm"}, {"{t:comm}:{i:pid}/{i:tid}"}},
    {{"perf_fork"}, {"({i:pid}:{i:tid}):({i:ppid}:{i:ptid})"}},
    /* arch/arm64/kvm/trace_arm.h */
    {{"kvm_exit"}, {"{w:ret}: HSR_EC: {w:esr_ec} {w:class}, PC: {w:vcpu_pc}"}},
    {{"task_rename"},
     {"pid={i:pid} oldcomm={t:oldcomm} newcomm={t:newcomm} oom_score_adj={i:oom_score_adj}"}},
};

/* arch/x86/kvm/trace.h: TP_printk has other names for these fields. */
static const char *const word_events[] = {"kvm_entry", "kvm_exit"};
static const struct {
    const char *word, *field;
} word_fields[] = {{"vcpu", "vcpu_id"}, {"reason", "exit_reason"}, {"rip", "guest_rip"}};

static bool
span_is(struct vg_text_span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.s, text, span.len) == 0;
}

static struct vg_text_span
span_between(const char *begin, const char *end)
{
    return (struct vg_text_span){begin, (size_t)(end - begin)};
}

/* Splits a spelling of the table into its parts. */
static void
compile(struct vg_text_spelling *spelling, const char *text)
{
    const char *open;

    for (; (open = strchr(text, '{')); spelling->n_parts++) {
        const char *close = strchr(open, '}');
        g_assert(close && spelling->n_parts < VG_TEXT_PARTS_MAX);
        struct vg_text_part *part = &spelling->parts[spelling->n_parts];
        part->before = span_between(text, open);
        part->kind = open[1];
        part->field = span_between(open + 3, close);
        spelling->slot[spelling->n_parts] = -1;
        text = close + 1;
    }
    spelling->behind = (struct vg_text_span){text, strlen(text)};
}

/* Returns the table's spellings of an event, or NULL. */
static const char *const *
find_spellings(struct vg_text_span event)
{
    for (size_t i = 0; i < G_N_ELEMENTS(event_table); i++) {
        const struct event_spellings *row = &event_table[i];
        for (size_t k = 0; k < G_N_ELEMENTS(row->events) && row->events[k]; k++) {
            if (span_is(event, row->events[k]))
                return row->spellings;
        }
    }
    return NULL;
}

void
vg_text_layout_init(struct vg_text_layout *layout, struct vg_text_span event)
{
    const char *const *texts = find_spellings(event);

    *layout = (struct vg_text_layout){0};
    for (size_t i = 0; i < G_N_ELEMENTS(word_events); i++)
        layout->words |= span_is(event, word_events[i]);
    for (size_t i = 0; texts && i < VG_TEXT_SPELLINGS_MAX && texts[i]; i++)
        compile(&layout->spellings[layout->n_spellings++], texts[i]);
    layout->known = layout->words || layout->n_spellings > 0;
}

void
vg_text_layout_clear(struct vg_text_layout *layout)
{
    for (size_t i = 0; i < layout->n_wanted; i++)
        g_free(layout->wanted[i]);
    layout->n_wanted = 0;
}

static bool
is_state(char c)
{
    return vg_text_is_letter(c) || vg_text_is_digit(c) || c == '|' || c == '+' || c == '?';
}

const char *
vg_text_hex_pair(const char *begin, const char *end, struct vg_text_span *ret_decimal)
{
    if (end == begin || end[-1] != ')')
        return NULL;
    const char *decimal = end - 1;
    while (decimal > begin && vg_text_is_digit(decimal[-1]))
        decimal--;
    if (decimal == end - 1)
        return NULL;
    decimal -= decimal > begin && decimal[-1] == '-';
    if (decimal - begin < 2 || decimal[-1] != '(' || decimal[-2] != ' ')
        return NULL;
    const char *hex = decimal - 2, *p = hex;
    while (p > begin && g_ascii_isxdigit(p[-1]))
        p--;
    if (p == hex || p - begin < 2 || p[-1] != 'x' || p[-2] != '0')
        return NULL;
    if (ret_decimal)
        *ret_decimal = span_between(decimal, end - 1);
    return p - 2;
}

/* Returns where a value that ends at end starts, or end itself if there is none. */
static const char *
value_begin(char kind, const char *begin, const char *end)
{
    const char *p = end;
    const char *pair = vg_text_hex_pair(begin, end, NULL);

    if (pair)
        return pair;
    switch (kind) {
    case 'i':
        while (p > begin && vg_text_is_digit(p[-1]))
            p--;
        if (p < end && p > begin && p[-1] == '-')
            p--;
        break;
    case 's':
        while (p > begin && is_state(p[-1]))
            p--;
        break;
    default:
        while (p > begin && !vg_text_is_blank(p[-1]))
            p--;
        break;
    }
    return p;
}

static bool
ends_with(const char *begin, const char *end, struct vg_text_span text)
{
    return (size_t)(end - begin) >= text.len && memcmp(end - text.len, text.s, text.len) == 0;
}

static bool match_left(const struct vg_text_spelling *spelling, size_t n, const char *begin,
                       const char *end, struct vg_text_span *values);

/* Matches part n of the spelling with [value, end). The rest must match the text before it. */
static bool
match_part(const struct vg_text_spelling *spelling, size_t n, const char *begin, const char *value,
           const char *end, struct vg_text_span *values)
{
    struct vg_text_span before = spelling->parts[n].before;

    if (!ends_with(begin, value, before) ||
        !match_left(spelling, n, begin, value - before.len, values))
        return false;
    if (spelling->slot[n] >= 0)
        values[spelling->slot[n]] = span_between(value, end);
    return true;
}

/* Matches the first n parts of the spelling with exactly [begin, end). Each part calls the function
 * once for the next one, so the depth is VG_TEXT_PARTS_MAX. */
static bool
match_left(const struct vg_text_spelling *spelling, size_t n, const char *begin, const char *end,
           struct vg_text_span *values)
{
    if (n == 0)
        return begin == end;

    const struct vg_text_part *part = &spelling->parts[--n];
    if (part->kind != 't') {
        const char *value = value_begin(part->kind, begin, end);
        /* A word may contain the text before it: "clone_flags=3d0f00". */
        if (part->kind == 'w') {
            const char *equals = memchr(value, '=', (size_t)(end - value));
            value = equals ? equals + 1 : value;
        }
        return value < end && match_part(spelling, n, begin, value, end, values);
    }
    if (n == 0) {
        size_t len = part->before.len;
        return (size_t)(end - begin) >= len &&
               match_part(spelling, n, begin, begin + len, end, values);
    }
    size_t longest = MIN((size_t)(end - begin), VG_TEXT_VALUE_MAX);
    for (size_t len = 0; len <= longest; len++) {
        if (match_part(spelling, n, begin, end - len, end, values))
            return true;
    }
    return false;
}

static bool
match(const struct vg_text_spelling *spelling, struct vg_text_span body,
      struct vg_text_span *values)
{
    const char *end = body.s + body.len;

    return ends_with(body.s, end, spelling->behind) &&
           match_left(spelling, spelling->n_parts, body.s, end - spelling->behind.len, values);
}

static bool
match_any(struct vg_text_layout *layout, struct vg_text_span body, struct vg_text_span *values)
{
    for (size_t i = 0; i < layout->n_spellings; i++) {
        size_t k = (layout->likely + i) % layout->n_spellings;
        if (match(&layout->spellings[k], body, values)) {
            layout->likely = k;
            return true;
        }
    }
    return false;
}

static bool
cut_last_word(struct vg_text_span *body)
{
    const char *blank = memrchr(body->s, ' ', body->len);

    if (!blank)
        return false;
    body->len = (size_t)(blank - body->s);
    return true;
}

static bool
match_beginning(struct vg_text_layout *layout, struct vg_text_span body,
                struct vg_text_span *values)
{
    for (int cut = 0; cut <= APPENDED_WORDS_MAX && layout->n_spellings > 0; cut++) {
        if (match_any(layout, body, values))
            return true;
        if (!cut_last_word(&body))
            return false;
    }
    return false;
}

static bool
is_key(char c)
{
    return vg_text_is_letter(c) || vg_text_is_digit(c) || c == '_';
}

/* Returns where the value at p ends: after its bracket, before a comma, before " key=", or at the
 * end. */
static const char *
pair_end(const char *p, const char *end)
{
    const char *close = p < end && *p == '(' ? memchr(p, ')', (size_t)(end - p)) : NULL;

    if (close && (close + 1 == end || close[1] == ',' || vg_text_is_blank(close[1])))
        return close + 1;
    for (; p < end; p++) {
        if (*p == ',' && (p + 1 == end || vg_text_is_blank(p[1])))
            return p;
        if (!vg_text_is_blank(*p))
            continue;
        const char *key = p + 1;
        while (key < end && is_key(*key))
            key++;
        if (key > p + 1 && key < end && *key == '=')
            return p;
    }
    return end;
}

/* Finds the value after a key that ends with ':', such as "ring name:gfx". */
static struct vg_text_span
find_colon_pair(struct vg_text_span body, const char *key)
{
    size_t len = strlen(key);
    const char *p = memmem(body.s, body.len, key, len);

    if (!p || (p > body.s && !vg_text_is_blank(p[-1])))
        return (struct vg_text_span){0};
    return span_between(p + len, pair_end(p + len, body.s + body.len));
}

/* Finds the value of the last "key=" in the body. A comm, which may look like a key, comes
 * first. */
static struct vg_text_span
find_pair(struct vg_text_span body, const char *key)
{
    size_t len = strlen(key);

    if (key[len - 1] == ':')
        return find_colon_pair(body, key);

    for (const char *p = body.s + body.len; p > body.s;) {
        p = memrchr(body.s, '=', (size_t)(p - body.s));
        if (!p)
            break;
        const char *begin = p - len;
        if ((size_t)(p - body.s) < len || memcmp(begin, key, len) != 0)
            continue;
        if (begin == body.s || vg_text_is_blank(begin[-1]))
            return span_between(p + 1, pair_end(p + 1, body.s + body.len));
    }
    return (struct vg_text_span){0};
}

static const char *
word_field(struct vg_text_span word)
{
    for (size_t i = 0; i < G_N_ELEMENTS(word_fields); i++) {
        if (span_is(word, word_fields[i].word))
            return word_fields[i].field;
    }
    return NULL;
}

static struct vg_text_span
next_word(const char **pos, const char *end)
{
    const char *p = *pos;

    while (p < end && vg_text_is_blank(*p))
        p++;
    const char *begin = p;
    while (p < end && !vg_text_is_blank(*p))
        p++;
    *pos = p;
    if (p > begin && p[-1] == ',')
        p--;
    return span_between(begin, p);
}

static void
read_words(const struct vg_text_layout *layout, struct vg_text_span body,
           struct vg_text_span *values)
{
    const char *p = body.s, *end = body.s + body.len;

    for (int pair = 0; pair < WORD_PAIRS_MAX && p < end; pair++) {
        const char *field = word_field(next_word(&p, end));
        if (!field)
            continue;
        struct vg_text_span value = next_word(&p, end);
        for (size_t i = 0; i < layout->n_wanted; i++) {
            if (!values[i].s && value.len > 0 && strcmp(layout->wanted[i], field) == 0)
                values[i] = value;
        }
    }
}

static bool
has_field(const struct vg_text_layout *layout, const char *field)
{
    for (size_t i = 0; layout->words && i < G_N_ELEMENTS(word_fields); i++) {
        if (strcmp(field, word_fields[i].field) == 0)
            return true;
    }
    for (size_t i = 0; i < layout->n_spellings; i++) {
        for (size_t k = 0; k < layout->spellings[i].n_parts; k++) {
            if (span_is(layout->spellings[i].parts[k].field, field))
                return true;
        }
    }
    return false;
}

int
vg_text_layout_want(struct vg_text_layout *layout, const char *field, struct vg_text_span sample)
{
    for (size_t i = 0; i < layout->n_wanted; i++) {
        if (strcmp(layout->wanted[i], field) == 0)
            return (int)i;
    }
    if (layout->n_wanted == VG_TEXT_FIELDS_MAX)
        return -1;
    /* The comm of a known event may contain anything, so its pairs mean nothing. */
    if (!has_field(layout, field) &&
        ((layout->known && !layout->words) || !find_pair(sample, field).s))
        return -1;

    int slot = (int)layout->n_wanted++;
    layout->wanted[slot] = g_strdup(field);
    for (size_t i = 0; i < layout->n_spellings; i++) {
        struct vg_text_spelling *spelling = &layout->spellings[i];
        for (size_t k = 0; k < spelling->n_parts; k++) {
            if (span_is(spelling->parts[k].field, field))
                spelling->slot[k] = (int8_t)slot;
        }
    }
    return slot;
}

void
vg_text_body_read(struct vg_text_layout *layout, struct vg_text_span body,
                  struct vg_text_span *values)
{
    size_t len = strlen(FAILED_TO_PARSE);

    memset(values, 0, layout->n_wanted * sizeof(*values));
    if (body.len >= len && memcmp(body.s, FAILED_TO_PARSE, len) == 0) {
        body.s += len;
        body.len -= len;
        while (body.len > 0 && vg_text_is_blank(*body.s)) {
            body.s++;
            body.len--;
        }
    }
    if (match_beginning(layout, body, values))
        return;
    memset(values, 0, layout->n_wanted * sizeof(*values));
    if (layout->words)
        read_words(layout, body, values);
    for (size_t i = 0; i < layout->n_wanted; i++) {
        if (!values[i].s)
            values[i] = find_pair(body, layout->wanted[i]);
    }
}
