/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's verifier takes the BPF programs for every processor: what is set before loading says
 * whose exits are read, and the verifier leaves out what that makes unreachable. So on a machine
 * without KVM, or with one processor, most of vg_kvm_exit() would never be looked at.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>
#include <cmocka.h>
#include <glib.h>

#include "collectors/bpf-shared.h"
#include "collectors/vcpu.skel.h"

/* What the verifier says at last is the reason; cmocka prints no more than 1 KiB. */
static char said[800];

static int G_GNUC_PRINTF(2, 0) keep(enum libbpf_print_level level, const char *format, va_list args)
{
    static char text[1 << 20];

    if (level != LIBBPF_WARN)
        return 0;
    int length = vsnprintf(text, sizeof(text), format, args);
    size_t have = strnlen(text, sizeof(text));
    if (strstr(text, "PROG LOAD LOG"))
        g_strlcpy(said, have < sizeof(said) ? text : text + have + 1 - sizeof(said), sizeof(said));
    return length;
}

/* The places are some that there may be: the verifier does not know what is there. */
static int
load(uint32_t isa, uint32_t pointer_offset, bool in_arguments)
{
    struct vcpu_bpf *skeleton = vcpu_bpf__open();

    if (!skeleton)
        return -errno;
    skeleton->rodata->has_prev_state = true;
    skeleton->rodata->exit_isa = isa;
    skeleton->rodata->exit_pointer_offset = pointer_offset;
    skeleton->rodata->exit_offset = 112;
    skeleton->rodata->exit_in_arguments = in_arguments;
    bpf_map__set_max_entries(skeleton->maps.cpus, (uint32_t)libbpf_num_possible_cpus());
    int status = vcpu_bpf__load(skeleton);
    vcpu_bpf__destroy(skeleton);
    return status;
}

static void
test_every_processor(void **state)
{
    (void)state;
    libbpf_set_print(keep);
    /* Without KVM. Who may not load them gets EPERM; the verifier says EACCES or EINVAL. */
    int status = load(0, 0, false);
    if (status == -EPERM || status == -ENOSYS || status == -ESRCH) {
        print_message("BPF programs cannot be loaded here: %s\n", strerror(-status));
        skip();
    }
    for (uint32_t isa = 0; isa <= 2; isa++) {
        for (int in_arguments = 0; in_arguments <= 1; in_arguments++) {
            status = load(isa, isa == 2 ? 6000 : 0, in_arguments);
            if (status != 0)
                fail_msg("isa %u, reason in the arguments %d: %s\n%s", isa, in_arguments,
                         strerror(-status), said);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_processor),
    };
    return cmocka_run_group_tests_name("bpf-verify", tests, NULL, NULL);
}
