/* SPDX-License-Identifier: Apache-2.0
 *
 * VM exit reasons by class. The numbers are from arch/x86/include/uapi/asm/vmx.h (EXIT_REASON_*)
 * and svm.h (SVM_EXIT_*) of Linux. The names are from the VMX_EXIT_REASONS and SVM_EXIT_REASONS
 * tables there, which text traces use. KVM maps its MMIO space with EPT misconfigurations on Intel.
 * On AMD, MMIO and other page faults are both NPF and count as page faults.
 *
 * On arm64, a trap has the exception class of ESR_EL2 (arch/arm64/include/asm/esr.h, ESR_ELx_EC_*).
 * Any other exit has only KVM's code (arch/arm64/include/asm/kvm_asm.h, ARM_EXCEPTION_*). WFI and
 * WFE have the same class and count as halts. MMIO is a data abort and counts as a page fault.
 */
#include "config.h"

#include "model/exit-class.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include <glib.h>

#include "model/event.h"

#define ISA_VMX 1
#define ISA_SVM 2
#define ISA_ARM VG_EXIT_ISA_ARM

/* In a VMX reason, bit 31 means a failed entry, bits 27 to 30 are modifiers, and the rest
 * counts. */
#define VMX_BASIC_REASON_MASK 0xffffU

/* The lowest SVM reason that is neither a register access (0x00..0x3f) nor an exception. */
#define SVM_EXIT_INTR 0x60U

/* ARM_EXCEPTION_TRAP, and the bit in any exit code for a pending SError. */
#define ARM_TRAP        2U
#define ARM_WITH_SERROR (1U << 31)

struct reason {
    uint32_t number;
    enum vg_exit_class exit_class;
    const char *name; /* without the prefix "EXIT_" that some kernels add to SVM names */
};

static const struct reason vmx_reasons[] = {
    {1, VG_EXIT_INTERRUPT, "EXTERNAL_INTERRUPT"},
    {7, VG_EXIT_INTERRUPT, "INTERRUPT_WINDOW"},
    {7, VG_EXIT_INTERRUPT, "PENDING_INTERRUPT"}, /* its name until 5.6 */
    {8, VG_EXIT_INTERRUPT, "NMI_WINDOW"},
    {10, VG_EXIT_CPUID, "CPUID"},
    {12, VG_EXIT_HLT, "HLT"},
    {18, VG_EXIT_HYPERCALL, "VMCALL"},
    {30, VG_EXIT_IO, "IO_INSTRUCTION"},
    {31, VG_EXIT_MSR, "MSR_READ"},
    {32, VG_EXIT_MSR, "MSR_WRITE"},
    {40, VG_EXIT_PAUSE, "PAUSE_INSTRUCTION"},
    {44, VG_EXIT_MMIO, "APIC_ACCESS"},
    {48, VG_EXIT_PAGE_FAULT, "EPT_VIOLATION"},
    {49, VG_EXIT_MMIO, "EPT_MISCONFIG"},
    {52, VG_EXIT_PREEMPTION_TIMER, "PREEMPTION_TIMER"},
    {56, VG_EXIT_MMIO, "APIC_WRITE"},
};

static const struct reason svm_reasons[] = {
    {0x4e, VG_EXIT_PAGE_FAULT, "PF excp"},
    {0x60, VG_EXIT_INTERRUPT, "interrupt"},
    {0x60, VG_EXIT_INTERRUPT, "INTR"},
    {0x61, VG_EXIT_INTERRUPT, "nmi"},
    {0x64, VG_EXIT_INTERRUPT, "vintr"},
    {0x72, VG_EXIT_CPUID, "cpuid"},
    {0x77, VG_EXIT_PAUSE, "pause"},
    {0x78, VG_EXIT_HLT, "hlt"},
    {0x7b, VG_EXIT_IO, "io"},
    {0x7b, VG_EXIT_IO, "ioio"},
    {0x7c, VG_EXIT_MSR, "msr"},
    {0x81, VG_EXIT_HYPERCALL, "hypercall"},
    {0x81, VG_EXIT_HYPERCALL, "vmmcall"},
    {0x400, VG_EXIT_PAGE_FAULT, "npf"},
    {0x401, VG_EXIT_INTERRUPT, "avic_incomplete_ipi"},
    {0x402, VG_EXIT_MMIO, "avic_unaccelerated_access"},
};

