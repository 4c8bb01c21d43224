/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/opencl/random-calls.h"

static unsigned char bytes[SIZE_MAX_ * 4];

cl_command_queue
any_queue(void)
{
    return w.queues[draw(QUEUES)];
}

/* Two queues see each other's results only so. */
void
done(cl_command_queue queue)
{
    clFinish(queue);
}

static int
empty_slot(void)
{
    int i = (int)draw(MEMS);

    if (w.mems[i].mem)
        mem_release(i);
    return w.mems[i].mem ? -1 : i;
}

static struct mem *
any_mem(bool is_image)
{
    int start = (int)draw(MEMS);

    for (int i = 0; i < MEMS; i++) {
        struct mem *m = &w.mems[(start + i) % MEMS];
        if (m->mem && m->is_image == is_image)
            return m;
    }
    return NULL;
}

/* What lies under a mapping, or over one, is left alone: its contents are not defined. */
static bool
is_mapped(const struct mem *m)
{
    int root = m->is_sub ? m->parent : (int)(m - w.mems);

    for (int i = 0; i < MEMS; i++)
        if (w.mems[i].mem && w.mems[i].map &&
            (i == root || (w.mems[i].is_sub && w.mems[i].parent == root)))
            return true;
    return false;
}

void
mem_release(int i)
{
    struct mem *m = &w.mems[i];

    if (!m->mem)
        return;
    for (int other = 0; other < MEMS; other++)
        if (w.mems[other].is_sub && w.mems[other].parent == i)
            mem_release(other);
    if (m->map) {
        say("unmap-last", clEnqueueUnmapMemObject(w.queues[0], m->mem, m->map, 0, NULL, NULL), 0);
        done(w.queues[0]);
    }
    for (int k = 0; k < KERNELS; k++)
        for (int a = 0; a < 4; a++)
            if (w.kernel_mems[k][a] == i + 1)
                w.kernel_set[k] &= ~(1u << a);
    say("release", clReleaseMemObject(m->mem), 0);
    free(m->host);
    memset(m, 0, sizeof *m);
}

void
step_buffer(void)
{
    static const cl_mem_flags flags[] = {CL_MEM_READ_WRITE,
                                         CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                         CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                         CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR,
                                         CL_MEM_HOST_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                         CL_MEM_HOST_NO_ACCESS | CL_MEM_COPY_HOST_PTR};
    int i = empty_slot();
    cl_int error;

    if (i < 0)
        return;
    struct mem *m = &w.mems[i];
    cl_mem_flags f = flags[draw(7)];
    m->size = (1 + draw(SIZE_MAX_ / 128)) * 128;
    fill_random(bytes, m->size);
    void *first = f & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR) ? bytes : NULL;
    if (f & CL_MEM_USE_HOST_PTR) {
        first = m->host = aligned_alloc(4096, (m->size + 4095) / 4096 * 4096);
        memcpy(m->host, bytes, m->size);
    }
    m->mem = clCreateBuffer(w.context, f, m->size, first, &error);
    say("buffer", error, f);
    if (m->mem && !first)
        say("first",
            clEnqueueWriteBuffer(w.queues[0], m->mem, CL_TRUE, 0, m->size, bytes, 0, NULL, NULL),
            0);
}

void
step_sub(void)
{
    int i = empty_slot();
    struct mem *parent = any_mem(false);
    cl_int error;

    if (i < 0 || !parent || parent->is_sub || parent->size < 256)
        return;
    cl_buffer_region region = {draw((uint32_t)(parent->size / 128)) * 128, 128};
    w.mems[i].mem =
        clCreateSubBuffer(parent->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    w.mems[i].size = region.size;
    w.mems[i].is_sub = w.mems[i].mem != NULL;
    w.mems[i].parent = (int)(parent - w.mems);
    say("sub", error, region.origin);
}

void
step_image(void)
{
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D};
    int i = empty_slot();
    cl_int error;

    if (i < 0)
        return;
    struct mem *m = &w.mems[i];
    m->width = desc.image_width = 1 + draw(100);
    m->height = desc.image_height = 1 + draw(100);
    m->size = m->width * m->height * 4;
    fill_random(bytes, m->size);
    m->mem = clCreateImage(w.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &desc,
                           bytes, &error);
    m->is_image = true;
    say("image", error, m->size);
}

void
step_release(void)
{
    int i = (int)draw(MEMS);

    if (w.mems[i].mem && draw(2))
        mem_release(i);
    else if (w.mems[i].mem) {
        say("retain", clRetainMemObject(w.mems[i].mem), 0);
        say("release", clReleaseMemObject(w.mems[i].mem), 0);
    }
}

void
step_write(void)
{
    struct mem *m = any_mem(false);
    cl_command_queue queue = any_queue();

    if (!m || is_mapped(m))
        return;
    size_t offset = draw((uint32_t)m->size), size = 1 + draw((uint32_t)(m->size - offset));
    fill_random(bytes, size);
    cl_int error = clEnqueueWriteBuffer(queue, m->mem, draw(2), offset, size, bytes, 0, NULL, NULL);
    done(queue);
    say("write", error, size);
}

void
step_read(void)
{
    struct mem *m = any_mem(false);
    cl_command_queue queue = any_queue();

    if (!m || is_mapped(m))
        return;
    size_t offset = draw((uint32_t)m->size), size = 1 + draw((uint32_t)(m->size - offset));
    memset(bytes, 0, size);
    cl_int error = clEnqueueReadBuffer(queue, m->mem, draw(2), offset, size, bytes, 0, NULL, NULL);
    done(queue);
    say("read", error, hash(bytes, size));
}

