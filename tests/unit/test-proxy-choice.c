/* SPDX-License-Identifier: Apache-2.0
 *
 * Which socket of a vgpu-proxy the programs of a VM continue at, if any.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "move/proxy-choice.h"

#define UUID "00000000-0000-4000-8000-00000000000a"

static void
add(struct vg_proxy_choice *choice, const char *vm, const char *gpu, const char *address)
{
    struct vg_proxy_socket *socket = vg_record_new(&vg_proxy_socket_record);

    socket->socket = g_strdup(address);
    socket->proxy = g_strdup("/run/proxy");
    socket->vm = g_strdup(vm);
    socket->gpu = g_strdup(gpu);
    socket->gpu_name = g_strdup(gpu[0] ? "H200" : "");
    socket->address = g_strdup(address);
    g_ptr_array_add(choice->sockets, socket);
}

static struct vg_proxy_choice
begin(bool is_far)
{
    return (struct vg_proxy_choice){g_ptr_array_new_with_free_func(vg_proxy_socket_free),
                                    g_strdup("h2"), g_strdup("host 'h2'"), is_far};
}

/* Chooses, and checks the place, or the error and a part of its text. */
static void
choose(struct vg_proxy_choice *choice, const char *to, int code, const char *text)
{
    struct vg_proxy_move *move = vg_record_new(&vg_proxy_move_record);
    g_autoptr(GError) error = NULL;

    const int status = vg_proxy_choice_choose(choice, "vm1", UUID, move, &error);
    assert_int_equal(status, to ? 0 : -1);
    if (to) {
        assert_string_equal(move->to, to);
        assert_string_equal(move->host, "h2");
    } else {
        assert_true(g_error_matches(error, VG_ERROR, code));
        assert_non_null(strstr(error->message, text));
    }
    vg_record_free(&vg_proxy_move_record, move);
    vg_proxy_choice_clear(choice);
}

static void
test_one(void **state)
{
    struct vg_proxy_choice choice = begin(true);

    (void)state;
    add(&choice, "vm2", "0000:41:00.0", "tcp:h2:7001");
    add(&choice, "vm1", "0000:41:00.0", "tcp:h2:7002");
    choose(&choice, "proxy:tcp:h2:7002", 0, NULL);
}

static void
test_uuid_in_capitals(void **state)
{
    struct vg_proxy_choice choice = begin(false);

    (void)state;
    add(&choice, "00000000-0000-4000-8000-00000000000A", "", "vsock:2:7001");
    choose(&choice, "proxy:vsock:2:7001", 0, NULL);
}

static void
test_several(void **state)
{
    struct vg_proxy_choice choice = begin(true);

    (void)state;
    add(&choice, "vm1", "0000:41:00.0", "tcp:h2:7001");
    add(&choice, "vm1", "0000:42:00.0", "tcp:h2:7002");
    choose(&choice, NULL, VG_E_CONFLICT, "tcp:h2:7001 (GPU 0000:41:00.0), tcp:h2:7002");
    choice = begin(true);
    add(&choice, "vm1", "0000:41:00.0", "tcp:h2:7001");
    add(&choice, "vm1", "0000:42:00.0", "tcp:h2:7002");
    assert_true(vg_proxy_choice_has_gpu(choice.sockets, "0000:42:00.0"));
    assert_int_equal(vg_proxy_choice_keep_gpu(&choice, "0000:42:00.0", NULL), 0);
    choose(&choice, "proxy:tcp:h2:7002", 0, NULL);
}

static void
test_none(void **state)
{
    struct vg_proxy_choice choice = begin(true);
    g_autoptr(GError) error = NULL;

    (void)state;
    add(&choice, "vm2", "0000:41:00.0", "tcp:h2:7001");
    assert_int_equal(vg_proxy_choice_keep_gpu(&choice, "A100", &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
    choose(&choice, NULL, VG_E_REFUSED, "there are sockets for vm2");
}

/* A socket that only programs of its own host reach serves no other host's. */
static void
test_unreached(void **state)
{
    struct vg_proxy_choice choice = begin(true);

    (void)state;
    add(&choice, "vm1", "0000:41:00.0", "vsock:2:7001");
    choose(&choice, NULL, VG_E_REFUSED, "vsock:2:7001: its address must be tcp:");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),       cmocka_unit_test(test_uuid_in_capitals),
        cmocka_unit_test(test_several),   cmocka_unit_test(test_none),
        cmocka_unit_test(test_unreached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
