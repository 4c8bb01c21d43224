/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "host/vulkan-xml.h"
#include "host/xml-undo.h"

#define QEMU "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"

#define QXL                                                                                        \
 "<video><model type='qxl' ram='65536' vram='65536' vgamem='16384' heads='1' primary='yes'/>"      \
 "<address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/></video>"

/* What libvirt adds of its own when the domain has a display, and one more bus. */
#define ADDED                                                                                      \
 "<controller type='pci' index='3' model='pcie-root-port'/>"                                       \
 "<input type='mouse' bus='ps2'/><input type='keyboard' bus='ps2'/><audio id='1' type='none'/>"

#define EMULATOR "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
#define SPAWN    "<emulator>" VG_VULKAN_EMULATORS "/qemu-system-x86_64</emulator>"

static char *
vulkan_xml_domain(const char *top, const char *devices)
{
    return g_strdup_printf("<domain type='kvm'>\n  <name>a</name>\n%s  <devices>\n"
                           "    <controller type='pci' index='1' model='pcie-root-port'/>\n%s"
                           "  </devices>\n</domain>",
                           top, devices);
}

static char *
vulkan_xml_canonical(const char *xml)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", NULL);

    assert_non_null(doc);
    return vg_xml_canonical(vg_xml_root(doc));
}

static void
vulkan_xml_assert_same(const char *one, const char *other)
{
    g_autofree char *a = vulkan_xml_canonical(one), *b = vulkan_xml_canonical(other);

    assert_string_equal(a, b);
}

/* Replaces the first `what` of a text that must have it. */
static char *
vulkan_xml_replace(const char *text, const char *what, const char *by)
{
    const char *at = strstr(text, what);

    assert_non_null(at);
    return g_strdup_printf("%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
}

/* Enables Vulkan as actuators/virt-vulkan does, with a libvirt that adds these devices; of a domain
 * that names its emulator, the sandbox is loosened. */
static char *
vulkan_xml_enable(const char *before, const char *added)
{
    const struct vg_vulkan_request request = {.enabled = true,
                                              .hostmem_bytes = 256 << 20,
                                              .loosen_sandbox = strstr(before, "<emulator>")};
    g_autofree char *wanted = vg_vulkan_xml_enable(before, &request, NULL);
    assert_non_null(wanted);
    g_autofree char *after = vulkan_xml_replace(wanted, "</devices>", added);
    assert_int_equal(vg_vulkan_xml_check(after, NULL), 0);
    g_autofree char *note = vg_vulkan_xml_note(before, after, request.hostmem_bytes, NULL);
    assert_non_null(note);
    g_autofree char *named =
        vulkan_xml_replace(note, "<vulkan ", "<vgpud:vulkan xmlns:vgpud='" VG_VULKAN_XML_URI "' ");
    g_autofree char *closed = vulkan_xml_replace(named, "</vulkan>", "</vgpud:vulkan>");
    if (strstr(after, "<metadata>")) {
        g_autofree char *both = g_strdup_printf("<metadata>%s", closed);
        return vulkan_xml_replace(after, "<metadata>", both);
    }
    g_autofree char *metadata = g_strdup_printf("</name><metadata>%s</metadata>", closed);
    return vulkan_xml_replace(after, "</name>", metadata);
}

static char *
vulkan_xml_disable(const char *xml, guint n_kept)
{
    g_autoptr(GPtrArray) kept = g_ptr_array_new_with_free_func(g_free);
    char *plain = vg_vulkan_xml_disable(xml, kept, NULL);

    assert_non_null(plain);
    for (guint i = 0; i < kept->len && n_kept == 0; i++)
        fail_msg("%s", (const char *)kept->pdata[i]);
    assert_int_equal(kept->len, n_kept);
    return plain;
}

/* ---- there and back ---- */

static const struct {
    const char *top, *devices;
} vulkan_xml_domains[] = {
    {"", ""},
    {"", QXL},
    {"", "<video><model type='none'/></video>"},
    {"", "<video><model type='virtio' heads='2' primary='yes'><acceleration accel3d='no'/></model>"
         "<alias name='ua-mine'/></video>" QXL},
    {"<memoryBacking><locked/></memoryBacking>", QXL},
    {"<memoryBacking><source type='file'/><access mode='private'/></memoryBacking>", QXL},
    {"<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>", QXL},
    {"<metadata><x:other xmlns:x='urn:x'>text</x:other></metadata>", QXL},
    {"", "<graphics type='spice' autoport='yes' passwd='secret'><gl enable='yes'/></graphics>" QXL},
    {"", "<graphics type='vnc' port='-1' autoport='yes' passwd='a&amp;b'/>" QXL},
    {"", "<graphics type='egl-headless'><gl rendernode='/dev/dri/renderD129'/></graphics>" QXL},
    {"", EMULATOR QXL},
    {"", "<emulator>/usr/libexec/qemu-kvm</emulator>"},
};

static void
test_there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(vulkan_xml_domains); i++) {
        g_autofree char *before =
            vulkan_xml_domain(vulkan_xml_domains[i].top, vulkan_xml_domains[i].devices);
        const char *const added[] = {"</devices>", ADDED "</devices>"};
        for (size_t k = 0; k < G_N_ELEMENTS(added); k++) {
            g_autofree char *with = vulkan_xml_enable(before, added[k]);
            g_autofree char *plain = vulkan_xml_disable(with, 0);
            vulkan_xml_assert_same(before, plain);
            assert_null(strstr(plain, "vgpud"));
        }
    }
}

