/* SPDX-License-Identifier: Apache-2.0
 *
 * Time is divided into cells, which start small and are doubled as long as that is necessary.
 * Everything in one cell with the same row, identity and kind becomes one interval. On rows without
 * overlaps, this applies to intervals shorter than a cell. On others, everything is first cut at
 * the cells, so that a joined interval takes no more of a cell than its parts did.
 */
#include "config.h"

#include "picture/intervals.h"

/* The initial number of cells, which is more than a picture has pixels. */
#define CELLS_MAX 4096

/* Intervals that become one: the first one, and the total length. */
struct group {
    struct vg_interval first;
    int64_t length_ns;
};

struct vg_intervals {
    int64_t begin_ns;
    int64_t last_ns; /* the latest end */
    int64_t cell_ns;
    size_t max;
    GArray *all;    /* struct vg_interval */
    GArray *parts;  /* struct vg_interval, to be joined, of one row */
    GArray *groups; /* struct group, of one cell */
    bool joined;
    uint64_t left_out;
};

vg_intervals *
vg_intervals_new(int64_t begin_ns, size_t max)
{
    vg_intervals *intervals = g_new0(vg_intervals, 1);

    intervals->begin_ns = intervals->last_ns = begin_ns;
    intervals->cell_ns = 1;
    intervals->max = max;
    intervals->all = g_array_new(FALSE, FALSE, sizeof(struct vg_interval));
    intervals->parts = g_array_new(FALSE, FALSE, sizeof(struct vg_interval));
    intervals->groups = g_array_new(FALSE, FALSE, sizeof(struct group));
    return intervals;
}

void
vg_intervals_free(vg_intervals *intervals)
{
    if (!intervals)
        return;
    g_array_unref(intervals->all);
    g_array_unref(intervals->parts);
    g_array_unref(intervals->groups);
    g_free(intervals);
}

static const struct vg_interval *
at(const GArray *array, guint i)
{
    return &g_array_index(array, struct vg_interval, i);
}

static int
compare(const void *a, const void *b)
{
    const struct vg_interval *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->identity > y->identity) - (x->identity < y->identity);
}

/* Returns the start of the cell that contains a time. */
static int64_t
cell_begin(const vg_intervals *intervals, int64_t t_ns)
{
    return t_ns - (t_ns - intervals->begin_ns) % intervals->cell_ns;
}

static void
add_to_group(vg_intervals *intervals, const struct vg_interval *part)
{
    int64_t length_ns = part->end_ns - part->begin_ns;

    for (guint i = 0; i < intervals->groups->len; i++) {
        struct group *group = &g_array_index(intervals->groups, struct group, i);
        if (group->first.identity == part->identity && group->first.kind == part->kind) {
            group->length_ns += length_ns;
            group->first.joined = intervals->joined = true;
            return;
        }
    }
    const struct group group = {*part, length_ns};
    g_array_append_val(intervals->groups, group);
}

static void
put(GArray *to, const struct group *group, int64_t begin_ns, int64_t end_ns)
{
    struct vg_interval piece = group->first;

    piece.begin_ns = begin_ns;
    piece.end_ns = end_ns;
    g_array_append_val(to, piece);
}

/* Puts groups that did not overlap one after the other, in the space that they had. */
static void
put_in_sequence(const vg_intervals *intervals, GArray *to)
{
    int64_t free_ns = INT64_MIN;

    for (guint i = 0; i < intervals->groups->len; i++) {
        const struct group *group = &g_array_index(intervals->groups, struct group, i);
        int64_t begin_ns = MAX(group->first.begin_ns, free_ns);
        free_ns = begin_ns + group->length_ns;
        put(to, group, begin_ns, free_ns);
    }
}

/* Puts groups that overlap, filling the cell as often as necessary. */
static void
put_in_layers(const vg_intervals *intervals, GArray *to, int64_t begin_ns)
{
    int64_t end_ns = begin_ns + intervals->cell_ns;
    int64_t at_ns = begin_ns;

    for (guint i = 0; i < intervals->groups->len; i++) {
        const struct group *group = &g_array_index(intervals->groups, struct group, i);
        for (int64_t left_ns = group->length_ns; left_ns > 0;) {
            int64_t part_ns = MIN(left_ns, end_ns - at_ns);
            put(to, group, at_ns, at_ns + part_ns);
            left_ns -= part_ns;
            at_ns = at_ns + part_ns == end_ns ? begin_ns : at_ns + part_ns;
        }
    }
}

