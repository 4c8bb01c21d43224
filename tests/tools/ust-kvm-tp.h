/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracepoints of a program, with the names and fields that perf has for those of KVM.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kvm
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/tools/ust-kvm-tp.h"

#ifdef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
# undef VG_TESTS_TOOLS_UST_KVM_TP_H
#endif

#ifndef VG_TESTS_TOOLS_UST_KVM_TP_H
# define VG_TESTS_TOOLS_UST_KVM_TP_H

# include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(kvm, kvm_entry,
    LTTNG_UST_TP_ARGS(unsigned int, vcpu_id),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned int, vcpu_id, vcpu_id)))

LTTNG_UST_TRACEPOINT_EVENT(kvm, kvm_exit,
    LTTNG_UST_TP_ARGS(unsigned int, exit_reason, unsigned int, isa),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(unsigned int, exit_reason, exit_reason)
        lttng_ust_field_integer(unsigned int, isa, isa)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
