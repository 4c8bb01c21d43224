/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests in progress when a book is read. In the whole period, a request counts up to the last
 * record that proves its state. In a window, it counts until it is passed or the window ends,
 * because its next state may not be known yet.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

/* A piece that a union gains. */
struct gpu_open_piece {
    struct gpu_union *set;
    struct gpu_interval interval;
};

static void
gpu_open_begin_meter(struct gpu_meter *meter, enum gpu_book_kind kind)
{
    gpu_peak_clear(&meter->open.peak);
    meter->open = (struct gpu_open){.oldest_ns = VG_TIME_MAX};
    meter->busy.more_ns = 0;
    if (kind != GPU_BOOK_PERIOD)
        return;
    meter->open.peak = meter->peak;
    meter->open.peak.times_ns =
        g_memdup2(meter->peak.times_ns, meter->peak.room * sizeof(*meter->peak.times_ns));
}

static void
gpu_open_begin(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind)
{
    for (guint i = 0; i < ledger->engines->len; i++)
        gpu_open_begin_meter(&gpu_engine_at(ledger, i)->meter, kind);
    for (guint i = 0; i < ledger->users->len; i++) {
        if (gpu_user_at(ledger, i))
            gpu_open_begin_meter(&gpu_user_at(ledger, i)->meter, kind);
    }
    for (guint i = 0; i < ledger->owners->len; i++) {
        if (gpu_owner_at(ledger, i))
            gpu_owner_at(ledger, i)->active.more_ns = 0;
    }
}

/* Returns since when the request has been in its state. */
static int64_t
gpu_open_since(const struct gpu_request *request)
{
    if (!gpu_is_waiting(request) || request->has_waited)
        return request->state_ns;
    return request->queued_ns == VG_TIME_UNKNOWN ? request->submitted_ns == VG_TIME_UNKNOWN
                                                       ? request->ready_ns
                                                       : request->submitted_ns
                                                 : request->queued_ns;
}

/* Returns until when the request counts as being in its state. It is unknown if in doubt. */
static int64_t
gpu_open_until(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
               enum gpu_book_kind kind)
{
    if (request->doubt == GPU_DOUBT_LOST)
        return gpu_open_since(request);
    if (kind == GPU_BOOK_PERIOD)
        return gpu_is_waiting(request) ? gpu_life_known_ns(request) : request->state_ns;
    if (request->doubt == GPU_DOUBT_PASSED)
        return request->doubt_ns;
    return gpu_is_passed(request) ? request->passed_ns : ledger->now;
}

static void
gpu_open_add_piece(GArray *pieces, struct gpu_union *set, struct gpu_interval interval)
{
    const struct gpu_open_piece piece = {set, interval};

    if (set && interval.begin_ns < interval.end_ns)
        g_array_append_val(pieces, piece);
}

/* Adds the waits and the run of a request to the sums. */
static void
gpu_open_add_times(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                   int64_t until_ns, int64_t from_ns, int64_t wait_ns[GPU_WAIT_MAX],
                   int64_t *exec_ns)
{
    const struct gpu_interval run = {request->state_ns, until_ns};
    struct gpu_stage stages[GPU_WAIT_MAX];
    int n = 0;

    if (gpu_is_waiting(request))
        n = gpu_wait_stages(request, until_ns, gpu_wait_next(ledger, request), stages);
    for (int i = 0; i < n; i++)
        gpu_meter_grow(&wait_ns[stages[i].wait], gpu_interval_after(stages[i].interval, from_ns),
                       GPU_METER_WAIT_MAX);
    if (request->state == GPU_STATE_RUNNING)
        gpu_meter_grow(exec_ns, gpu_interval_after(run, from_ns), VG_TIME_MAX);
}

static void
gpu_open_count(const struct gpu_request *request, enum gpu_book_kind kind, struct gpu_open *open)
{
    if (request->doubt == GPU_DOUBT_NONE && !gpu_is_passed(request)) {
        open->open++;
        open->oldest_ns = MIN(open->oldest_ns, request->begun_ns);
    } else if (!(request->told_books & 1U << kind)) {
        open->partial++;
    }
}

static void
gpu_open_add(struct vg_gpu_ledger *ledger, const struct gpu_request *request,
             enum gpu_book_kind kind, GArray *pieces)
{
    const struct gpu_place place = gpu_life_place(ledger, request);
    const int64_t until_ns = gpu_open_until(ledger, request, kind);
    const bool runs = request->state == GPU_STATE_RUNNING;
    const bool in_peak = gpu_is_waiting(request) && request->doubt == GPU_DOUBT_NONE;

