/* SPDX-License-Identifier: Apache-2.0
 *
 * What numbers of the kernel mean. Expectations come from the kernel's headers:
 * arch/x86/include/uapi/asm/{vmx,svm}.h for exits; include/linux/sched.h and
 * include/trace/events/sched.h for task states (TASK_PARKED came with 3.9, TASK_NOLOAD with 4.2,
 * TASK_NEW with 4.8; each moved TASK_STATE_MAX one bit up; 4.14 reports TASK_REPORT_MAX instead).
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Where the machine has the kernel's own tables of names, all of them are tried. */
#if __has_include(<asm/vmx.h>) && __has_include(<asm/svm.h>) && __has_include(<asm/kvm.h>)
/* clang-format off: kvm.h defines the vectors that svm.h uses */
# include <asm/kvm.h>
# include <asm/svm.h>
# include <asm/vmx.h>
/* clang-format on */
# define HAVE_EXIT_TABLES 1
#endif

#include <glib.h>

#include "model/event.h"
#include "model/exit-class.h"

#define ISA_UNKNOWN 0
#define ISA_VMX     1
#define ISA_SVM     2
#define ISA_ARM     3

struct exit_case {
    uint32_t reason;
    const char *name;
    enum vg_exit_class exit_class;
};

static const struct exit_case vmx_cases[] = {
    {1, "EXTERNAL_INTERRUPT", VG_EXIT_INTERRUPT},
    {2, "TRIPLE_FAULT", VG_EXIT_OTHER},
    {9, "TASK_SWITCH", VG_EXIT_OTHER},
    {10, "CPUID", VG_EXIT_CPUID},
    {12, "HLT", VG_EXIT_HLT},
    {14, "INVLPG", VG_EXIT_OTHER},
    {18, "VMCALL", VG_EXIT_HYPERCALL},
    {28, "CR_ACCESS", VG_EXIT_OTHER},
    {30, "IO_INSTRUCTION", VG_EXIT_IO},
    {31, "MSR_READ", VG_EXIT_MSR},
    {32, "MSR_WRITE", VG_EXIT_MSR},
    {40, "PAUSE_INSTRUCTION", VG_EXIT_PAUSE},
    {48, "EPT_VIOLATION", VG_EXIT_PAGE_FAULT},
    {49, "EPT_MISCONFIG", VG_EXIT_MMIO}, /* KVM marks MMIO pages so */
    {52, "PREEMPTION_TIMER", VG_EXIT_PREEMPTION_TIMER},
    {54, "WBINVD", VG_EXIT_OTHER},
    {55, "XSETBV", VG_EXIT_OTHER},
};

static const struct exit_case svm_cases[] = {
    {0x000, "read_cr0", VG_EXIT_OTHER},
    {0x04e, "PF excp", VG_EXIT_PAGE_FAULT},
    {0x060, "interrupt", VG_EXIT_INTERRUPT},
    {0x06e, "rdtsc", VG_EXIT_OTHER},
    {0x072, "cpuid", VG_EXIT_CPUID},
    {0x077, "pause", VG_EXIT_PAUSE},
    {0x078, "hlt", VG_EXIT_HLT},
    {0x07b, "io", VG_EXIT_IO},
    {0x07c, "msr", VG_EXIT_MSR},
    {0x07f, "shutdown", VG_EXIT_OTHER},
    {0x081, "hypercall", VG_EXIT_HYPERCALL},
    {0x400, "npf", VG_EXIT_PAGE_FAULT},
};

/* Classes of arch/arm64/include/asm/esr.h, and codes of kvm_asm.h behind 0x400. */
static const struct exit_case arm_cases[] = {
    {0x00, "UNKNOWN", VG_EXIT_OTHER},       {0x01, "WFx", VG_EXIT_HLT},
    {0x03, "CP15_32", VG_EXIT_MSR},         {0x07, "FP_ASIMD", VG_EXIT_OTHER},
    {0x16, "HVC64", VG_EXIT_HYPERCALL},     {0x17, "SMC64", VG_EXIT_HYPERCALL},
    {0x18, "SYS64", VG_EXIT_MSR},           {0x20, "IABT_LOW", VG_EXIT_PAGE_FAULT},
    {0x24, "DABT_LOW", VG_EXIT_PAGE_FAULT}, {0x30, "BREAKPT_LOW", VG_EXIT_OTHER},
    {0x400, "IRQ", VG_EXIT_INTERRUPT},      {0x401, "SERROR", VG_EXIT_OTHER},
};

/* As trace-cmd's plugin prints them. */
static const struct exit_case svm_plugin_names[] = {
    {0x060, "EXIT_INTR", VG_EXIT_INTERRUPT},    {0x072, "EXIT_CPUID", VG_EXIT_CPUID},
    {0x077, "EXIT_PAUSE", VG_EXIT_PAUSE},       {0x078, "EXIT_HLT", VG_EXIT_HLT},
    {0x07b, "EXIT_IOIO", VG_EXIT_IO},           {0x07c, "EXIT_MSR", VG_EXIT_MSR},
    {0x081, "EXIT_VMMCALL", VG_EXIT_HYPERCALL}, {0x400, "EXIT_NPF", VG_EXIT_PAGE_FAULT},
};

