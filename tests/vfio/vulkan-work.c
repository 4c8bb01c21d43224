/* SPDX-License-Identifier: Apache-2.0
 *
 * Works with Vulkan without a display: for ever, as a load of a guest, or for figures of how long
 * dispatches, transfers and frames take, each until its fence. Says on stdout what it does.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vulkan/vulkan.h>

#include "vulkan-work.comp.h"
#include "vulkan-work.frag.h"
#include "vulkan-work.vert.h"

#define WIDTH        1280
#define HEIGHT       720
#define NUMBERS      (64 * 64)
#define BUFFER_BYTES (WIDTH * HEIGHT * 4)
#define MEASURED_MS  2000
#define ROUNDS_MAX   400
#define N_CONSTANTS  2

static VkDevice device;
static VkPhysicalDevice card;
static VkQueue queue;
static VkCommandPool pool;
static VkCommandBuffer commands;
static VkFence fence;

struct memory {
    VkDeviceMemory memory;
    void *mapped;
};

/* A scene of the bench: columns x columns triangles whose pixels take so many rounds each, in a
 * part of the image. An emulated CPU takes milliseconds for a thousand pixels. */
struct scene {
    const char *name;
    uint32_t width, height;
    uint32_t columns;
    uint32_t rounds;
};

static void
check(VkResult result, const char *what)
{
    if (result >= 0)
        return;
    printf("WORK-FAILED %s: %d\n", what, result);
    exit(1);
}

#define DO(call) check(call, #call)

static double
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void
sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* ---- the device ---- */

static void
open_device(void)
{
    const VkApplicationInfo program = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                       .pApplicationName = "vulkan-work",
                                       .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &program};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                .queueCount = 1,
                                                .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queue_info};
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                               .flags =
                                                   VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    const VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkPhysicalDeviceProperties properties;
    VkInstance instance;
    uint32_t n_cards = 1;

    DO(vkCreateInstance(&instance_info, NULL, &instance));
    DO(vkEnumeratePhysicalDevices(instance, &n_cards, &card));
    if (n_cards == 0)
        check(VK_ERROR_INITIALIZATION_FAILED, "no device");
    vkGetPhysicalDeviceProperties(card, &properties);
    printf("DEVICE %s\n", properties.deviceName);
    /* The first family of Mesa's drivers draws, computes and copies. */
    DO(vkCreateDevice(card, &device_info, NULL, &device));
    vkGetDeviceQueue(device, 0, 0, &queue);
    DO(vkCreateCommandPool(device, &pool_info, NULL, &pool));
    const VkCommandBufferAllocateInfo buffer_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    DO(vkAllocateCommandBuffers(device, &buffer_info, &commands));
    DO(vkCreateFence(device, &fence_info, NULL, &fence));
}

static void
begin_commands(void)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};

    DO(vkBeginCommandBuffer(commands, &info));
}

static void
run_commands(void)
{
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands};

    DO(vkEndCommandBuffer(commands));
    DO(vkQueueSubmit(queue, 1, &info, fence));
    DO(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX));
    DO(vkResetFences(device, 1, &fence));
}

static struct memory
take_memory(VkMemoryRequirements needs, VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties kinds;
    struct memory memory = {0};

    vkGetPhysicalDeviceMemoryProperties(card, &kinds);
    for (uint32_t i = 0; i < kinds.memoryTypeCount; i++) {
        const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .allocationSize = needs.size,
                                           .memoryTypeIndex = i};
        if (!(needs.memoryTypeBits & 1u << i) ||
            (kinds.memoryTypes[i].propertyFlags & wanted) != wanted)
            continue;
        DO(vkAllocateMemory(device, &info, NULL, &memory.memory));
        if (wanted)
            DO(vkMapMemory(device, memory.memory, 0, VK_WHOLE_SIZE, 0, &memory.mapped));
        return memory;
    }
    check(VK_ERROR_OUT_OF_DEVICE_MEMORY, "no kind of memory");
    return memory;
}

