/* SPDX-License-Identifier: Apache-2.0
 *
 * The reasons of VM exits on arm64. The tracepoint has no `isa` there, and two numbers instead of a
 * reason. The classes of reasons are in model/event.h.
 */
#ifndef VG_MODEL_EXIT_CLASS_H
#define VG_MODEL_EXIT_CLASS_H

#include <stdint.h>

/* The isa for vg_exit_class_of(), after VMX and SVM. */
#define VG_EXIT_ISA_ARM 3U
/* Reasons from this number on mean exits without a trap. */
#define VG_EXIT_ARM_NO_TRAP 0x400U

/* Returns the reason of an exit: the exception class of a trap, otherwise VG_EXIT_ARM_NO_TRAP plus
 * KVM's code. The arguments are the tracepoint's, `ret` and `esr_ec`. */
uint32_t vg_exit_reason_of_arm(uint32_t code, uint32_t exception_class);

#endif
