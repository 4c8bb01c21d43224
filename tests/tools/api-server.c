/* SPDX-License-Identifier: Apache-2.0
 *
 * The API with a made-up daemon behind it, for tests and benchmarks: three VMs (or N), samples that
 * follow from their time, plans in memory. Serves until SIGTERM.
 *     api-server --socket PATH [--mode OCTAL] [--vms N] [--gpu-vms N] [--event-ms N] [--view-ms N]
 *                [--job-ms N] [--job-wait-ms N] [--hung PATH] [--connections N] [--streams N]
 *                [--client-streams N] [--body N] [--idle-ms N] [--heartbeat-ms N] [--writes N]
 *                [--not-ready] [--churn] [--events N]
 *                [--fault NAME] [--without plans|moves] [--list-routes]
 * While there is a file PATH, hosts whose names begin with "hung" do not answer. The first VM, or
 * --gpu-vms of them, use a GPU. --churn: of the N VMs some are there, and others in the next
 * window. Faults: those of api-faults.h; expired and revoked, whose tokens let in.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"
#include "tests/tools/api-faults.h"
#include "tests/tools/fake-backend.h"

struct options {
    const char *socket;
    const char *group;
    unsigned mode;
    int64_t event_ms, view_ms, events, job_wait_ms, heartbeat_ms;
    struct fake_options fake;
    struct vg_api_limits limits;
    bool list_routes;
    const char *listen[8];
    const char *certificate, *key, *client_ca;
    bool client_required;
    const char *fault;
};

static void
list_routes(void)
{
    for (size_t i = 0; i < vg_n_routes; i++) {
        const struct vg_route *route = &vg_routes[i];
        g_autofree char *method = g_ascii_strup(vg_method_member(route->method), -1);
        printf("%s %s", method, route->path);
        for (size_t k = 0; vg_route_common_statuses[k]; k++)
            printf(" %u", vg_route_common_statuses[k]);
        for (size_t k = 0; k < VG_ROUTE_STATUSES_MAX && route->statuses[k]; k++)
            printf(" %u", route->statuses[k]);
        for (size_t k = 0; route->params[k]; k++)
            printf(" %s", route->params[k]);
        printf("\n");
    }
}

static bool
parse_options(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {
        {"--vms", &o->fake.vms},
        {"--gpu-vms", &o->fake.gpu_vms},
        {"--event-ms", &o->event_ms},
        {"--view-ms", &o->view_ms},
        {"--job-ms", &o->fake.job_ms},
        {"--job-wait-ms", &o->job_wait_ms},
        {"--heartbeat-ms", &o->heartbeat_ms},
        {"--events", &o->events},
        {"--connections", &o->limits.connections},
        {"--client-connections", &o->limits.client_connections},
        {"--client-requests", &o->limits.client_requests},
        {"--client-streams", &o->limits.client_streams},
        {"--streams", &o->limits.streams},
        {"--body", &o->limits.body_bytes},
        {"--writes", &o->limits.writes_per_min},
        {"--idle-ms", &o->limits.idle_ns},
    };

    const struct {
        const char *name;
        const char **value;
    } texts[] = {
        {"--socket", &o->socket},
        {"--group", &o->group},
        {"--certificate", &o->certificate},
        {"--key", &o->key},
        {"--client-ca", &o->client_ca},
        {"--operator", &o->fake.operator_subject},
        {"--fault", &o->fault},
        {"--without", &o->fake.without},
        {"--hung", &o->fake.hung},
    };
    size_t n_listen = 0;

    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        bool known = true;
        if (strcmp(argv[i], "--list-routes") == 0)
            o->list_routes = true;
        else if (strcmp(argv[i], "--not-ready") == 0)
            o->fake.not_ready = true;
        else if (strcmp(argv[i], "--churn") == 0)
            o->fake.churn = true;
        else if (strcmp(argv[i], "--client-required") == 0)
            o->client_required = true;
        else if (strcmp(argv[i], "--listen") == 0 && more && n_listen + 1 < G_N_ELEMENTS(o->listen))
            o->listen[n_listen++] = argv[++i];
        else if (strcmp(argv[i], "--mode") == 0 && more)
            o->mode = (unsigned)strtoul(argv[++i], NULL, 8);
        else
            known = false;
        for (size_t k = 0; !known && more && k < G_N_ELEMENTS(texts); k++) {
            if (strcmp(argv[i], texts[k].name) == 0) {
                *texts[k].value = argv[++i];
                known = true;
            }
        }
        for (size_t k = 0; !known && more && k < G_N_ELEMENTS(numbers); k++) {
            if (strcmp(argv[i], numbers[k].name) == 0) {
                *numbers[k].value = strtoll(argv[++i], NULL, 10);
                if (numbers[k].value == &o->limits.idle_ns)
                    o->limits.idle_ns *= VG_NS_PER_MS;
                known = true;
            }
        }
        if (!known)
            return false;
    }
    return o->socket || o->list_routes;
}

static void
add_event(vg_event_log *log, const struct options *options, int64_t n)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "n", n);
    vg_json_add_int64(object, "vms", options->fake.vms);
    vg_event_log_add(log, n % 4 == 3 ? "vm" : "window", object);
}

/* Events and views at their times, until SIGTERM. SIGUSR1: one event now. */
static void
serve(fake_backend *fake, const struct options *options, vg_event_log *log, const sigset_t *signals)
{
    int64_t count = options->events;
    int64_t begin = vg_clock_monotonic_ns();
    int64_t events = 0;
    int64_t views = 0;

    for (int sig = 0; sig != SIGTERM && sig != SIGINT;) {
        struct timespec tick = {.tv_nsec = VG_NS_PER_MS};
        if (options->event_ms == 0 && options->view_ms == 0)
            tick = (struct timespec){.tv_sec = 1};
        sig = sigtimedwait(signals, NULL, &tick);
        int64_t ms = (vg_clock_monotonic_ns() - begin) / VG_NS_PER_MS;
        if (sig == SIGUSR1)
            add_event(log, options, count++);
        for (; options->event_ms && events < ms / options->event_ms; events++)
            add_event(log, options, count++);
        if (options->view_ms && views < ms / options->view_ms) {
            views = ms / options->view_ms;
            fake_backend_next_view(fake);
        }
    }
}