static VkBuffer
make_buffer(VkDeviceSize bytes, VkBufferUsageFlags usage, void **mapped)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = usage};
    VkMemoryRequirements needs;
    VkBuffer buffer;

    DO(vkCreateBuffer(device, &info, NULL, &buffer));
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    const struct memory memory = take_memory(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    DO(vkBindBufferMemory(device, buffer, memory.memory, 0));
    *mapped = memory.mapped;
    return buffer;
}

static VkPipelineShaderStageCreateInfo
load_shader(VkShaderStageFlagBits stage, const uint32_t *code, size_t bytes)
{
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
    VkPipelineShaderStageCreateInfo made = {.sType =
                                                VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                            .stage = stage,
                                            .pName = "main"};

    DO(vkCreateShaderModule(device, &info, NULL, &made.module));
    return made;
}

static VkPipelineLayout
make_layout(const VkDescriptorSetLayout *set, VkShaderStageFlags stages)
{
    const VkPushConstantRange constants = {.stageFlags = stages,
                                           .size = N_CONSTANTS * sizeof(uint32_t)};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = set ? 1 : 0,
                                             .pSetLayouts = set,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &constants};
    VkPipelineLayout layout;

    DO(vkCreatePipelineLayout(device, &info, NULL, &layout));
    return layout;
}

/* ---- computing ---- */

static VkPipeline compute;
static VkPipelineLayout compute_layout;
static VkDescriptorSet compute_set;
static uint32_t *numbers;

static void
prepare_compute(void)
{
    const VkDescriptorSetLayoutBinding binding = {.descriptorType =
                                                      VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                  .descriptorCount = 1,
                                                  .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 1,
        .pBindings = &binding};
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    const VkDescriptorPoolCreateInfo pool_info = {.sType =
                                                      VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                  .maxSets = 1,
                                                  .poolSizeCount = 1,
                                                  .pPoolSizes = &size};
    VkDescriptorSetLayout set_layout;
    VkDescriptorPool sets;
    void *mapped;
    const VkDescriptorBufferInfo buffer = {
        .buffer =
            make_buffer(NUMBERS * sizeof(uint32_t), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, &mapped),
        .range = VK_WHOLE_SIZE};

    numbers = mapped;
    DO(vkCreateDescriptorSetLayout(device, &layout_info, NULL, &set_layout));
    DO(vkCreateDescriptorPool(device, &pool_info, NULL, &sets));
    const VkDescriptorSetAllocateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = sets,
        .descriptorSetCount = 1,
        .pSetLayouts = &set_layout};
    DO(vkAllocateDescriptorSets(device, &set_info, &compute_set));
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .dstSet = compute_set,
                                        .descriptorCount = 1,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                        .pBufferInfo = &buffer};
    vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    compute_layout = make_layout(&set_layout, VK_SHADER_STAGE_COMPUTE_BIT);
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = load_shader(VK_SHADER_STAGE_COMPUTE_BIT, compute_code, sizeof(compute_code)),
        .layout = compute_layout};
    DO(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &compute));
}

static void
dispatch(uint32_t rounds)
{
    const uint32_t constants[N_CONSTANTS] = {rounds};

    begin_commands();
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, compute);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, compute_layout, 0, 1,
                            &compute_set, 0, NULL);
    vkCmdPushConstants(commands, compute_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(constants),
                       constants);
    vkCmdDispatch(commands, NUMBERS / 64, 1, 1);
    run_commands();
}

/* Whether the device computes what the CPU does. */
static void
check_numbers(void)
{
    uint32_t wanted = 1;

    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = 1;
    dispatch(10);
    for (unsigned i = 0; i < 10; i++)
        wanted = wanted * 1664525 + 1013904223;
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i] != wanted) {
            printf("WORK-FAILED number %zu is %u, not %u\n", i, numbers[i], wanted);
            exit(1);
        }
}

/* ---- drawing ---- */

static VkPipeline drawing;
static VkPipelineLayout drawing_layout;
static VkRenderPass pass;
static VkFramebuffer frame;
static VkImage image;