static const struct reason arm_reasons[] = {
    {0x01, VG_EXIT_HLT, "WFx"},
    {0x03, VG_EXIT_MSR, "CP15_32"},
    {0x04, VG_EXIT_MSR, "CP15_64"},
    {0x05, VG_EXIT_MSR, "CP14_MR"},
    {0x06, VG_EXIT_MSR, "CP14_LS"},
    {0x08, VG_EXIT_MSR, "CP10_ID"},
    {0x0c, VG_EXIT_MSR, "CP14_64"},
    {0x12, VG_EXIT_HYPERCALL, "HVC32"},
    {0x13, VG_EXIT_HYPERCALL, "SMC32"},
    {0x16, VG_EXIT_HYPERCALL, "HVC64"},
    {0x17, VG_EXIT_HYPERCALL, "SMC64"},
    {0x18, VG_EXIT_MSR, "SYS64"},
    {0x20, VG_EXIT_PAGE_FAULT, "IABT_LOW"},
    {0x24, VG_EXIT_PAGE_FAULT, "DABT_LOW"},
    {VG_EXIT_ARM_NO_TRAP + 0, VG_EXIT_INTERRUPT, "IRQ"},
};

static const char *const class_names[VG_EXIT_CLASS_MAX] = {
    [VG_EXIT_HLT] = "hlt",
    [VG_EXIT_IO] = "io",
    [VG_EXIT_MMIO] = "mmio",
    [VG_EXIT_PAGE_FAULT] = "page-fault",
    [VG_EXIT_INTERRUPT] = "interrupt",
    [VG_EXIT_MSR] = "msr",
    [VG_EXIT_CPUID] = "cpuid",
    [VG_EXIT_HYPERCALL] = "hypercall",
    [VG_EXIT_PREEMPTION_TIMER] = "preemption-timer",
    [VG_EXIT_PAUSE] = "pause",
    [VG_EXIT_OTHER] = "other",
};

static enum vg_exit_class
find_number(const struct reason *reasons, size_t n, uint32_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (reasons[i].number == number)
            return reasons[i].exit_class;
    }
    return VG_EXIT_OTHER;
}

static bool
find_name(const struct reason *reasons, size_t n, const char *name, enum vg_exit_class *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(reasons[i].name, name) == 0) {
            *ret = reasons[i].exit_class;
            return true;
        }
    }
    return false;
}

uint32_t
vg_exit_reason_of_arm(uint32_t code, uint32_t exception_class)
{
    code &= ~ARM_WITH_SERROR;
    return code == ARM_TRAP ? exception_class : VG_EXIT_ARM_NO_TRAP + code;
}

enum vg_exit_class
vg_exit_class_of(uint32_t isa, uint32_t reason)
{
    if (isa == ISA_ARM)
        return find_number(arm_reasons, G_N_ELEMENTS(arm_reasons), reason);
    /* Without isa, the values decide: VMX reasons end far below the first asynchronous SVM exit. */
    bool svm = isa == ISA_SVM || (isa != ISA_VMX && reason >= SVM_EXIT_INTR && reason <= 0xffff);
    if (svm)
        return find_number(svm_reasons, G_N_ELEMENTS(svm_reasons), reason);
    return find_number(vmx_reasons, G_N_ELEMENTS(vmx_reasons), reason & VMX_BASIC_REASON_MASK);
}

enum vg_exit_class
vg_exit_class_of_name(const char *name)
{
    enum vg_exit_class exit_class;

    if (strncasecmp(name, "EXIT_", 5) == 0)
        name += 5;
    if (find_name(vmx_reasons, G_N_ELEMENTS(vmx_reasons), name, &exit_class) ||
        find_name(svm_reasons, G_N_ELEMENTS(svm_reasons), name, &exit_class) ||
        find_name(arm_reasons, G_N_ELEMENTS(arm_reasons), name, &exit_class))
        return exit_class;
    return VG_EXIT_OTHER;
}

const char *
vg_exit_class_name(enum vg_exit_class exit_class)
{
    return class_names[exit_class];
}
