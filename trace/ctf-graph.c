/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-graph.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"

#define NO_PLUGIN "cannot load babeltrace2's CTF plug-in (package libbabeltrace2-0)"

struct ctf_graph {
    int refs;
    bt_graph *graph;
    unsigned int n_streams;
    bt_message_iterator **iterators; /* one per stream */
    /* The pull in progress, for the sink's consuming method. */
    unsigned int wanted;
    ctf_message_fn *fn;
    void *data;
    enum ctf_pull outcome;
};

/* The plug-in contains the component classes. All of them live as long as the program. */
static const bt_plugin *ctf_plugin;
static const bt_component_class_source *fs_class;
static const bt_component_class_source *live_class;
static const bt_component_class_sink *sink_class;
static pthread_once_t plugin_loaded = PTHREAD_ONCE_INIT;

static void
load_plugin(void)
{
    if (bt_plugin_find("ctf", BT_TRUE, BT_FALSE, BT_TRUE, BT_TRUE, BT_FALSE, &ctf_plugin) !=
        BT_PLUGIN_FIND_STATUS_OK)
        return;
    fs_class = bt_plugin_borrow_source_component_class_by_name_const(ctf_plugin, "fs");
    live_class = bt_plugin_borrow_source_component_class_by_name_const(ctf_plugin, "lttng-live");
    sink_class = bt_plugin_borrow_sink_component_class_by_name_const(ctf_plugin, "fs");
}

/* Removes the addresses with which babeltrace2's messages name objects ("msg-it-addr=0x5586...").
 * They mean nothing to users and differ in each run. */