int
main(int argc, char **argv)
{
    struct options o = {.mode = 0660,
                        .fake = {.vms = 3, .gpu_vms = 1},
                        .limits = {.connections = 64,
                                   .client_connections = 1000,
                                   .client_requests = 1000000,
                                   .client_streams = 1024,
                                   .streams = 4,
                                   .body_bytes = 1024,
                                   .idle_ns = 60 * VG_NS_PER_S,
                                   .writes_per_min = 1000}};
    sigset_t signals;
    g_autoptr(GError) err = NULL;

    if (!parse_options(argc, argv, &o)) {
        fprintf(stderr, "api-server: wrong arguments\n");
        return 2;
    }
    if (o.list_routes) {
        list_routes();
        return 0;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    api_fault_begin(o.fault);
    o.fake.expired_lets_in = g_strcmp0(o.fault, "expired") == 0;
    o.fake.revoked_lets_in = g_strcmp0(o.fault, "revoked") == 0;
    fake_backend *fake = fake_backend_new(&o.fake);
    g_autoptr(vg_event_log) log = vg_event_log_new();
    for (int64_t i = 0; i < o.events; i++)
        add_event(log, &o, i);
    const struct vg_api_options options = {.socket = o.socket,
                                           .socket_mode = o.mode,
                                           .socket_group = o.group,
                                           .listen = o.listen,
                                           .certificate = o.certificate,
                                           .key = o.key,
                                           .client_ca = o.client_ca,
                                           .client_required = o.client_required,
                                           .limits = o.limits,
                                           .job_wait_ns = o.job_wait_ms * VG_NS_PER_MS,
                                           .heartbeat_ns = o.heartbeat_ms * VG_NS_PER_MS,
                                           .backend = fake_backend_table(fake),
                                           .events = log};
    vg_api *api = vg_api_new(&options, &err);
    if (api) {
        printf("ready\n");
        fflush(stdout);
        serve(fake, &o, log, &signals);
        vg_api_free(api);
    } else {
        fprintf(stderr, "api-server: %s\n", err->message);
    }
    fake_backend_free(fake);
    return !err ? 0 : err->code == VG_E_CONFLICT ? 5 : 1;
}
