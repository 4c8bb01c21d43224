/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns, with sources: kernel/trace/trace_output.c (trace_print_context(), and
 * trace_print_lat_fmt() for the flags), libtraceevent's tep_print_event() as trace-cmd uses it,
 * and tools/perf/builtin-script.c (perf_sample__fprintf_start()):
 *
 *     tracefs, trace-cmd   comm-tid (tgid) [cpu] flags seconds.fraction: event: body
 *     trace-cmd, of several files or instances (print_handle_file())   "name: " in front of that
 *     perf script          comm pid/tid [cpu] misc tod seconds.fraction: period system:event: body
 *                          "PERF_RECORD_..." in the place of the event: what perf itself recorded
 *
 * A comm may contain anything, even "1 [0] 2.0" or the words of a header. Therefore only a line
 * without columns can be a header. The line is split at the last "[cpu] flags time:" that has a
 * thread id and a comm of up to 15 bytes in front of it, because the same text in a body has more
 * in front of it. If no place qualifies, as in lines with a prefix, the line is split at the first
 * "[cpu] flags time:" with a thread id.
 */
#include "config.h"

#include "trace/text-line.h"

#include <string.h>

#include "model/event.h"
#include "trace/text-head.h"

/* tracefs and trace-cmd reserve 16 columns for a comm, which has up to 15. */
#define COMM_COLUMNS 15

/* "d..2." is five. Real-time kernels and high preempt counts make it longer. */
#define FLAGS_MIN 2
#define FLAGS_MAX 10

#define PERF_RECORD "PERF_RECORD_"

/* perf prints the address of a call chain level with at least this many columns. */
#define ADDRESS_COLUMNS 16

/* Limits seconds, so that seconds * 1e9 + fraction fit into int64_t. */
#define SECONDS_MAX     (VG_TIME_MAX / 1000000000 - 1)
#define FRACTION_DIGITS 9

bool
vg_text_digits(const char **pos, const char *end, int64_t *ret)
{
    const char *p = *pos;
    int64_t value = 0;

    while (p < end && vg_text_is_digit(*p)) {
        if (value > (INT64_MAX - 9) / 10)
            value = INT64_MAX;
        else
            value = value * 10 + (*p - '0');
        p++;
    }
    if (p == *pos)
        return false;
    *pos = p;
    *ret = value;
    return true;
}

static const char *
skip_blanks(const char *p, const char *end)
{
    while (p < end && vg_text_is_blank(*p))
        p++;
    return p;
}

static const char *
trim_blanks(const char *begin, const char *end)
{
    while (end > begin && vg_text_is_blank(end[-1]))
        end--;
    return end;
}

static bool
starts_with(const char *p, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - p) >= len && memcmp(p, word, len) == 0;
}

static bool
is_flag(char c)
{
    return vg_text_is_letter(c) || vg_text_is_digit(c) || c == '.' || c == '#' || c == '*' ||
           c == '!' || c == '?' || c == '+';
}

/* Parses "12.345678:" or "12345:" at *pos, and advances *pos past the colon. Returns EVENT or
 * COUNTER, otherwise UNKNOWN.
 */
static enum vg_text_kind
read_time(const char **pos, const char *end, int64_t *ret_ns)
{
    const char *p = *pos;
    int64_t seconds, fraction;

    if (!vg_text_digits(&p, end, &seconds) || p == end)
        return VG_TEXT_UNKNOWN;
    if (*p == ':') {
        *pos = p + 1;
        return VG_TEXT_COUNTER;
    }
    if (*p++ != '.' || seconds > SECONDS_MAX)
        return VG_TEXT_UNKNOWN;
    const char *begin = p;
    if (!vg_text_digits(&p, end, &fraction) || p == end || *p != ':' || p - begin > FRACTION_DIGITS)
        return VG_TEXT_UNKNOWN;
    for (ptrdiff_t digits = p - begin; digits < FRACTION_DIGITS; digits++)
        fraction *= 10;
    *pos = p + 1;
    *ret_ns = seconds * 1000000000 + fraction;
    return VG_TEXT_EVENT;
}

