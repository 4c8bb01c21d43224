/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/gpu-cards.h"

#include <string.h>

#include "base/error.h"

#define ID_BYTES 9 /* "1b36:0010" */

static GStrv gpu_cards; /* in lower case, or NULL */

/* Splits a list at commas and blanks, in lower case. */
static GStrv
gpu_cards_split(const char *text)
{
    g_autofree char *lower = g_ascii_strdown(text, -1);
    g_auto(GStrv) parts = g_strsplit_set(lower, ", ", -1);
    g_autoptr(GStrvBuilder) ids = g_strv_builder_new();

    for (size_t i = 0; parts[i]; i++)
        if (parts[i][0] != '\0')
            g_strv_builder_add(ids, parts[i]);
    return g_strv_builder_end(ids);
}

static bool
gpu_cards_is_id(const char *text)
{
    if (strlen(text) != ID_BYTES || text[4] != ':')
        return false;
    for (size_t i = 0; i < ID_BYTES; i++)
        if (i != 4 && !g_ascii_isxdigit(text[i]))
            return false;
    return true;
}

int
vg_gpu_cards_check(const char *text, GError **err)
{
    g_auto(GStrv) ids = gpu_cards_split(text);

    for (size_t i = 0; ids[i]; i++)
        if (!gpu_cards_is_id(ids[i]))
            return vg_error(err, VG_E_INVALID,
                            "[gpu] cards: '%s' is not VENDOR:DEVICE like 10de:2330, as `lspci -n` "
                            "shows it",
                            ids[i]);
    return 0;
}

void
vg_gpu_cards_set(const char *text)
{
    g_strfreev(gpu_cards);
    gpu_cards = gpu_cards_split(text);
}

bool
vg_gpu_cards_has(const char *pci_id)
{
    return gpu_cards && pci_id && g_strv_contains((const char *const *)gpu_cards, pci_id);
}

/* Driver names: ast, mgag200, hibmc_drm, sm750fb, xgifb and radeon in Linux. */
bool
vg_gpu_cards_is_display(const char *pci_id)
{
    static const char *const ids[] = {
        "1a03:",                  /* ASPEED, which only makes management controllers */
        "102b:052",  "102b:053",  /* Matrox G200 and its chips for servers */
        "19e5:1711",              /* Huawei Hi171x */
        "126f:07",                /* Silicon Motion SM712, SM750 */
        "18ca:002",               /* XGI Z7, Z9 */
        "1002:515e", "1002:4752", /* ATI ES1000, Rage XL */
    };
    bool is = false;

    for (size_t i = 0; pci_id && !is && i < G_N_ELEMENTS(ids); i++)
        is = g_str_has_prefix(pci_id, ids[i]);
    return is && !vg_gpu_cards_has(pci_id);
}
