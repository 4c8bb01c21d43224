/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios for the tests of the GPU-scheduler simulator, and what is asked of a run.
 */
#ifndef VG_TESTS_GPUSCHED_CASES_H
#define VG_TESTS_GPUSCHED_CASES_H

#include "policy/gpusched.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

/* A run to its end: its records in order, and its figures. */
struct gpusched_run {
    const struct vg_gpusched_scenario *scenario;
    GArray *records; /* struct vg_gpusched_record */
    struct vg_gpusched_result *result;
};

/* 10 s, without a VM. */
struct vg_gpusched_scenario *gpusched_make(enum vg_gpusched_mode mode);

/* A VM that was there long before: without the priority of a start, with `depth` requests of one
 * size always there; size 0: no work. */
struct vg_gpusched_vm *gpusched_add(struct vg_gpusched_scenario *scenario, const char *name,
                                    uint32_t weight, int64_t size_ns, uint32_t depth);
void gpusched_add_job(struct vg_gpusched_vm *vm, uint8_t engine, int64_t size_ns, uint32_t depth);
void gpusched_add_request(struct vg_gpusched_vm *vm, uint8_t engine, int64_t arrival_ns,
                          int64_t size_ns);

/* Runs it, and checks on the way all that holds for every run: the life of each request, that
 * engines run one request at a time, that records and figures agree, that nothing is lost. */
struct gpusched_run *gpusched_run(const struct vg_gpusched_scenario *scenario);
void gpusched_run_free(struct gpusched_run *run);

const struct vg_gpusched_figures *gpusched_figures(const struct gpusched_run *run, uint32_t vm,
                                                   uint8_t engine);

/* Part of the time from begin to end in which requests of the VM ran on the engine. */
double gpusched_share(const struct gpusched_run *run, uint32_t vm, uint8_t engine, int64_t begin_ns,
                      int64_t end_ns);

/* The time of record i of this kind of the VM, counted from 0; -1: there are not so many. */
int64_t gpusched_time_of(const struct gpusched_run *run, enum vg_gpusched_kind kind, uint32_t vm,
                         unsigned int i);

void gpusched_assert_near(double value, double wanted, double tolerance);

typedef struct gpusched_run gpusched_run_t;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(gpusched_run_t, gpusched_run_free)

#endif