/* Skips the flags of tracefs, or the letters of perf's -F +misc, of which there may be only one. */
static const char *
skip_flags(const char *begin, const char *end)
{
    const char *p = begin;

    while (p < end && is_flag(*p))
        p++;
    bool is_misc = p - begin == 1 && strchr("KUHGg", *begin);
    if (((p - begin < FLAGS_MIN || p - begin > FLAGS_MAX) && !is_misc) || p == end ||
        !vg_text_is_blank(*p))
        return begin;
    return skip_blanks(p, end);
}

/* Skips perf's -F +tod: "2026-11-28 08:56:34.000000", or "disabled" if it is unknown. */
static const char *
skip_time_of_day(const char *begin, const char *end)
{
    static const char pattern[] = "0000-00-00 00:00:00.";
    const char *p = begin;
    int64_t fraction;

    if (starts_with(p, end, "disabled "))
        return skip_blanks(p + strlen("disabled"), end);
    for (const char *c = pattern; *c; c++, p++) {
        if (p == end || (*c == '0' ? !vg_text_is_digit(*p) : *p != *c))
            return begin;
    }
    if (!vg_text_digits(&p, end, &fraction) || p == end || !vg_text_is_blank(*p))
        return begin;
    return skip_blanks(p, end);
}

/* Parses "] flags time:" after the digits of a CPU. */
static enum vg_text_kind
read_flags_and_time(const char **pos, const char *end, int64_t *ret_ns)
{
    const char *p = *pos;

    if (p == end || *p != ']')
        return VG_TEXT_UNKNOWN;
    p = skip_blanks(p + 1, end); /* trace-cmd prints no blank before a count with many digits */
    enum vg_text_kind kind = read_time(&p, end, ret_ns);
    if (kind == VG_TEXT_UNKNOWN) {
        p = skip_time_of_day(skip_flags(p, end), end);
        kind = read_time(&p, end, ret_ns);
    }
    *pos = p;
    return kind;
}

/* Parses "system:event:" or "event:" up to a blank or the end of the line, possibly after perf's
 * period.
 */
static void
read_event_name(const char *p, const char *end, struct vg_text_line *ret)
{
    ret->event = (struct vg_text_span){p, 0};
    for (int token = 0; token < 2; token++) {
        p = skip_blanks(p, end);
        const char *begin = p;
        bool number = true;
        while (p < end && !vg_text_is_blank(*p))
            number &= vg_text_is_digit(*p++);
        if (p - begin >= 2 && p[-1] == ':') {
            ret->event = (struct vg_text_span){begin, (size_t)(p - begin) - 1};
            break;
        }
        p = begin;
        if (!number || p == end)
            break;
        while (p < end && !vg_text_is_blank(*p))
            p++;
    }
    p = skip_blanks(p, end);
    ret->body = (struct vg_text_span){p, (size_t)(trim_blanks(p, end) - p)};
}

/* Finds the column " (  tgid)" or " (-------)" before end. Returns its start. */
static const char *
read_tgid(const char *begin, const char *end, struct vg_text_line *ret)
{
    if (end == begin || end[-1] != ')')
        return end;
    const char *inner_end = end - 1;
    const char *p = inner_end;
    while (p > begin && vg_text_is_digit(p[-1]))
        p--;
    const char *digits = p;
    while (p > begin && (vg_text_is_blank(p[-1]) || (digits == inner_end && p[-1] == '-')))
        p--;
    if (p == begin || p[-1] != '(')
        return end;
    int64_t tgid;
    if (vg_text_digits(&digits, inner_end, &tgid))
        ret->tgid = (int32_t)MIN(tgid, VG_TID_LIMIT + 1);
    return trim_blanks(begin, p - 1);
}