/* A domain that has overrides of its own keeps them, and the one of hostmem has its value again. */
static void
test_overrides(void **state)
{
    (void)state;
    g_autofree char *before = g_strdup(
        "<domain type='kvm' " QEMU "><name>a</name><devices>"
        "<video><model type='virtio'/><alias name='ua-v'/></video></devices>"
        "<qemu:override><qemu:device alias='ua-v'><qemu:frontend>"
        "<qemu:property name='hostmem' type='unsigned' value='1'/>"
        "<qemu:property name='max_outputs' type='unsigned' value='2'/>"
        "</qemu:frontend></qemu:device><qemu:device alias='net0'/></qemu:override></domain>");
    g_autofree char *with = vulkan_xml_enable(before, ADDED "</devices>");
    assert_non_null(strstr(with, "value=\"268435456\""));
    g_autofree char *plain = vulkan_xml_disable(with, 0);
    vulkan_xml_assert_same(before, plain);
}

static void
test_what_is_put_in(void **state)
{
    (void)state;
    const struct vg_vulkan_request request = {.enabled = true,
                                              .render_node = (char *)"/dev/dri/renderD129"};
    g_autofree char *before = vulkan_xml_domain("", QXL);
    g_autofree char *with = vg_vulkan_xml_enable(before, &request, NULL);
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    assert_int_equal(vg_vulkan_xml_compare(before, with, lines, NULL), 0);
    g_ptr_array_add(lines, NULL);
    g_autofree char *text = g_strjoinv("\n", (char **)lines->pdata);
    assert_string_equal(
        text, "+ <memoryBacking>\n"
              "+   <source type='memfd'/>\n"
              "+   <access mode='shared'/>\n"
              "+ </memoryBacking>\n"
              "+ <qemu:override>\n"
              "+   <qemu:device alias='ua-vulkan'>\n"
              "+     <qemu:frontend>\n"
              "+       <qemu:property name='venus' type='bool' value='true'/>\n"
              "+       <qemu:property name='hostmem' type='unsigned' value='4294967296'/>\n"
              "+     </qemu:frontend>\n"
              "+   </qemu:device>\n"
              "+ </qemu:override>\n"
              "- <video>\n"
              "-   <model type='qxl' ram='65536' vram='65536' vgamem='16384' heads='1' "
              "primary='yes'/>\n"
              "-   <address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/>\n"
              "- </video>\n"
              "+ <video>\n"
              "+   <model type='virtio' heads='1' primary='yes' blob='on'>\n"
              "+     <acceleration accel3d='yes'/>\n"
              "+   </model>\n"
              "+   <address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/>\n"
              "+   <alias name='ua-vulkan'/>\n"
              "+ </video>\n"
              "+ <graphics type='egl-headless'>\n"
              "+   <gl rendernode='/dev/dri/renderD129'/>\n"
              "+ </graphics>");
}

/* ---- what others change in between ---- */