void
step_rect(void)
{
    struct mem *m = any_mem(false);
    cl_command_queue queue = any_queue();
    size_t zero[3] = {0, 0, 0}, origin[3] = {draw(8), draw(3), 0}, region[3] = {4 + draw(8), 2, 1};
    cl_int error;

    if (!m || is_mapped(m))
        return;
    memset(bytes, 0, 256);
    if (draw(2)) {
        fill_random(bytes, 256);
        error = clEnqueueWriteBufferRect(queue, m->mem, CL_TRUE, origin, zero, region, 24, 0, 16, 0,
                                         bytes, 0, NULL, NULL);
    } else {
        error = clEnqueueReadBufferRect(queue, m->mem, CL_TRUE, origin, zero, region, 24, 0, 16, 0,
                                        bytes, 0, NULL, NULL);
    }
    say("rect", error, hash(bytes, 256));
}

void
step_copy(void)
{
    struct mem *from = any_mem(false), *to = any_mem(false);
    cl_command_queue queue = any_queue();

    if (!from || !to || from == to || from->is_sub || to->is_sub || is_mapped(from) ||
        is_mapped(to))
        return;
    size_t least = from->size < to->size ? from->size : to->size;
    size_t size = 1 + draw((uint32_t)least);
    cl_int error =
        clEnqueueCopyBuffer(queue, from->mem, to->mem, 0, least - size, size, 0, NULL, NULL);
    done(queue);
    say("copy", error, size);
}

void
step_fill(void)
{
    struct mem *m = any_mem(false);
    uint32_t pattern = draw(UINT32_MAX);
    cl_command_queue queue = any_queue();

    if (!m || is_mapped(m))
        return;
    cl_int error = clEnqueueFillBuffer(queue, m->mem, &pattern, 4, draw((uint32_t)m->size / 4) * 4,
                                       4, 0, NULL, NULL);
    done(queue);
    say("fill", error, pattern);
}

/* Mapped memory stays mapped for some steps, and is written to through the pointer. */
void
step_map(void)
{
    static const cl_map_flags flags[] = {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                                         CL_MAP_WRITE_INVALIDATE_REGION};
    struct mem *m = any_mem(draw(4) == 0);
    size_t origin[3] = {0, 0, 0}, region[3] = {1, 1, 1};
    cl_command_queue queue = any_queue();
    cl_int error;

    if (!m || is_mapped(m))
        return;
    m->map_flags = flags[draw(4)];
    if (m->is_image) {
        region[0] = m->width;
        region[1] = m->height;
        m->map = clEnqueueMapImage(queue, m->mem, CL_TRUE, m->map_flags, origin, region,
                                   &m->map_pitch, NULL, 0, NULL, NULL, &error);
        m->map_size = 0;
    } else {
        m->map_offset = draw((uint32_t)m->size);
        m->map_size = 1 + draw((uint32_t)(m->size - m->map_offset));
        m->map = clEnqueueMapBuffer(queue, m->mem, CL_TRUE, m->map_flags, m->map_offset,
                                    m->map_size, 0, NULL, NULL, &error);
    }
    if (m->map && !m->is_image && m->map_flags == CL_MAP_WRITE_INVALIDATE_REGION)
        memset(m->map, 7, m->map_size);
    say("map", error, m->map && !m->is_image ? hash(m->map, m->map_size) : 0);
}

void
step_unmap(void)
{
    cl_command_queue queue = any_queue();

    for (int i = 0; i < MEMS; i++) {
        struct mem *m = &w.mems[i];
        if (!m->mem || !m->map || draw(2))
            continue;
        if (m->is_image && m->map_flags != CL_MAP_READ)
            for (size_t y = 0; y < m->height; y++)
                memset((char *)m->map + y * m->map_pitch, (int)y, m->width * 4);
        else if (m->map_flags != CL_MAP_READ)
            fill_random(m->map, m->map_size);
        uint64_t h = m->is_image ? 0 : hash(m->map, m->map_size);
        cl_int error = clEnqueueUnmapMemObject(queue, m->mem, m->map, 0, NULL, NULL);
        done(queue);
        m->map = NULL;
        say("unmap", error, h);
    }
}

void
step_texels(void)
{
    struct mem *m = any_mem(true);
    size_t zero[3] = {0, 0, 0}, region[3] = {1, 1, 1};
    cl_command_queue queue = any_queue();
    cl_int error;

    if (!m || is_mapped(m))
        return;
    region[0] = 1 + draw((uint32_t)m->width);
    region[1] = 1 + draw((uint32_t)m->height);
    memset(bytes, 0, m->size);
    if (draw(3) == 0) {
        fill_random(bytes, m->size);
        error =
            clEnqueueWriteImage(queue, m->mem, CL_TRUE, zero, region, 0, 0, bytes, 0, NULL, NULL);
    } else if (draw(3) == 0) {
        cl_uint color[4] = {draw(256), draw(256), draw(256), draw(256)};
        error = clEnqueueFillImage(queue, m->mem, color, zero, region, 0, NULL, NULL);
        done(queue);
    } else {
        error =
            clEnqueueReadImage(queue, m->mem, CL_TRUE, zero, region, 0, 0, bytes, 0, NULL, NULL);
    }
    say("texels", error, hash(bytes, m->size));
}