static void
prepare_image(void)
{
    const VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                    .imageType = VK_IMAGE_TYPE_2D,
                                    .format = VK_FORMAT_R8G8B8A8_UNORM,
                                    .extent = {WIDTH, HEIGHT, 1},
                                    .mipLevels = 1,
                                    .arrayLayers = 1,
                                    .samples = VK_SAMPLE_COUNT_1_BIT,
                                    .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT |
                                             VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    const VkAttachmentDescription attachment = {.format = info.format,
                                                .samples = VK_SAMPLE_COUNT_1_BIT,
                                                .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                                .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                                .finalLayout =
                                                    VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL};
    const VkAttachmentReference color = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    const VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
                                          .colorAttachmentCount = 1,
                                          .pColorAttachments = &color};
    const VkRenderPassCreateInfo pass_info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                              .attachmentCount = 1,
                                              .pAttachments = &attachment,
                                              .subpassCount = 1,
                                              .pSubpasses = &subpass};
    VkMemoryRequirements needs;
    VkImageView view;

    DO(vkCreateImage(device, &info, NULL, &image));
    vkGetImageMemoryRequirements(device, image, &needs);
    DO(vkBindImageMemory(device, image, take_memory(needs, 0).memory, 0));
    const VkImageViewCreateInfo view_info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = image,
        .viewType = VK_IMAGE_VIEW_TYPE_2D,
        .format = info.format,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    DO(vkCreateImageView(device, &view_info, NULL, &view));
    DO(vkCreateRenderPass(device, &pass_info, NULL, &pass));
    const VkFramebufferCreateInfo frame_info = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                                .renderPass = pass,
                                                .attachmentCount = 1,
                                                .pAttachments = &view,
                                                .width = WIDTH,
                                                .height = HEIGHT,
                                                .layers = 1};
    DO(vkCreateFramebuffer(device, &frame_info, NULL, &frame));
}

static void
prepare_drawing(void)
{
    prepare_image();
    drawing_layout = make_layout(NULL, VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT);
    const VkPipelineShaderStageCreateInfo stages[] = {
        load_shader(VK_SHADER_STAGE_VERTEX_BIT, vertex_code, sizeof(vertex_code)),
        load_shader(VK_SHADER_STAGE_FRAGMENT_BIT, fragment_code, sizeof(fragment_code))};
    const VkPipelineVertexInputStateCreateInfo vertices = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    const VkPipelineInputAssemblyStateCreateInfo assembly = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
        .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    static const VkDynamicState changing[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    const VkPipelineDynamicStateCreateInfo dynamic = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
        .dynamicStateCount = 2,
        .pDynamicStates = changing};
    const VkPipelineViewportStateCreateInfo viewports = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
        .viewportCount = 1,
        .scissorCount = 1};
    const VkPipelineRasterizationStateCreateInfo raster = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
    const VkPipelineMultisampleStateCreateInfo samples = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
        .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    const VkPipelineColorBlendAttachmentState color = {.colorWriteMask = 15};
    const VkPipelineColorBlendStateCreateInfo blend = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
        .attachmentCount = 1,
        .pAttachments = &color};
    const VkGraphicsPipelineCreateInfo info = {.sType =
                                                   VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                               .stageCount = 2,
                                               .pStages = stages,
                                               .pVertexInputState = &vertices,
                                               .pInputAssemblyState = &assembly,
                                               .pViewportState = &viewports,
                                               .pRasterizationState = &raster,
                                               .pMultisampleState = &samples,
                                               .pColorBlendState = &blend,
                                               .pDynamicState = &dynamic,
                                               .layout = drawing_layout,
                                               .renderPass = pass};
    DO(vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &drawing));
}

static void
draw(const struct scene *scene)
{
    const VkClearValue clear = {.color = {.float32 = {0.1f, 0.2f, 0.3f, 1}}};
    const VkRect2D area = {.extent = {scene->width, scene->height}};
    const VkViewport viewport = {0, 0, (float)scene->width, (float)scene->height, 0, 1};
    const VkRenderPassBeginInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                        .renderPass = pass,
                                        .framebuffer = frame,
                                        .renderArea = area,
                                        .clearValueCount = 1,
                                        .pClearValues = &clear};
    const uint32_t constants[N_CONSTANTS] = {scene->columns, scene->rounds};

    begin_commands();
    vkCmdBeginRenderPass(commands, &info, VK_SUBPASS_CONTENTS_INLINE);
    if (scene->columns > 0) {
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, drawing);
        vkCmdSetViewport(commands, 0, 1, &viewport);
        vkCmdSetScissor(commands, 0, 1, &area);
        vkCmdPushConstants(commands, drawing_layout,
                           VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT, 0,
                           sizeof(constants), constants);
        vkCmdDraw(commands, 3 * scene->columns * scene->columns, 1, 0, 0);
    }
    vkCmdEndRenderPass(commands);
    run_commands();
}