static const struct {
    const char *what, *by;             /* in the domain with Vulkan */
    const char *in_before, *of_before; /* what the domain without it then has, too */
} vulkan_xml_changes[] = {
    {"<name>a</name>", "<name>b</name>", "<name>a</name>", "<name>b</name>"},
    {"heads=\"1\"", "heads=\"3\"", "heads='1'", "heads='3'"},
    {"<access mode=\"shared\"/>", "<access mode=\"shared\"/><locked/>", "</name>",
     "</name><memoryBacking><locked/></memoryBacking>"},
    {"value=\"268435456\"", "value=\"1048576\"", "</name>", "</name>"},
    {"<audio id='1' type='none'/>", "<audio id='1' type='none'/><rng model='virtio'/>", "<video>",
     "<rng model='virtio'/><video>"},
};

static void
test_others_change_it(void **state)
{
    (void)state;
    g_autofree char *before = vulkan_xml_domain("", QXL);
    g_autofree char *with = vulkan_xml_enable(before, ADDED "</devices>");

    for (size_t i = 0; i < G_N_ELEMENTS(vulkan_xml_changes); i++) {
        g_autofree char *changed =
            vulkan_xml_replace(with, vulkan_xml_changes[i].what, vulkan_xml_changes[i].by);
        g_autofree char *plain = vulkan_xml_disable(changed, 0);
        g_autofree char *wanted = vulkan_xml_replace(before, vulkan_xml_changes[i].in_before,
                                                     vulkan_xml_changes[i].of_before);
        g_autoptr(vg_xml) one = vg_xml_parse(wanted, "domain", NULL);
        g_autoptr(vg_xml) other = vg_xml_parse(plain, "domain", NULL);
        g_autoptr(GPtrArray) lost = vg_xml_only_in(vg_xml_root(one), vg_xml_root(other), NULL);
        for (guint n = 0; n < lost->len; n++)
            assert_string_equal((const char *)((const xmlNode *)lost->pdata[n])->name, "devices");
        g_autoptr(GPtrArray) devices =
            vg_xml_only_in(vg_xml_child(vg_xml_root(one), "devices"),
                           vg_xml_child(vg_xml_root(other), "devices"), NULL);
        assert_int_equal(devices->len, 0);
    }
}

/* A bus that libvirt has made stays if another device has been put on it since. */
static void
test_bus_in_use(void **state)
{
    (void)state;
    g_autofree char *before = vulkan_xml_domain("", QXL);
    g_autofree char *with = vulkan_xml_enable(before, ADDED "</devices>");
    g_autofree char *used = vulkan_xml_replace(
        with, "<audio id='1' type='none'/>",
        "<audio id='1' type='none'/><rng model='virtio'><address type='pci' domain='0x0000' "
        "bus='0x03' slot='0x00' function='0x0'/></rng>");
    g_autofree char *plain = vulkan_xml_disable(used, 0);
    assert_non_null(strstr(plain, "index=\"3\""));
    assert_null(strstr(plain, "<input"));
}

/* A video card that somebody has replaced is left alone, and the rest is taken back. */
static void
test_card_replaced(void **state)
{
    (void)state;
    g_autofree char *before = vulkan_xml_domain("", QXL);
    g_autofree char *with = vulkan_xml_enable(before, "</devices>");
    g_autofree char *other =
        vulkan_xml_replace(with, "<alias name=\"ua-vulkan\"/>", "<alias name=\"ua-mine\"/>");
    g_autofree char *plain = vulkan_xml_disable(other, 1);
    assert_non_null(strstr(plain, "ua-mine"));
    assert_null(strstr(plain, "memfd"));
    assert_null(strstr(plain, "override"));
    assert_null(strstr(plain, "egl-headless"));
}

/* Only the emulator of a VM that is let out of its sandbox is another one, and one that somebody
 * has put in its place stays. */
static void
test_loosened(void **state)
{
    (void)state;
    g_autofree char *before = vulkan_xml_domain("", EMULATOR QXL);
    g_autofree char *with = vulkan_xml_enable(before, ADDED "</devices>");
    struct vg_vulkan_found found;
    assert_non_null(strstr(with, SPAWN));
    assert_int_equal(vg_vulkan_xml_read(with, &found, NULL), 0);
    assert_true(found.ours && found.loose);

    g_autofree char *other = vulkan_xml_replace(with, SPAWN, "<emulator>/opt/qemu</emulator>");
    assert_int_equal(vg_vulkan_xml_read(other, &found, NULL), 0);
    assert_true(found.ours && !found.loose);
    g_autofree char *plain = vulkan_xml_disable(other, 1);
    assert_null(strstr(plain, "qemu-system"));
    assert_non_null(strstr(plain, "<emulator>/opt/qemu</emulator>"));

    const struct vg_vulkan_request bound = {.enabled = true};
    g_autofree char *kept = vg_vulkan_xml_enable(before, &bound, NULL);
    assert_non_null(strstr(kept, EMULATOR));
}