static bool
is_unknown_comm(const char *p, const char *end, int64_t tid)
{
    /* perf uses the name ":<tid>" for a thread whose creation it did not see. */
    if (p < end && *p == ':') {
        int64_t n;
        p++;
        return vg_text_digits(&p, end, &n) && p == end && n == tid;
    }
    return end - p == 5 && memcmp(p, "<...>", 5) == 0;
}

/* Finds "name: " before the columns of the comm, which end there. Returns its start. */
static const char *
read_label(const char *begin, const char *comm_end, struct vg_text_line *ret)
{
    const char *first = skip_blanks(begin, comm_end);

    if (comm_end - first <= COMM_COLUMNS)
        return first;
    const char *columns = comm_end - COMM_COLUMNS;
    const char *end = trim_blanks(first, columns);
    if (end == columns || end - first < 2 || end[-1] != ':')
        return first;
    ret->label = (struct vg_text_span){first, (size_t)(end - first) - 1};
    return skip_blanks(columns, comm_end);
}

/* Parses the text left of "[cpu]": comm and ids. Returns false if there is no thread id. */
static bool
read_thread(const char *begin, const char *end, struct vg_text_line *ret)
{
    bool perf = memchr(ret->event.s, ':', ret->event.len) != NULL;
    int64_t tid, pid = VG_NONE;

    begin = skip_blanks(begin, end);
    end = read_tgid(begin, trim_blanks(begin, end), ret);
    const char *digits = end;
    while (digits > begin && vg_text_is_digit(digits[-1]))
        digits--;
    const char *p = digits;
    if (!vg_text_digits(&p, end, &tid))
        return false;

    p = digits;
    if (p > begin && p[-1] == '/') {
        const char *slash = --p;
        while (p > begin && vg_text_is_digit(p[-1]))
            p--;
        digits = p;
        if (!vg_text_digits(&digits, slash, &pid))
            return false;
    }
    const char *comm_end = p;
    if (p > begin && p[-1] == '-' && perf && (p - 1 == begin || vg_text_is_blank(p[-2]))) {
        tid = VG_NONE; /* perf's -1 means unknown */
        comm_end = trim_blanks(begin, p - 1);
    } else if (p > begin && p[-1] == '-' && pid == VG_NONE) {
        comm_end = p - 1;
        begin = read_label(begin, comm_end, ret);
    } else if (p > begin && vg_text_is_blank(p[-1])) {
        comm_end = trim_blanks(begin, p);
    } else if (p > begin) {
        return false;
    }
    ret->tid = (int32_t)MIN(tid, VG_TID_LIMIT + 1);
    if (pid != VG_NONE)
        ret->tgid = (int32_t)MIN(pid, VG_TID_LIMIT + 1);
    if (!is_unknown_comm(begin, comm_end, tid))
        ret->comm = (struct vg_text_span){begin, (size_t)(comm_end - begin)};
    return true;
}

/* Returns the number after the first `word` of the line, or 0. */
static int64_t
number_behind(const char *begin, const char *end, const char *word)
{
    const char *p = memmem(begin, (size_t)(end - begin), word, strlen(word));
    int64_t n = 0;

    if (p) {
        p = skip_blanks(p + strlen(word), end);
        vg_text_digits(&p, end, &n);
    }
    return n;
}

static void
check_possible(struct vg_text_line *line)
{
    if (line->cpu >= VG_CPU_LIMIT)
        line->impossible = "an invalid CPU number";
    else if (line->tid > VG_TID_LIMIT || line->tgid > VG_TID_LIMIT)
        line->impossible = "an invalid thread ID";
}

/* Parses "PERF_RECORD_LOST lost 17" instead of an event, which older versions name "unknown". */
static bool
is_perf_loss(struct vg_text_line *line, const char *end)
{
    if (!starts_with(line->body.s, end, "PERF_RECORD_LOST"))
        return false;
    if (line->event.len > 0 && !(line->event.len == 7 && memcmp(line->event.s, "unknown", 7) == 0))
        return false;
    line->lost = number_behind(line->body.s, end, " lost ");
    return true;
}