/* ---- copying ---- */

static VkBuffer source, target;
static void *source_bytes, *target_bytes;

static void
prepare_copies(void)
{
    source = make_buffer(BUFFER_BYTES, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, &source_bytes);
    target = make_buffer(BUFFER_BYTES, VK_BUFFER_USAGE_TRANSFER_DST_BIT, &target_bytes);
}

static void
copy_on_device(const void *unused)
{
    const VkBufferCopy all = {.size = BUFFER_BYTES};

    (void)unused;
    begin_commands();
    vkCmdCopyBuffer(commands, source, target, 1, &all);
    run_commands();
}

static void
write_buffer(const void *unused)
{
    (void)unused;
    memset(source_bytes, 1, BUFFER_BYTES);
}

/* A frame's pixels come to the program. */
static void
read_frame(const void *unused)
{
    static char pixels[BUFFER_BYTES];
    const VkBufferImageCopy all = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                   .imageExtent = {WIDTH, HEIGHT, 1}};

    (void)unused;
    begin_commands();
    vkCmdCopyImageToBuffer(commands, image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, target, 1, &all);
    run_commands();
    memcpy(pixels, target_bytes, sizeof(pixels));
}

/* ---- figures ---- */

static void
dispatch_rounds(const void *rounds)
{
    dispatch(*(const uint32_t *)rounds);
}

static void
draw_scene(const void *scene)
{
    draw(scene);
}

static int
compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints the median time of one round, after one that is not counted. */
static void
measure(const char *name, void (*round)(const void *), const void *data)
{
    static double took[ROUNDS_MAX];
    const double began = now_ms();
    size_t n = 0;

    round(data);
    while (n < ROUNDS_MAX && (n < 3 || now_ms() - began < MEASURED_MS)) {
        const double start = now_ms();
        round(data);
        took[n++] = now_ms() - start;
    }
    qsort(took, n, sizeof(took[0]), compare_doubles);
    printf("FIGURE %s %.4f %zu\n", name, took[n / 2], n);
    fflush(stdout);
}

static void
bench(void)
{
    static const uint32_t rounds[] = {1, 10, 30, 100, 1000};
    static const struct scene scenes[] = {{"frame-clear", WIDTH, HEIGHT, 0, 0},
                                          {"frame-triangles", 128, 72, 4, 0},
                                          {"frame-shading", 64, 36, 1, 4}};
    char name[64];

    prepare_drawing();
    prepare_copies();
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        snprintf(name, sizeof(name), "dispatch-%u", rounds[i]);
        measure(name, dispatch_rounds, &rounds[i]);
    }
    measure("write-buffer", write_buffer, NULL);
    measure("copy-buffer", copy_on_device, NULL);
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        measure(scenes[i].name, draw_scene, &scenes[i]);
    measure("read-frame", read_frame, NULL);
}

/* Dispatches for so long, and pauses; one after the other until it is ended. */
static void
load(long busy_ms, long pause_ms)
{
    printf("LOADING %ld %ld\n", busy_ms, pause_ms);
    fflush(stdout);
    for (;;) {
        const double began = now_ms();
        while (now_ms() - began < (double)busy_ms)
            dispatch(20);
        sleep_ms(pause_ms);
    }
}

int
main(int argc, char **argv)
{
    const bool loads = argc == 4 && strcmp(argv[1], "load") == 0;

    if (!loads && !(argc == 2 && strcmp(argv[1], "bench") == 0)) {
        fprintf(stderr, "usage: vulkan-work bench | load BUSY_MS PAUSE_MS\n");
        return 2;
    }
    open_device();
    prepare_compute();
    check_numbers();
    if (loads)
        load(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
    bench();
    printf("WORK-DONE\n");
    return 0;
}