static void
test_not_loosened(void **state)
{
    static const struct {
        const char *devices, *words;
    } cases[] = {
        {QXL, "no <emulator>"},
        {"<emulator>/opt/qemu</emulator>", "emulator /opt/qemu is not in"},
        {"<emulator>qemu</emulator>", "no <emulator>"},
    };
    const struct vg_vulkan_request request = {.enabled = true, .loosen_sandbox = true};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *before = vulkan_xml_domain("", cases[i].devices);
        g_autoptr(GError) err = NULL;
        assert_null(vg_vulkan_xml_enable(before, &request, &err));
        assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
        assert_non_null(strstr(err->message, cases[i].words));
    }
}

/* ---- refusals ---- */

static void
test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *devices, *words;
    } cases[] = {
        {"<video><driver name='vhostuser'/><model type='virtio'/></video>", "vhost-user"},
        {"<video><model type='virtio'/><alias name='ua-v'/></video></devices>"
         "<override><device alias='ua-v'><frontend><property name='venus' type='bool' "
         "value='true'/></frontend></device></override><devices>",
         "vgpud did not add"},
        {"</devices><commandline><arg value='-device'/>"
         "<arg value='virtio-gpu-gl-pci,hostmem=4G,blob=true,venus=true'/></commandline><devices>",
         "vgpud did not add"},
    };
    const struct vg_vulkan_request request = {.enabled = true};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *before = vulkan_xml_domain("", cases[i].devices);
        g_autoptr(GError) err = NULL;
        assert_null(vg_vulkan_xml_enable(before, &request, &err));
        assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
        assert_non_null(strstr(err->message, cases[i].words));
        g_autoptr(GError) never = NULL;
        assert_null(vg_vulkan_xml_disable(before, NULL, &never));
        assert_true(g_error_matches(never, VG_ERROR, VG_E_CONFLICT));
    }
}

/* libvirt leaves out what it does not know. */
static void
test_not_kept(void **state)
{
    (void)state;
    const struct vg_vulkan_request request = {.enabled = true};
    static const char *const lost[] = {"blob=\"on\"", "value=\"true\"", "type=\"memfd\"",
                                       "mode=\"shared\""};
    g_autofree char *before = vulkan_xml_domain("", QXL);
    g_autofree char *with = vg_vulkan_xml_enable(before, &request, NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(lost); i++) {
        g_autofree char *without = vulkan_xml_replace(with, lost[i], "");
        g_autoptr(GError) err = NULL;
        assert_int_equal(vg_vulkan_xml_check(without, &err), -1);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_EXTERNAL));
    }
}

static void
test_request(void **state)
{
    (void)state;
    static const struct {
        bool enabled;
        int64_t hostmem;
        const char *node;
        bool good, loosen;
    } cases[] = {
        {true, 0, NULL, true, false},
        {true, VG_VULKAN_HOSTMEM_MIN, "/dev/dri/renderD128", true, false},
        {true, VG_VULKAN_HOSTMEM_MAX, NULL, true, false},
        {true, VG_VULKAN_HOSTMEM_MIN / 2, NULL, false, false},
        {true, VG_VULKAN_HOSTMEM_MAX * 2, NULL, false, false},
        {true, 3 << 28, NULL, false, false},
        {true, 0, "/etc/passwd", false, false},
        {false, 0, NULL, true, false},
        {false, VG_VULKAN_HOSTMEM_MIN, NULL, false, false},
        {false, 0, "/dev/dri/renderD128", false, false},
        {true, 0, NULL, true, true},
        {false, 0, NULL, false, true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct vg_vulkan_request request = {cases[i].enabled, cases[i].hostmem,
                                                  (char *)cases[i].node, cases[i].loosen, false};
        assert_int_equal(vg_vulkan_request_check(&request, NULL), cases[i].good ? 0 : -1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_what_is_put_in), cmocka_unit_test(test_others_change_it),
        cmocka_unit_test(test_bus_in_use),     cmocka_unit_test(test_card_replaced),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_request),        cmocka_unit_test(test_loosened),
        cmocka_unit_test(test_not_loosened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
