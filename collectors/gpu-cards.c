/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/gpu-cards.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/names.h"

/* The maximum number of devices of one host. */
#define CARDS_MAX 256

struct card {
    char minor[VG_NAME_SIZE];  /* "card0", or empty */
    char kernel[VG_NAME_SIZE]; /* "0000:03:00.0", "1002000000.v3d" */
    char driver[VG_NAME_SIZE]; /* or empty */
    bool renders;
};

struct vg_gpu_cards {
    char *drm;
    GArray *cards; /* struct card */
};

static bool
is_render_node(const char *name)
{
    return strncmp(name, "renderD", strlen("renderD")) == 0;
}

bool
vg_gpu_cards_can_render(const char *drm)
{
    DIR *dir = opendir(drm);
    bool found = false;

    if (!dir)
        return false;
    for (const struct dirent *entry = readdir(dir); entry && !found; entry = readdir(dir))
        found = is_render_node(entry->d_name);
    closedir(dir);
    return found;
}

vg_gpu_cards *
vg_gpu_cards_new(const char *drm)
{
    vg_gpu_cards *cards = g_new0(vg_gpu_cards, 1);

    cards->drm = g_strdup(drm);
    cards->cards = g_array_new(FALSE, TRUE, sizeof(struct card));
    return cards;
}

void
vg_gpu_cards_free(vg_gpu_cards *cards)
{
    if (!cards)
        return;
    g_array_unref(cards->cards);
    g_free(cards->drm);
    g_free(cards);
}

/* ---- reading ---- */

/* Reads the last component of the link drm/NAME/LINK, or an empty string if there is none. */
static void
read_link(const vg_gpu_cards *cards, const char *name, const char *link, char ret[VG_NAME_SIZE])
{
    char path[PATH_MAX], target[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/%s", cards->drm, name, link);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[MAX(n, 0)] = '\0';
    const char *slash = strrchr(target, '/');
    g_strlcpy(ret, slash ? slash + 1 : target, VG_NAME_SIZE);
}

/* Returns whether the name is that of a card ("card0"), not a connector ("card0-HDMI-A-1"). */
static bool
is_card(const char *name)
{
    const char *digits = name + strlen("card");

    return strncmp(name, "card", strlen("card")) == 0 && *digits != '\0' &&
           strspn(digits, "0123456789") == strlen(digits);
}

static struct card *
need_card(vg_gpu_cards *cards, const char *kernel)
{
    for (unsigned i = 0; i < cards->cards->len; i++) {
        struct card *card = &g_array_index(cards->cards, struct card, i);
        if (strcmp(card->kernel, kernel) == 0)
            return card;
    }
    if (cards->cards->len == CARDS_MAX)
        return NULL;
    g_array_set_size(cards->cards, cards->cards->len + 1);
    struct card *card = &g_array_index(cards->cards, struct card, cards->cards->len - 1);
    g_strlcpy(card->kernel, kernel, sizeof(card->kernel));
    return card;
}

static void
read_node(vg_gpu_cards *cards, const char *name)
{
    char kernel[VG_NAME_SIZE];

    if (!is_card(name) && !is_render_node(name))
        return;
    read_link(cards, name, "device", kernel);
    struct card *card = kernel[0] ? need_card(cards, kernel) : NULL;
    if (!card)
        return;
    read_link(cards, name, "device/driver", card->driver);
    if (is_card(name))
        g_strlcpy(card->minor, name, sizeof(card->minor));
    else
        card->renders = true;
}

void
vg_gpu_cards_read(vg_gpu_cards *cards)
{
    DIR *dir = opendir(cards->drm);

    g_array_set_size(cards->cards, 0);
    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        read_node(cards, entry->d_name);
    closedir(dir);
}

/* ---- asking ---- */

/* Returns whether the name is a PCI address ("0000:03:00.0"). */
static bool
is_pci(const char *name)
{
    unsigned domain, bus, slot, function;
    int n = 0;

    return sscanf(name, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) == 4 &&
           name[n] == '\0';
}

static const char *
common_name(const struct card *card)
{
    return is_pci(card->kernel) || !card->driver[0] ? card->kernel : card->driver;
}

static bool
card_matches(const struct card *card, const char *name)
{
    return strcmp(card->minor, name) == 0 || g_ascii_strcasecmp(card->kernel, name) == 0;
}

/* Finds the only render device with this driver, or with any driver if it is empty. Returns NULL if
 * there is none, or more than one. */
static const struct card *
only_one(const vg_gpu_cards *cards, const char *driver)
{
    const struct card *found = NULL;

    for (unsigned i = 0; i < cards->cards->len; i++) {
        const struct card *card = &g_array_index(cards->cards, struct card, i);
        if (!card->renders || (driver[0] && strcmp(card->driver, driver) != 0))
            continue;
        if (found)
            return NULL;
        found = card;
    }
    return found;
}

const char *
vg_gpu_cards_device(const vg_gpu_cards *cards, const char *name)
{
    for (unsigned i = 0; name[0] && i < cards->cards->len; i++) {
        const struct card *card = &g_array_index(cards->cards, struct card, i);
        if (card_matches(card, name))
            return common_name(card);
    }
    const struct card *only = only_one(cards, name);
    return only ? common_name(only) : NULL;
}

const char *
vg_gpu_cards_driver(const vg_gpu_cards *cards, const char *device)
{
    for (unsigned i = 0; i < cards->cards->len; i++) {
        const struct card *card = &g_array_index(cards->cards, struct card, i);
        if (strcmp(common_name(card), device) == 0)
            return card->driver[0] ? card->driver : NULL;
    }
    return NULL;
}
