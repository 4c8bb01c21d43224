/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "opencl/client/copier.h"

#define MOST    ((size_t)3 << 20)
#define COPIES  200
#define THREADS 3

static struct client_copier copier;

/* As on a machine with many processors. */
static int
set_up(void **state)
{
    (void)state;
    vg_wire_copier_begin(&copier);
    copier.is_refused = false;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    vg_wire_copier_end(&copier);
    return 0;
}

/* Copies by many sizes to and from any address. Returns how many are wrong. */
static unsigned
copy_and_compare(unsigned seed)
{
    unsigned char *from = malloc(MOST + 2), *to = malloc(MOST + 2);
    unsigned wrong = 0;

    for (size_t i = 0; i < MOST + 2; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13 ^ seed);
    for (unsigned n = 0; n < COPIES; n++) {
        seed = seed * 1664525 + 1013904223;
        const size_t size = n == 0 ? 0 : n % 4 == 0 ? (seed >> 12) % 1000 : (seed >> 4) % MOST;
        const size_t begin = seed & 1;
        memset(to, (int)(n & 0xff), size + 2);
        vg_wire_copier_copy(&copier, to + 1, from + begin, size);
        wrong += memcmp(to + 1, from + begin, size) != 0 || to[0] != (n & 0xff) ||
                 to[size + 1] != (n & 0xff);
        from[seed % MOST]++;
    }
    free(from);
    free(to);
    return wrong;
}

static void
test_copies_are_equal(void **state)
{
    (void)state;
    assert_int_equal(copy_and_compare(1), 0);
    assert_true(copier.has_thread);
}

static void *
copy_in_thread(void *data)
{
    *(unsigned *)data = copy_and_compare(*(unsigned *)data);
    return NULL;
}

static void
test_threads_copy_concurrently(void **state)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = 100 + i;
        assert_int_equal(pthread_create(&threads[i], NULL, copy_in_thread, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(seeds[i], 0);
    }
}

/* It has no second thread, and ends nevertheless. */
static void
test_a_forked_child_copies_alone(void **state)
{
    int status;

    (void)state;
    assert_int_equal(copy_and_compare(2), 0);
    pid_t pid = fork();
    if (pid == 0) {
        vg_wire_copier_is_forked(&copier);
        unsigned wrong = copy_and_compare(3);
        bool had_thread = copier.has_thread;
        vg_wire_copier_end(&copier);
        _exit(wrong || had_thread);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(copy_and_compare(4), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copies_are_equal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_copy_concurrently, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_forked_child_copies_alone, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