static void
check_cases(uint32_t isa, const struct exit_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (vg_exit_class_of(isa, cases[i].reason) != cases[i].exit_class)
            fail_msg("isa %u reason %#x (%s)", isa, cases[i].reason, cases[i].name);
        if (vg_exit_class_of_name(cases[i].name) != cases[i].exit_class)
            fail_msg("%s", cases[i].name);
    }
}

static void
test_exit_classes(void **state)
{
    (void)state;
    check_cases(ISA_VMX, vmx_cases, G_N_ELEMENTS(vmx_cases));
    check_cases(ISA_SVM, svm_cases, G_N_ELEMENTS(svm_cases));
    check_cases(ISA_ARM, arm_cases, G_N_ELEMENTS(arm_cases));
    check_cases(ISA_SVM, svm_plugin_names, G_N_ELEMENTS(svm_plugin_names));
}

static void
test_odd_exits(void **state)
{
    (void)state;
    for (uint32_t isa = 0; isa < 4; isa++)
        assert_int_equal(vg_exit_class_of(isa, UINT32_MAX), VG_EXIT_OTHER);
    /* The upper half of a VMX reason holds flags: bus lock (26), failed entry (31). */
    assert_int_equal(vg_exit_class_of(ISA_VMX, (1u << 26) | 12), VG_EXIT_HLT);
    assert_int_equal(vg_exit_class_of(ISA_VMX, (1u << 31) | 33), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of(ISA_VMX, 200), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of(ISA_SVM, 0x500), VG_EXIT_OTHER);
    /* 12 and 0x78 are the halts of the two; neither may be taken for the other's. */
    assert_int_equal(vg_exit_class_of(ISA_SVM, 12), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of(ISA_VMX, 0x78), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of_name(""), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of_name("EXIT_"), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of_name("HLTX"), VG_EXIT_OTHER);
    assert_int_equal(vg_exit_class_of_name("UNKNOWN"), VG_EXIT_OTHER);
    /* One reason, two names: renamed in 5.6. */
    assert_int_equal(vg_exit_class_of_name("PENDING_INTERRUPT"), vg_exit_class_of(ISA_VMX, 7));
    assert_int_equal(vg_exit_class_of_name("INTERRUPT_WINDOW"), vg_exit_class_of(ISA_VMX, 7));
}

/* The code says whether there is a class. Bit 31 of any code is a pending SError. */
static void
test_arm_reasons(void **state)
{
    (void)state;
    assert_int_equal(vg_exit_reason_of_arm(2, 0x24), 0x24);
    assert_int_equal(vg_exit_reason_of_arm(1u << 31 | 2, 0x16), 0x16);
    assert_int_equal(vg_exit_reason_of_arm(0, 0x24), 0x400);
    assert_int_equal(vg_exit_reason_of_arm(1u << 31, 0), 0x400);
    assert_int_equal(vg_exit_reason_of_arm(1, 0), 0x401);
    /* HYP_GONE */
    assert_int_equal(vg_exit_class_of(ISA_ARM, vg_exit_reason_of_arm(0xbadca11, 0)), VG_EXIT_OTHER);
    /* The numbers of x86 mean something else. */
    assert_int_equal(vg_exit_class_of(ISA_ARM, 12), VG_EXIT_MSR);
    assert_int_equal(vg_exit_class_of(ISA_ARM, 0x78), VG_EXIT_OTHER);
}

static void
test_names_and_numbers_agree(void **state)
{
    (void)state;
#ifdef HAVE_EXIT_TABLES
    static const struct {
        uint32_t reason;
        const char *name;
    } vmx[] = {VMX_EXIT_REASONS}, svm[] = {SVM_EXIT_REASONS};
    for (size_t i = 0; i < G_N_ELEMENTS(vmx); i++)
        if (vg_exit_class_of(ISA_VMX, vmx[i].reason) != vg_exit_class_of_name(vmx[i].name))
            fail_msg("VMX %u %s", vmx[i].reason, vmx[i].name);
    for (size_t i = 0; i < G_N_ELEMENTS(svm); i++)
        if (vg_exit_class_of(ISA_SVM, svm[i].reason) != vg_exit_class_of_name(svm[i].name))
            fail_msg("SVM %#x %s", svm[i].reason, svm[i].name);
#else
    print_message("# the headers here have no tables of exit reasons for x86\n");
    skip();
#endif
}

static void
test_class_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "hlt",   "io",    "mmio",      "page-fault",       "interrupt",
        "msr",   "cpuid", "hypercall", "preemption-timer", "pause",
        "other",
    };
    assert_int_equal(G_N_ELEMENTS(names), VG_EXIT_CLASS_MAX);
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++)
        assert_string_equal(vg_exit_class_name((enum vg_exit_class)i), names[i]);
}

/* ---- task states ---- */