/* Joins the collected parts of a row. */
static void
join_parts(vg_intervals *intervals, GArray *to, bool overlaps)
{
    g_array_sort(intervals->parts, compare);
    for (guint i = 0; i < intervals->parts->len; i++) {
        int64_t cell_ns = cell_begin(intervals, at(intervals->parts, i)->begin_ns);
        add_to_group(intervals, at(intervals->parts, i));
        if (i + 1 < intervals->parts->len &&
            cell_begin(intervals, at(intervals->parts, i + 1)->begin_ns) == cell_ns)
            continue;
        if (overlaps)
            put_in_layers(intervals, to, cell_ns);
        else
            put_in_sequence(intervals, to);
        g_array_set_size(intervals->groups, 0);
    }
    g_array_set_size(intervals->parts, 0);
}

/* Cuts an interval: the cells that it fills remain, and its ends (or all of it) become parts. */
static void
cut(vg_intervals *intervals, GArray *to, const struct vg_interval *interval)
{
    struct vg_interval head = *interval, body = *interval, tail = *interval;

    body.begin_ns = cell_begin(intervals, interval->begin_ns + intervals->cell_ns - 1);
    body.end_ns = cell_begin(intervals, interval->end_ns);
    if (body.begin_ns > body.end_ns) {
        g_array_append_val(intervals->parts, *interval);
        return;
    }
    head.end_ns = body.begin_ns;
    tail.begin_ns = body.end_ns;
    if (head.begin_ns < head.end_ns)
        g_array_append_val(intervals->parts, head);
    if (body.begin_ns < body.end_ns)
        g_array_append_val(to, body);
    if (tail.begin_ns < tail.end_ns)
        g_array_append_val(intervals->parts, tail);
}

/* Joins the row that starts at first. Returns where the next row starts. */
static guint
join_row(vg_intervals *intervals, GArray *to, guint first)
{
    uint32_t row = at(intervals->all, first)->row;
    int64_t busy_until = INT64_MIN;
    bool overlaps = false;
    guint end = first;

    for (; end < intervals->all->len && at(intervals->all, end)->row == row; end++) {
        overlaps = overlaps || at(intervals->all, end)->begin_ns < busy_until;
        busy_until = MAX(busy_until, at(intervals->all, end)->end_ns);
    }
    for (guint i = first; i < end; i++) {
        const struct vg_interval *interval = at(intervals->all, i);
        if (overlaps)
            cut(intervals, to, interval);
        else if (interval->end_ns - interval->begin_ns < intervals->cell_ns)
            g_array_append_val(intervals->parts, *interval);
        else
            g_array_append_val(to, *interval);
    }
    join_parts(intervals, to, overlaps);
    return end;
}

static void
intervals_join(vg_intervals *intervals)
{
    GArray *to = g_array_new(FALSE, FALSE, sizeof(struct vg_interval));

    g_array_sort(intervals->all, compare);
    for (guint i = 0; i < intervals->all->len;)
        i = join_row(intervals, to, i);
    g_array_unref(intervals->all);
    intervals->all = to;
}

static void
leave_out_every_second(vg_intervals *intervals)
{
    guint n = 0;

    for (guint i = 0; i < intervals->all->len; i += 2)
        g_array_index(intervals->all, struct vg_interval, n++) = *at(intervals->all, i);
    intervals->left_out += intervals->all->len - n;
    g_array_set_size(intervals->all, n);
}

static void
make_room(vg_intervals *intervals)
{
    int64_t length_ns = intervals->last_ns - intervals->begin_ns;

    while (intervals->cell_ns < length_ns / CELLS_MAX)
        intervals->cell_ns *= 2;
    for (;;) {
        intervals_join(intervals);
        if (intervals->all->len <= intervals->max / 2 || intervals->cell_ns > length_ns)
            break;
        intervals->cell_ns *= 2;
    }
    while (intervals->all->len > intervals->max / 2)
        leave_out_every_second(intervals);
}

void
vg_intervals_add(vg_intervals *intervals, const struct vg_interval *interval)
{
    g_array_append_val(intervals->all, *interval);
    intervals->last_ns = MAX(intervals->last_ns, interval->end_ns);
    if (intervals->all->len > intervals->max)
        make_room(intervals);
}

void
vg_intervals_finish(vg_intervals *intervals)
{
    if (intervals->joined)
        intervals_join(intervals);
}

const GArray *
vg_intervals_all(const vg_intervals *intervals)
{
    return intervals->all;
}

bool
vg_intervals_were_joined(const vg_intervals *intervals)
{
    return intervals->joined;
}

uint64_t
vg_intervals_left_out(const vg_intervals *intervals)
{
    return intervals->left_out;
}
