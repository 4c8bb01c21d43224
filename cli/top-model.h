/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of `vgpuctl top` and the effect of keys, without a terminal, a clock or a daemon: its
 * input is samples, its output is sorted rows. Figures come from the differences of sums. They
 * cover the time between the two newest distinct samples, or the entire time since vgpud started;
 * if there is only one sample, always the latter. One thread.
 */
#ifndef VG_CLI_TOP_MODEL_H
#define VG_CLI_TOP_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "cli/top-look.h"

enum vg_top_column {
    VG_TOP_VM,
    VG_TOP_CLASS,
    VG_TOP_USED,
    VG_TOP_LOST,
    VG_TOP_PREEMPTIONS,
    VG_TOP_CULPRIT,
    VG_TOP_GUEST,
    VG_TOP_GPU,
    VG_TOP_GPU_BUSY,
    VG_TOP_SOURCE,
    VG_TOP_COLUMN_MAX
};

struct vg_top_column_info {
    const char *header;
    const char *meaning; /* half a sentence */
    char key;            /* key that sorts by it */
    bool text;           /* sorted alphabetically; otherwise in descending order */
};
extern const struct vg_top_column_info vg_top_columns[VG_TOP_COLUMN_MAX];

/* Shares are in cores; NAN if not known. */
struct vg_top_rates {
    double used;
    double guest; /* part of used, 0..1 */
    double preempt;
    double wake_wait;
    double lost; /* sum of both */
    double preemptions_per_s;
    double gpu_busy;   /* in engines */
    double gpu_wanted; /* fraction of the time, 0..1 */
};

struct vg_top_row {
    const struct vg_top_vm *vm; /* from the newest sample */
    struct vg_top_rates rates;
    const char *culprit; /* main aggressor; owned by the VM; NULL if none */
    double culprit_lost; /* lost to it, in cores */
};

/* An aggressor that took CPU time from a VM. */
struct vg_top_taker {
    const char *who; /* from the newest sample */
    double lost;     /* in cores */
    double per_s;    /* preemptions */
};

enum vg_top_view { VG_TOP_LIST, VG_TOP_DETAIL, VG_TOP_HELP };

/* The current text input. */
enum vg_top_typing { VG_TOP_NOT_TYPING, VG_TOP_TYPING_FILTER, VG_TOP_TYPING_DELAY };

enum vg_top_action {
    VG_TOP_NOTHING, /* nothing except drawing */
    VG_TOP_ASK,     /* query now, even while paused */
    VG_TOP_QUIT
};

struct vg_top_model {
    vg_top_look *base;   /* an older sample of the same vgpud process, or NULL */
    vg_top_look *newest; /* NULL if none yet */
    GArray *rows;        /* struct vg_top_row, in order */
    GArray *takers;      /* struct vg_top_taker of the detailed VM, descending */
    enum vg_top_column sort;
    bool reverse;
    bool since_start;
    bool paused;
    enum vg_top_view view;
    enum vg_top_view back; /* to return to from the help */
    char *selected;        /* id; NULL for the first row */
    int selected_row;
    int first_row; /* first row displayed */
    int page;      /* number of rows displayed */
    char *detail_id;
    char *detail_name;
    int detail_first; /* first line displayed */
    int span;         /* of the history, an index */
    int help_first;   /* first line displayed */
    enum vg_top_typing typing;
    GString *typed;
    char *filter;      /* text that names must contain, in lower case; NULL for all */
    double interval_s; /* between two samples */
    bool wrong_typed;  /* the last input was not a number of seconds */
    char *trouble;     /* why the last query failed, or NULL */
};

void vg_top_model_init(struct vg_top_model *model);
void vg_top_model_clear(struct vg_top_model *model);

/* Takes a new sample. While paused, uses only its details if they were requested. */
void vg_top_model_take(struct vg_top_model *model, vg_top_look *take_look);

/* vgpud did not answer; the known data remain. */
void vg_top_model_fail(struct vg_top_model *model, const char *why);

/* key: a character, or an enum vg_key. */
enum vg_top_action vg_top_model_key(struct vg_top_model *model, int key);

/* Returns the duration that the figures cover, in nanoseconds, or 0 if unknown. */
int64_t vg_top_model_period_ns(const struct vg_top_model *model);

/* Returns whether this duration is the time since vgpud started. */
bool vg_top_model_is_since_start(const struct vg_top_model *model);

/* Returns the number of events that recorders dropped in this time. */
int64_t vg_top_model_lost_events(const struct vg_top_model *model);

/* Returns the row of the detailed VM, or NULL. */
const struct vg_top_row *vg_top_model_detail_row(const struct vg_top_model *model);

/* Returns the newest sample's details if they are for the right VM, or NULL. */
const struct vg_top_detail *vg_top_model_detail(const struct vg_top_model *model);

/* Returns the rates of its vCPU number i. *ret_since_start: they cover the entire time. */
void vg_top_model_vcpu(const struct vg_top_model *model, guint i, struct vg_top_rates *ret,
                       bool *ret_since_start);

/* Returns the requested minutes of history. */
int vg_top_model_span_min(const struct vg_top_model *model);

/* Returns a numeric column's value; NAN if not known. */
double vg_top_row_value(const struct vg_top_row *row, enum vg_top_column column);

#endif