static void
test_state_max_bit(void **state)
{
    (void)state;
    static const struct {
        const char *release;
        int64_t bit;
    } cases[] = {
        {"3.2.0-4-amd64", 0x200},
        {"3.7.10", 0x200},
        {"3.9.0", 0x400},
        {"3.10.0-1160.el7.x86_64", 0x400},
        {"3.13.0-24-generic", 0x400},
        {"4.1.12-124.16.4.el7uek.x86_64", 0x400},
        {"4.2.0", 0x800},
        {"4.4.0-21-generic", 0x800},
        {"4.7.10", 0x800},
        {"4.8.0-22-generic", 0x1000},
        {"4.13.16", 0x1000},
        {"4.14.0", 0x100},
        {"4.15.0-20-generic", 0x100},
        {"5.10.0-28-amd64", 0x100},
        {"6.1.0-18-amd64", 0x100},
        {"6.14", 0x100},
        {"10.0.0", 0x100},
        {NULL, 0x100},
        {"", 0x100},
        {"-", 0x100},
        {"generic", 0x100},
        {"99999999999999999999.1", 0x100},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (vg_state_max_bit(cases[i].release) != cases[i].bit)
            fail_msg("%s: %#x", cases[i].release ? cases[i].release : "NULL",
                     (unsigned)vg_state_max_bit(cases[i].release));
}

static void
test_shifted_releases(void **state)
{
    (void)state;
    static const char *const may[] = {"4.14.3", "4.15.0-20-generic", "4.19.0-6-amd64",
                                      NULL,     "generic",           ""};
    static const char *const never[] = {"3.13.0-24-generic", "4.13.16", "5.0.0-13-generic",
                                        "6.1.0-18-amd64", "10.15.0"};
    for (size_t i = 0; i < G_N_ELEMENTS(may); i++)
        assert_true(vg_state_may_be_shifted(may[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(never); i++)
        assert_false(vg_state_may_be_shifted(never[i]));
}

static void
test_prev_state(void **state)
{
    (void)state;
    static const struct {
        int64_t max_bit;
        int64_t prev_state;
        enum vg_prev_state meaning;
    } cases[] = {
        {0x100, 0, VG_PREV_RUNNABLE},     {0x100, 0x100, VG_PREV_RUNNABLE}, /* R+ */
        {0x100, 0x01, VG_PREV_BLOCKED},                                     /* S */
        {0x100, 0x02, VG_PREV_BLOCKED},                                     /* D */
        {0x100, 0x04, VG_PREV_BLOCKED},                                     /* T */
        {0x100, 0x08, VG_PREV_BLOCKED},                                     /* t */
        {0x100, 0x10, VG_PREV_EXITED},                                      /* X */
        {0x100, 0x20, VG_PREV_EXITED},                                      /* Z */
        {0x100, 0x40, VG_PREV_BLOCKED}, /* P: before 4.14 this was TASK_DEAD */
        {0x100, 0x80, VG_PREV_BLOCKED}, /* I */
        {0x200, 0, VG_PREV_RUNNABLE},     {0x200, 0x200, VG_PREV_RUNNABLE},
        {0x200, 0x01, VG_PREV_BLOCKED},   {0x200, 0x40, VG_PREV_EXITED},
        {0x200, 0x82, VG_PREV_BLOCKED},                                    /* TASK_KILLABLE */
        {0x400, 0x400, VG_PREV_RUNNABLE}, {0x400, 0x200, VG_PREV_BLOCKED}, /* TASK_PARKED */
        {0x400, 0x40, VG_PREV_EXITED},    {0x400, 0x10, VG_PREV_EXITED},
        {0x400, 0x20, VG_PREV_EXITED},    {0x800, 0x800, VG_PREV_RUNNABLE},
        {0x800, 0x402, VG_PREV_BLOCKED}, /* TASK_IDLE */
        {0x800, 0x40, VG_PREV_EXITED},    {0x1000, 0x1000, VG_PREV_RUNNABLE},
        {0x1000, 0x402, VG_PREV_BLOCKED}, {0x1000, 0x40, VG_PREV_EXITED},
        {0x1000, 0x84, VG_PREV_BLOCKED}, /* TASK_STOPPED */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (vg_prev_state_of(cases[i].prev_state, cases[i].max_bit) != cases[i].meaning)
            fail_msg("prev_state %#x, max bit %#x", (unsigned)cases[i].prev_state,
                     (unsigned)cases[i].max_bit);
}

/* It crosses queues and sockets as bytes. */
static void
test_event_is_small_and_flat(void **state)
{
    (void)state;
    assert_true(sizeof(struct vg_event) <= 72);
    assert_int_equal(offsetof(struct vg_event, ts_ns), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_classes),
        cmocka_unit_test(test_arm_reasons),
        cmocka_unit_test(test_odd_exits),
        cmocka_unit_test(test_names_and_numbers_agree),
        cmocka_unit_test(test_class_names),
        cmocka_unit_test(test_state_max_bit),
        cmocka_unit_test(test_shifted_releases),
        cmocka_unit_test(test_prev_state),
        cmocka_unit_test(test_event_is_small_and_flat),
    };
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