/* Parses perf's records about processes: "PERF_RECORD_COMM exec: name:pid/tid" and
 * "PERF_RECORD_FORK(pid:tid):(ppid:ptid)". They become events like in perf's CTF. The columns do
 * not describe the thread. */
static bool
is_perf_process(const char *p, const char *end, struct vg_text_line *line)
{
    static const struct {
        const char *begin, *event;
    } records[] = {
        {"PERF_RECORD_COMM: ", "perf_comm"},
        {"PERF_RECORD_COMM exec: ", "perf_comm"},
        {"PERF_RECORD_FORK", "perf_fork"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(records); i++) {
        if (!starts_with(p, end, records[i].begin))
            continue;
        const char *body = p + strlen(records[i].begin);
        *line = (struct vg_text_line){
            .ts_ns = line->ts_ns,
            .cpu = VG_NONE,
            .tid = VG_NONE,
            .tgid = VG_NONE,
            .event = {records[i].event, strlen(records[i].event)},
            .body = {body, (size_t)(trim_blanks(body, end) - body)},
        };
        return true;
    }
    return false;
}

/* Parses a record of perf itself, at p after the time. The recording contains only tracepoints. */
static enum vg_text_kind
parse_perf_record(const char *p, const char *end, struct vg_text_line *line)
{
    if (is_perf_process(p, end, line))
        return VG_TEXT_PROCESS;
    return is_perf_loss(line, end) ? VG_TEXT_LOST : VG_TEXT_SKIP;
}

/* The columns around one "[cpu]". */
struct text_columns {
    enum vg_text_kind kind;
    struct vg_text_line line;
    bool has_thread;
    bool is_perf_record;
    const char *behind; /* text after the time */
};

/* Returns whether the comm is short enough. In a body, the text in front of "[cpu]" is longer. */
static bool
has_possible_comm(const struct vg_text_line *line)
{
    return line->comm.len <= COMM_COLUMNS &&
           (line->label.len == 0 || !memchr(line->label.s, '[', line->label.len));
}

/* Parses the columns around the digits of a CPU. Returns false if these are no columns. */
static bool
read_columns(const char *begin, const char *digits, const char *end, struct text_columns *ret)
{
    const char *p = digits;
    int64_t cpu, ts_ns = VG_NONE;

    if (!vg_text_digits(&p, end, &cpu))
        return false;
    ret->kind = read_flags_and_time(&p, end, &ts_ns);
    if (ret->kind == VG_TEXT_UNKNOWN)
        return false;
    ret->line = (struct vg_text_line){
        .ts_ns = ts_ns,
        .cpu = (int32_t)MIN(cpu, VG_CPU_LIMIT),
        .tid = VG_NONE,
        .tgid = VG_NONE,
    };
    read_event_name(p, end, &ret->line);
    ret->has_thread = read_thread(begin, digits - 1, &ret->line);
    check_possible(&ret->line);
    ret->behind = skip_blanks(p, end);
    ret->is_perf_record = ret->kind == VG_TEXT_EVENT && starts_with(ret->behind, end, PERF_RECORD);
    return true;
}

/* Parses a line with the columns of an event. */
static enum vg_text_kind
parse_columns(const char *begin, const char *end, struct vg_text_line *ret)
{
    const char *bracket = begin;
    struct text_columns found = {.kind = VG_TEXT_UNKNOWN}, columns;
    bool is_possible = false; /* found has a comm of possible length */

    while ((bracket = memchr(bracket, '[', (size_t)(end - bracket)))) {
        if (!read_columns(begin, ++bracket, end, &columns))
            continue;
        bool is_better = columns.has_thread && has_possible_comm(&columns.line);
        if (!is_better &&
            (found.kind != VG_TEXT_UNKNOWN || !(columns.has_thread || columns.is_perf_record)))
            continue;
        found = columns;
        is_possible |= is_better;
        if (!is_possible && columns.is_perf_record)
            break;
    }
    if (found.kind == VG_TEXT_UNKNOWN)
        return VG_TEXT_UNKNOWN;
    *ret = found.line;
    if (found.is_perf_record)
        return parse_perf_record(found.behind, end, ret);
    return is_perf_loss(ret, end) && found.kind == VG_TEXT_EVENT ? VG_TEXT_LOST : found.kind;
}

/* Parses "[LOST 17 EVENTS]" or "[17 EVENTS DROPPED]", both also without the number. No comm is
 * long enough for the whole text. */
static bool
parse_loss(const char *p, const char *end, int64_t *ret_lost)
{
    if (p == end || *p++ != '[')
        return false;
    bool is_kernel = starts_with(p, end, "LOST ");
    p += is_kernel ? strlen("LOST ") : 0;
    if (vg_text_digits(&p, end, ret_lost))
        p = skip_blanks(p, end);
    const char *rest = is_kernel ? "EVENTS]" : "EVENTS DROPPED]";
    return (size_t)(trim_blanks(p, end) - p) == strlen(rest) && starts_with(p, end, rest);
}

/* Parses losses: "CPU:3 [LOST 17 EVENTS]", "CPU:3 [17 EVENTS DROPPED]", both also without the
 * number, "CPU 3 is empty", and perf's "LOST 17 events", which names no CPU. */
static enum vg_text_kind
parse_remark(const char *p, const char *end, struct vg_text_line *ret)
{
    int64_t n;

    *ret = (struct vg_text_line){.ts_ns = VG_NONE, .cpu = VG_NONE, .tid = VG_NONE, .tgid = VG_NONE};
    if (starts_with(p, end, "CPU") && p + 3 < end && (p[3] == ':' || p[3] == ' ')) {
        p += 4;
        if (!vg_text_digits(&p, end, &n))
            return VG_TEXT_UNKNOWN;
        ret->cpu = (int32_t)MIN(n, VG_CPU_LIMIT);
        check_possible(ret);
        p = skip_blanks(p, end);
        if (starts_with(p, end, "is empty"))
            return VG_TEXT_HEADER;
        return parse_loss(p, end, &ret->lost) ? VG_TEXT_LOST : VG_TEXT_UNKNOWN;
    }
    const char *lost = memmem(p, (size_t)(end - p), "LOST ", 5);
    if (starts_with(p, end, "PERF_RECORD_LOST")) {
        ret->lost = number_behind(p, end, " lost ");
        return VG_TEXT_LOST;
    }
    if (starts_with(p, end, PERF_RECORD))
        return VG_TEXT_SKIP;
    if (lost) {
        lost += 5;
        if (vg_text_digits(&lost, end, &ret->lost) && starts_with(lost, end, " events") &&
            end - lost <= (ptrdiff_t)strlen(" events!"))
            return VG_TEXT_LOST;
    }
    return VG_TEXT_UNKNOWN;
}

/* Detects one level of a call chain: ftrace's " => symbol", or perf's address and symbol. */
static bool
is_call_chain(const char *begin, const char *p, const char *end)
{
    if (starts_with(p, end, "=>"))
        return true;
    const char *hex = p;
    while (p < end && g_ascii_isxdigit(*p))
        p++;
    bool is_address = p > hex && (p - hex >= 6 || p - begin >= ADDRESS_COLUMNS);
    return hex > begin && is_address && (p == end || vg_text_is_blank(*p));
}

/* Detects the lines after PERF_RECORD_NAMESPACES: "[0/net: 4/0xf0000098, 1/uts: ...". */
static bool
is_namespace_list(const char *begin, const char *p, const char *end)
{
    int64_t number;

    if (p - begin < 2 || begin[0] != '\t' || begin[1] != '\t')
        return false;
    p += *p == '[';
    return vg_text_digits(&p, end, &number) && p < end && *p++ == '/' && p < end &&
           vg_text_is_letter(*p);
}

/* Classifies a line without an event, after trace-cmd's name of the file. */
static enum vg_text_kind
parse_named_remark(const char *p, const char *end, struct vg_text_line *ret)
{
    const char *colon = memmem(p, (size_t)(end - p), ": ", 2);

    if (!colon || colon == p)
        return VG_TEXT_UNKNOWN;
    const char *rest = skip_blanks(colon + 1, end);
    bool is_head = vg_text_head_is((struct vg_text_span){rest, (size_t)(end - rest)});
    enum vg_text_kind kind = is_head ? VG_TEXT_HEADER : parse_remark(rest, end, ret);
    if (kind == VG_TEXT_LOST)
        ret->label = (struct vg_text_span){p, (size_t)(colon - p)};
    return kind;
}

enum vg_text_kind
vg_text_line_parse(struct vg_text_span text, struct vg_text_line *ret)
{
    const char *end = text.s + text.len;
    const char *p = skip_blanks(text.s, end);

    if (p == end)
        return VG_TEXT_SKIP;
    enum vg_text_kind kind = parse_columns(text.s, end, ret);
    if (kind == VG_TEXT_UNKNOWN && vg_text_head_is(text))
        return VG_TEXT_HEADER;
    if (kind == VG_TEXT_UNKNOWN && *p == '#' && p == text.s)
        return VG_TEXT_COMMENT;
    /* Without columns, this may be a record with such a name. */
    if (kind == VG_TEXT_UNKNOWN && *p == '#' && !memchr(p, '[', (size_t)(end - p)))
        return VG_TEXT_SKIP;
    if (kind == VG_TEXT_UNKNOWN)
        kind = parse_remark(p, end, ret);
    if (kind == VG_TEXT_UNKNOWN)
        kind = parse_named_remark(p, end, ret);
    if (kind == VG_TEXT_UNKNOWN &&
        (is_call_chain(text.s, p, end) || is_namespace_list(text.s, p, end)))
        kind = VG_TEXT_SKIP;
    return kind;
}

/* Finds "comm-tid cpu" and flags without a blank between them, before the time at p. */
static bool
is_latency_column(const char *begin, const char *p)
{
    const char *end = trim_blanks(begin, p);
    const char *word = end;

    while (word > begin && !vg_text_is_blank(word[-1]))
        word--;
    const char *flags = word;
    int64_t cpu, tid;
    if (!vg_text_digits(&flags, end, &cpu) || skip_flags(flags, p) != p)
        return false;
    end = trim_blanks(begin, word);
    const char *digits = end;
    while (digits > begin && vg_text_is_digit(digits[-1]))
        digits--;
    const char *dash = digits - 1;
    return dash > begin && *dash == '-' && vg_text_digits(&digits, end, &tid);
}

const char *
vg_text_line_hint(struct vg_text_span text)
{
    const char *end = text.s + text.len;

    for (const char *p = text.s; p < end; p++) {
        if (!vg_text_is_digit(*p) || (p > text.s && !vg_text_is_blank(p[-1])))
            continue;
        const char *behind = p;
        int64_t number;
        bool is_time = read_time(&behind, end, &number) == VG_TEXT_EVENT && p - text.s > 2;
        if (is_time && is_latency_column(text.s, p))
            return "this is the latency format: create the text with trace-cmd report without -l";
        if (is_time && !memchr(text.s, '[', (size_t)(p - text.s)))
            return "the line has no CPU: create the text with `perf script -F +cpu`";
        behind = p;
        if (vg_text_digits(&behind, end, &number) && starts_with(behind, end, "us") &&
            memchr(behind, ':', MIN(4, (size_t)(end - behind))))
            return "this is the latency format: create the text with `echo nolatency-format > "
                   "trace_options`, or trace-cmd report without -l";
    }
    return NULL;
}