    for (int i = 0; i < 2 && place.meters[i]; i++) {
        struct gpu_meter *meter = place.meters[i];
        gpu_open_count(request, kind, &meter->open);
        gpu_open_add_times(ledger, request, until_ns, ledger->begin_ns[kind], meter->open.wait_ns,
                           &meter->open.exec_ns);
        gpu_open_add_piece(pieces, runs ? &meter->busy : NULL,
                           (struct gpu_interval){request->state_ns, until_ns});
        if (in_peak && until_ns < ledger->now)
            gpu_peak_take(&meter->open.peak, until_ns);
    }
    gpu_open_add_piece(pieces, place.active,
                       (struct gpu_interval){gpu_open_since(request), until_ns});
}

static int
gpu_open_compare_pieces(const void *a, const void *b)
{
    const struct gpu_open_piece *x = a, *y = b;

    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    return (x->interval.begin_ns > y->interval.begin_ns) -
           (x->interval.begin_ns < y->interval.begin_ns);
}

/* Adds the pieces to their unions. Each moment counts once. */
static void
gpu_open_add_pieces(GArray *pieces, int64_t from_ns)
{
    guint next;

    g_array_sort(pieces, gpu_open_compare_pieces);
    for (guint i = 0; i < pieces->len; i = next) {
        struct gpu_open_piece *piece = &g_array_index(pieces, struct gpu_open_piece, i);
        for (next = i + 1; next < pieces->len; next++) {
            const struct gpu_open_piece *other =
                &g_array_index(pieces, struct gpu_open_piece, next);
            if (other->set != piece->set || other->interval.begin_ns > piece->interval.end_ns)
                break;
            piece->interval.end_ns = MAX(piece->interval.end_ns, other->interval.end_ns);
        }
        piece->set->more_ns += gpu_union_more(piece->set, piece->interval, from_ns);
    }
}

void
gpu_open_read(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind)
{
    const struct gpu_requests *all = &ledger->requests;
    const uint32_t lists[] = {all->age.first, all->doubt.first};
    g_autoptr(GArray) pieces = g_array_new(FALSE, FALSE, sizeof(struct gpu_open_piece));

    gpu_open_begin(ledger, kind);
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        for (uint32_t index = lists[i]; index != GPU_NO_INDEX;
             index = gpu_request_at(all, index)->lists[GPU_LIST_AGE].next)
            gpu_open_add(ledger, gpu_request_at(all, index), kind, pieces);
    }
    gpu_open_add_pieces(pieces, ledger->begin_ns[kind]);
}

void
gpu_open_tell_over(struct vg_gpu_ledger *ledger, unsigned int books)
{
    const struct gpu_requests *all = &ledger->requests;

    for (uint32_t index = all->doubt.first; index != GPU_NO_INDEX;
         index = gpu_request_at(all, index)->lists[GPU_LIST_AGE].next)
        gpu_request_at(all, index)->told_books |= books & GPU_BOOKS_ALL;
    for (uint32_t index = all->passed.first; index != GPU_NO_INDEX;
         index = gpu_request_at(all, index)->lists[GPU_LIST_RING].next)
        gpu_request_at(all, index)->told_books |= books & GPU_BOOKS_ALL;
}

void
gpu_open_close(struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    const struct gpu_place place = gpu_life_place(ledger, request);
    const int64_t from_ns = ledger->begin_ns[GPU_BOOK_WINDOW];
    const int64_t until_ns = gpu_open_until(ledger, request, GPU_BOOK_WINDOW);
    const struct gpu_interval did = {gpu_open_since(request), until_ns};

    for (int i = 0; i < 2 && place.meters[i]; i++) {
        struct gpu_meter *meter = place.meters[i];
        struct gpu_book *window = &meter->books[GPU_BOOK_WINDOW];
        for (int kind = 0; kind < GPU_BOOKS; kind++)
            meter->books[kind].partial += !(request->told_books & 1U << kind);
        gpu_open_add_times(ledger, request, until_ns, from_ns, window->wait_ns, &window->exec_ns);
        if (request->state == GPU_STATE_RUNNING)
            meter->busy.sum_ns[GPU_BOOK_WINDOW] += gpu_union_more(&meter->busy, did, from_ns);
    }
    if (place.active)
        place.active->sum_ns[GPU_BOOK_WINDOW] += gpu_union_more(place.active, did, from_ns);
}