static char *
without_addresses(const char *message)
{
    g_autoptr(GRegex) address =
        g_regex_new("(, )?\\b[a-z-]+-addr=0x[0-9a-f]+(?(1)|(, |$))", G_REGEX_RAW, 0, NULL);
    char *text = g_regex_replace_literal(address, message, -1, 0, "", 0, NULL);
    if (!text)
        return g_strdup(message);
    size_t length = strlen(text);
    while (length > 0 && strchr(":. ", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* The first of babeltrace2's causes is where the problem was detected. */
int
ctf_take_error(GError **err, const char *what)
{
    const bt_error *error = bt_current_thread_take_error();

    if (!error)
        return vg_error(err, VG_E_EXTERNAL, "%s", what);
    g_autofree char *cause = NULL;
    if (bt_error_get_cause_count(error) > 0)
        cause =
            without_addresses(bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0)));
    vg_error(err, VG_E_EXTERNAL, "%s%s%s", what, cause && *cause ? ": " : "", cause ? cause : "");
    bt_error_release(error);
    return -1;
}

static bt_component_class_initialize_method_status
sink_init(bt_self_component_sink *sink, bt_self_component_sink_configuration *configuration,
          const bt_value *params, void *data)
{
    struct ctf_graph *graph = data;

    (void)configuration;
    (void)params;
    for (unsigned int i = 0; i < graph->n_streams; i++) {
        char name[32];
        g_snprintf(name, sizeof(name), "in%u", i);
        if (bt_self_component_sink_add_input_port(sink, name, NULL, NULL) !=
            BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
            return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    bt_self_component_set_data(bt_self_component_sink_as_self_component(sink), graph);
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static bt_component_class_sink_graph_is_configured_method_status
sink_configured(bt_self_component_sink *sink)
{
    struct ctf_graph *graph =
        bt_self_component_get_data(bt_self_component_sink_as_self_component(sink));

    for (unsigned int i = 0; i < graph->n_streams; i++) {
        bt_self_component_port_input *port =
            bt_self_component_sink_borrow_input_port_by_index(sink, i);
        if (bt_message_iterator_create_from_sink_component(sink, port, &graph->iterators[i]) !=
            BT_MESSAGE_ITERATOR_CREATE_FROM_SINK_COMPONENT_STATUS_OK)
            return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_ERROR;
    }
    return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK;
}

static bt_component_class_sink_consume_method_status
sink_consume(bt_self_component_sink *sink)
{
    struct ctf_graph *graph =
        bt_self_component_get_data(bt_self_component_sink_as_self_component(sink));
    bt_message_array_const messages;
    uint64_t count;

    /* A stream that cannot be decoded must not end the graph, so the status is always OK. */
    switch (bt_message_iterator_next(graph->iterators[graph->wanted], &messages, &count)) {
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
        for (uint64_t i = 0; i < count; i++) {
            graph->fn(graph->data, messages[i]);
            bt_message_put_ref(messages[i]);
        }
        graph->outcome = CTF_PULL_MORE;
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
        graph->outcome = CTF_PULL_AGAIN;
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
        graph->outcome = CTF_PULL_END;
        break;
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR:
    case BT_MESSAGE_ITERATOR_NEXT_STATUS_ERROR:
        graph->outcome = CTF_PULL_FAILED;
        break;
    }
    return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK;
}

/* The source of a graph. */
struct source {
    const bt_component_class_source *class;
    const char *input;          /* directory or URL */
    const char *missing_action; /* for a live session; NULL: a directory */
};

static int
ctf_graph_add_source(struct ctf_graph *graph, const struct source *from,
                     const bt_component_source **ret, GError **err)
{
    bt_value *params = bt_value_map_create();
    bt_value *inputs;
    int status = -1;

    if (params && bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) == 0 &&
        bt_value_array_append_string_element(inputs, from->input) == 0 &&
        (!from->missing_action ||
         bt_value_map_insert_string_entry(params, "session-not-found-action",
                                          from->missing_action) == 0) &&
        bt_graph_add_source_component(graph->graph, from->class, "source", params,
                                      BT_LOGGING_LEVEL_NONE,
                                      ret) == BT_GRAPH_ADD_COMPONENT_STATUS_OK)
        status = 0;
    else
        ctf_take_error(err, from->missing_action ? "babeltrace2 refuses the URL"
                                                 : "babeltrace2 refuses the trace");
    bt_value_put_ref(params);
    return status;
}

static int
add_sink(struct ctf_graph *graph, const bt_component_sink **ret, GError **err)
{
    bt_component_class_sink *class = bt_component_class_sink_create("vgpud", sink_consume);
    int status = -1;

    if (class && bt_component_class_sink_set_initialize_method(class, sink_init) == 0 &&
        bt_component_class_sink_set_graph_is_configured_method(class, sink_configured) == 0 &&
        bt_graph_add_sink_component_with_initialize_method_data(
            graph->graph, class, "sink", NULL, graph, BT_LOGGING_LEVEL_NONE, ret) ==
            BT_GRAPH_ADD_COMPONENT_STATUS_OK)
        status = 0;
    else
        ctf_take_error(err, "cannot add a sink to the babeltrace2 graph");
    bt_component_class_sink_put_ref(class);
    return status;
}

static int
connect_ports(struct ctf_graph *graph, const bt_component_source *source,
              const bt_component_sink *sink, GError **err)
{
    for (unsigned int i = 0; i < graph->n_streams; i++) {
        const bt_port_output *out =
            bt_component_source_borrow_output_port_by_index_const(source, i);
        const bt_port_input *in = bt_component_sink_borrow_input_port_by_index_const(sink, i);
        if (bt_graph_connect_ports(graph->graph, out, in, NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK)
            return ctf_take_error(err, "cannot connect a stream");
    }
    return 0;
}

static int
build(struct ctf_graph *graph, const struct source *from, bt_interrupter *interrupter, GError **err)
{
    const bt_component_source *source;
    const bt_component_sink *sink;

    bt_current_thread_clear_error();
    graph->graph = bt_graph_create(0);
    if (!graph->graph)
        return ctf_take_error(err, "cannot create a babeltrace2 graph");
    if (interrupter &&
        bt_graph_add_interrupter(graph->graph, interrupter) != BT_GRAPH_ADD_INTERRUPTER_STATUS_OK)
        return ctf_take_error(err, "cannot make a babeltrace2 graph interruptible");
    if (ctf_graph_add_source(graph, from, &source, err) < 0)
        return -1;
    graph->n_streams = (unsigned int)bt_component_source_get_output_port_count(source);
    if (graph->n_streams == 0)
        return vg_error(err, VG_E_INVALID, "the trace has no stream");
    graph->iterators = g_new0(bt_message_iterator *, graph->n_streams);
    if (add_sink(graph, &sink, err) < 0)
        return -1;
    return connect_ports(graph, source, sink, err);
}

static struct ctf_graph *
ctf_graph_open_source(const struct source *from, bt_interrupter *interrupter, GError **err)
{
    if (!from->class) {
        ctf_take_error(err, NO_PLUGIN);
        return NULL;
    }
    struct ctf_graph *graph = g_new0(struct ctf_graph, 1);
    graph->refs = 1;
    if (build(graph, from, interrupter, err) < 0) {
        ctf_graph_unref(graph);
        return NULL;
    }
    return graph;
}

struct ctf_graph *
ctf_graph_open(const char *dir, GError **err)
{
    pthread_once(&plugin_loaded, load_plugin);
    const struct source from = {.class = fs_class, .input = dir};
    return ctf_graph_open_source(&from, NULL, err);
}

struct ctf_graph *
ctf_graph_open_live(const char *url, bt_interrupter *interrupter, GError **err)
{
    pthread_once(&plugin_loaded, load_plugin);
    const struct source from = {.class = live_class, .input = url, .missing_action = "end"};
    return ctf_graph_open_source(&from, interrupter, err);
}

const bt_component_class_sink *
ctf_sink_class(GError **err)
{
    pthread_once(&plugin_loaded, load_plugin);
    if (!sink_class)
        ctf_take_error(err, NO_PLUGIN);
    return sink_class;
}

struct ctf_graph *
ctf_graph_ref(struct ctf_graph *graph)
{
    graph->refs++;
    return graph;
}

void
ctf_graph_unref(struct ctf_graph *graph)
{
    if (!graph || --graph->refs > 0)
        return;
    for (unsigned int i = 0; graph->iterators && i < graph->n_streams; i++)
        bt_message_iterator_put_ref(graph->iterators[i]);
    bt_graph_put_ref(graph->graph);
    g_free(graph->iterators);
    g_free(graph);
}

unsigned int
ctf_graph_streams(const struct ctf_graph *graph)
{
    return graph->n_streams;
}

enum ctf_pull
ctf_graph_pull(struct ctf_graph *graph, unsigned int stream, ctf_message_fn *fn, void *data,
               GError **err)
{
    graph->wanted = stream;
    graph->fn = fn;
    graph->data = data;
    graph->outcome = CTF_PULL_FAILED;
    /* source.ctf.fs 2.0 can leave an error in calls that succeed. Continuing with a pending error
     * is a programming error that ends the process. */
    bt_current_thread_clear_error();
    if (bt_graph_run_once(graph->graph) != BT_GRAPH_RUN_ONCE_STATUS_OK)
        graph->outcome = CTF_PULL_FAILED;
    if (graph->outcome == CTF_PULL_FAILED)
        ctf_take_error(err, "cannot decode");
    return graph->outcome;
}
