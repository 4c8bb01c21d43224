/* SPDX-License-Identifier: Apache-2.0
 *
 * What `vgpuctl top` shows and what keys do to it, without a terminal, a clock or a daemon: looks
 * come in, rows in order come out. Figures are those of the time between the two newest looks that
 * differ, from the differences of the sums, or of all the time since vgpud started; the latter also
 * as long as there is only one look. One thread.
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
    char key;            /* sorts by it */
    bool text;           /* sorted from a to z, else most first */
};
extern const struct vg_top_column_info vg_top_columns[VG_TOP_COLUMN_MAX];

/* NAN: not known. Shares are in cores. */
struct vg_top_rates {
    double used;
    double guest; /* of used, 0..1 */
    double preempt;
    double wake_wait;
    double lost; /* both */
    double preemptions_per_s;
    double gpu_busy;   /* in engines */
    double gpu_wanted; /* part of the time, 0..1 */
};

struct vg_top_row {
    const struct vg_top_vm *vm; /* of the newest look */
    struct vg_top_rates rates;
    const char *culprit; /* who took most; of the VM; NULL: nobody */
    double culprit_lost; /* to it, in cores */
};

/* Somebody who took CPU time of a VM. */
struct vg_top_taker {
    const char *who; /* of the newest look */
    double lost;     /* in cores */
    double per_s;    /* preemptions */
};

enum vg_top_view { VG_TOP_LIST, VG_TOP_DETAIL, VG_TOP_HELP };

/* What is being typed. */
enum vg_top_typing { VG_TOP_NOT_TYPING, VG_TOP_TYPING_FILTER, VG_TOP_TYPING_DELAY };

enum vg_top_action {
    VG_TOP_NOTHING, /* but draw */
    VG_TOP_ASK,     /* look now, also while paused */
    VG_TOP_QUIT
};

struct vg_top_model {
    vg_top_look *base;   /* an older one of the same run of vgpud, or NULL */
    vg_top_look *newest; /* NULL: none yet */
    GArray *rows;        /* struct vg_top_row, in order */
    GArray *takers;      /* struct vg_top_taker of the VM of the detail, most first */
    enum vg_top_column sort;
    bool reverse;
    bool since_start;
    bool paused;
    enum vg_top_view view;
    enum vg_top_view back; /* from the help */
    char *selected;        /* id; NULL: whatever is first */
    int selected_row;
    int first_row; /* that is drawn */
    int page;      /* rows that were drawn */
    char *detail_id;
    char *detail_name;
    int detail_first; /* line that is drawn */
    int span;         /* of the history, an index */
    int help_first;   /* line that is drawn */
    enum vg_top_typing typing;
    GString *typed;
    char *filter;      /* part of the names that are shown, in lower case; NULL: all are */
    double interval_s; /* between two looks */
    bool wrong_typed;  /* what was typed last was no number of seconds */
    char *trouble;     /* why the last look failed, or NULL */
};

void vg_top_model_init(struct vg_top_model *model);
void vg_top_model_clear(struct vg_top_model *model);

/* A new look. While paused only the detail is taken from it, if it was waited for. */
void vg_top_model_take(struct vg_top_model *model, vg_top_look *take_look);

/* vgpud did not answer; what is known stays. */
void vg_top_model_fail(struct vg_top_model *model, const char *why);

/* key: a character, or an enum vg_key. */
enum vg_top_action vg_top_model_key(struct vg_top_model *model, int key);

/* The time that the figures are of, in nanoseconds; 0: there is none yet. */
int64_t vg_top_model_period_ns(const struct vg_top_model *model);

/* Is it the time since vgpud started? */
bool vg_top_model_is_since_start(const struct vg_top_model *model);

/* Events that recorders dropped in this time. */
int64_t vg_top_model_lost_events(const struct vg_top_model *model);

/* The row of the VM of the detail, or NULL. */
const struct vg_top_row *vg_top_model_detail_row(const struct vg_top_model *model);

/* The detail of the newest look, if it is of the right VM, or NULL. */
const struct vg_top_detail *vg_top_model_detail(const struct vg_top_model *model);

/* The rates of its vCPU number i; *ret_since_start: they are of all the time. */
void vg_top_model_vcpu(const struct vg_top_model *model, guint i, struct vg_top_rates *ret,
                       bool *ret_since_start);

/* Minutes of history that are wanted. */
int vg_top_model_span_min(const struct vg_top_model *model);

/* Of a column of numbers; NAN: not known. */
double vg_top_row_value(const struct vg_top_row *row, enum vg_top_column column);

#endif
