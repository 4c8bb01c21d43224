/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/pictures.h"

#include "base/file.h"
#include "cli/cli.h"
#include "picture/charts.h"
#include "picture/viewer.h"

struct vg_pictures {
    vg_viewer *viewer; /* NULL if not requested */
    vg_charts *charts; /* NULL if not requested */
    char *utilisation; /* the files of charts */
    char *requests;
    struct vg_window_watch watch;
};

static char *
utilisation_path(const char *prefix)
{
    return g_strconcat(prefix, "-utilisation.svg", NULL);
}

static char *
requests_path(const char *prefix)
{
    return g_strconcat(prefix, "-requests.svg", NULL);
}

int
vg_pictures_check(const char *perfetto, const char *svg_prefix, GError **err)
{
    if (perfetto && vg_file_check_place(perfetto, err) < 0)
        return -1;
    if (!svg_prefix)
        return 0;
    g_autofree char *utilisation = utilisation_path(svg_prefix);
    g_autofree char *requests = requests_path(svg_prefix);
    return vg_file_check_place(utilisation, err) < 0 || vg_file_check_place(requests, err) < 0 ? -1
                                                                                               : 0;
}

static void
on_begin(void *data, const vg_window_reader *reader, int64_t begin_ns)
{
    vg_pictures *pictures = data;

    if (pictures->viewer)
        vg_viewer_begin(pictures->viewer, vg_window_reader_topology(reader));
    if (pictures->charts)
        vg_charts_begin(pictures->charts, reader, begin_ns);
}

static void
on_cpu(void *data, const struct vg_cpu_change *change)
{
    vg_viewer_cpu(((vg_pictures *)data)->viewer, change);
}

static void
on_gpu(void *data, const struct vg_gpu_change *change)
{
    vg_pictures *pictures = data;

    if (pictures->viewer)
        vg_viewer_gpu(pictures->viewer, change);
    if (pictures->charts)
        vg_charts_gpu(pictures->charts, change);
}

static void
on_time(void *data, int64_t t_ns)
{
    vg_charts_time(((vg_pictures *)data)->charts, t_ns);
}

vg_pictures *
vg_pictures_open(const char *perfetto, const char *svg_prefix, const vg_recording *recording,
                 GError **err)
{
    g_autoptr(vg_pictures) pictures = g_new0(vg_pictures, 1);

    if (perfetto) {
        pictures->viewer = vg_viewer_open(perfetto, recording, err);
        if (!pictures->viewer)
            return NULL;
    }
    if (svg_prefix) {
        pictures->charts = vg_charts_new(recording);
        pictures->utilisation = utilisation_path(svg_prefix);
        pictures->requests = requests_path(svg_prefix);
    }
    pictures->watch = (struct vg_window_watch){
        .on_begin = on_begin,
        .on_cpu = perfetto ? on_cpu : NULL,
        .on_gpu = on_gpu,
        .on_time = svg_prefix ? on_time : NULL,
        .data = pictures,
    };
    return g_steal_pointer(&pictures);
}

void
vg_pictures_free(vg_pictures *pictures)
{
    if (!pictures)
        return;
    vg_viewer_free(pictures->viewer);
    vg_charts_free(pictures->charts);
    g_free(pictures->utilisation);
    g_free(pictures->requests);
    g_free(pictures);
}

const struct vg_window_watch *
vg_pictures_watch(const vg_pictures *pictures)
{
    return pictures->viewer || pictures->charts ? &pictures->watch : NULL;
}

int
vg_pictures_window(vg_pictures *pictures, const struct vg_window *window, GError **err)
{
    return pictures->viewer ? vg_viewer_window(pictures->viewer, window, err) : 0;
}

static int
write_viewer(vg_viewer *viewer, const struct vg_analysis *analysis, GError **err)
{
    if (vg_viewer_close(viewer, analysis->period.end_ns, err) < 0)
        return -1;
    if (vg_viewer_missing(viewer) > 0)
        vg_cli_warn("%s: the start of %u vCPUs is missing from the Perfetto trace, because no "
                    "earlier record identifies them as vCPUs",
                    analysis->recording->name, vg_viewer_missing(viewer));
    return 0;
}

static int
write_charts(const vg_pictures *pictures, const struct vg_analysis *analysis, const char *host,
             GError **err)
{
    g_autoptr(GString) text = g_string_new(NULL);

    vg_charts_finish(pictures->charts, &analysis->period);
    vg_charts_draw_utilisation(pictures->charts, host, text);
    if (vg_file_write(pictures->utilisation, text->str, err) < 0)
        return -1;
    if (!vg_charts_have_requests(pictures->charts)) {
        vg_cli_warn("%s contains no GPU requests, so '%s' is not written",
                    analysis->recording->name, pictures->requests);
        return 0;
    }
    g_string_truncate(text, 0);
    vg_charts_draw_requests(pictures->charts, host, text);
    return vg_file_write(pictures->requests, text->str, err);
}

int
vg_pictures_write(vg_pictures *pictures, const struct vg_analysis *analysis, const char *host,
                  GError **err)
{
    if (pictures->viewer && write_viewer(pictures->viewer, analysis, err) < 0)
        return -1;
    return pictures->charts ? write_charts(pictures, analysis, host, err) : 0;
}
