/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is at the other side of a socket: a process of this one's own, or any other.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "opencl/proxy/peer.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int
listen_here(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s/vgpu-peer-%d", folder ? folder : "/tmp",
             (int)getpid());
    unlink(address.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/* Connects, and stays until the other side ends. */
static _Noreturn void
connect_and_stay(void)
{
    char byte;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        _exit(EXIT_FAILURE);
    ssize_t n = recv(fd, &byte, 1, 0);
    _exit(n == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
wait_for(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void
test_a_child_is_own(void **state)
{
    int listener = listen_here();
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        connect_and_stay();
    int fd = accept(listener, NULL, NULL);
    assert_true(vg_peer_is_own(fd, geteuid()));
    /* Also where clients are of another user. */
    assert_true(vg_peer_is_own(fd, geteuid() + 1));
    close(fd);
    wait_for(pid);
    close(listener);
    unlink(address.sun_path);
}

/* In a child, which is no parent of whom its own parent has made. */
static void
test_a_sibling_is_not(void **state)
{
    int listener = listen_here();
    pid_t judge = fork();

    (void)state;
    if (judge == 0) {
        int fd = accept(listener, NULL, NULL);
        bool is_own = vg_peer_is_own(fd, geteuid());
        close(fd);
        _exit(is_own ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    pid_t other = fork();
    if (other == 0)
        connect_and_stay();
    wait_for(judge);
    wait_for(other);
    close(listener);
    unlink(address.sun_path);
}

/* What was its parent cannot be found out: it may be one of the clients' user. */
static void
test_one_who_has_ended(void **state)
{
    int listener = listen_here();
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        _exit(connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? EXIT_SUCCESS
                                                                            : EXIT_FAILURE);
    }
    wait_for(pid);
    int fd = accept(listener, NULL, NULL);
    assert_true(vg_peer_is_own(fd, geteuid()));
    assert_false(vg_peer_is_own(fd, geteuid() + 1));
    close(fd);
    close(listener);
    unlink(address.sun_path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_is_own),
        cmocka_unit_test(test_a_sibling_is_not),
        cmocka_unit_test(test_one_who_has_ended),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
