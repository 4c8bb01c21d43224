/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether each element of libvirt's schemas has a class, and whether what must exist on the target
 * is looked for there.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/domain-class.h"
#include "host/move-objects.h"
#include "host/move-xml.h"
#include "host/target-lacks.h"
#include "move/paths.h"

/* Elements that libvirt of the target is asked about as a whole: its CPU and its QEMU. */
static const char *const asked[] = {"cpu", "os/type", "devices/emulator"};

#define DEVICE(xml) "<domain><devices>" xml "</devices></domain>"
#define CHARDEV(name)                                                                              \
 {"devices/" name "/source",                                                                       \
  DEVICE("<" name " type='dev'><source path='/dev/ttyS9'/></" name ">"), "/dev/ttyS9"},            \
 {                                                                                                 \
  "devices/" name "/source",                                                                       \
      DEVICE("<" name " type='unix'><source mode='connect' path='/run/x'/></" name ">"), "/run/x"  \
 }
#define DISK(rest)       DEVICE("<disk type='file'>" rest "<target dev='vda'/></disk>")
#define CARD(type, rest) DEVICE("<interface type='" type "'>" rest "</interface>")
#define SECRET           "<secret type='ceph' uuid='11111111-2222-4333-8444-000000000007'/>"
#define TUNE(rest)       "<domain><cputune>" rest "</cputune></domain>"
#define BOOT(rest)       "<domain><os>" rest "</os></domain>"

/* A domain that has the element, and a word of what is refused: a path, an object, or a sentence of
 * what the host lacks. */
static const struct {
    const char *element, *xml, *word;
} cases[] = {
    {"vcpu", "<domain><vcpu cpuset='0-1,60'>2</vcpu></domain>", "<vcpu> binds"},
    {"cputune/vcpupin", TUNE("<vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='61'/>"),
     "CPU 61"},
    {"cputune/emulatorpin", TUNE("<emulatorpin cpuset='1-4,^2-3'/>"), "CPU 4"},
    {"cputune/iothreadpin", TUNE("<iothreadpin iothread='1' cpuset='9'/>"), "<iothreadpin> binds"},
    {"cputune/cachetune", TUNE("<cachetune vcpus='0'/>"), "<cachetune>"},
    {"cputune/memorytune", TUNE("<memorytune vcpus='0'/>"), "<memorytune>"},
    {"numatune/memory", "<domain><numatune><memory nodeset='1'/></numatune></domain>",
     "NUMA node 1"},
    {"numatune/memnode", "<domain><numatune><memnode cellid='0' nodeset='3'/></numatune></domain>",
     "NUMA node 3"},
    {"memoryBacking/hugepages",
     "<domain><memoryBacking><hugepages><page size='1' unit='GiB'/></hugepages></memoryBacking>"
     "</domain>",
     "<page> needs huge pages of 1048576 KiB"},
    {"devices/memory/source/nodemask",
     DEVICE("<memory model='dimm'/><memory model='dimm'><source><nodemask>0,2</nodemask></source>"
            "</memory>"),
     "<nodemask> binds"},
    {"devices/memory/source/pagesize",
     DEVICE("<memory model='dimm'><source><pagesize unit='KiB'>1048576</pagesize></source>"
            "</memory>"),
     "<pagesize> needs"},
    {"devices/memory/source/path",
     DEVICE("<memory model='nvdimm'><source><path>/srv/nv</path></source></memory>"), "/srv/nv"},
    {"devices/memory", DEVICE("<memory model='sgx-epc'/>"), "/dev/sgx_vepc"},
    {"sysinfo/entry",
     "<domain><sysinfo type='fwcfg'><entry name='a' file='/srv/fw'/></sysinfo>"
     "</domain>",
     "/srv/fw"},
    {"os/kernel", BOOT("<kernel>/srv/k</kernel>"), "/srv/k"},
    {"os/initrd", BOOT("<initrd>/srv/i</initrd>"), "/srv/i"},
    {"os/dtb", BOOT("<dtb>/srv/d</dtb>"), "/srv/d"},
    {"os/shim", BOOT("<shim>/srv/shim.efi</shim>"), "<shim>"},
    {"os/acpi/table", BOOT("<acpi><table type='slic'>/srv/t</table></acpi>"), "/srv/t"},
    {"os/loader", BOOT("<loader>/srv/fw.fd</loader>"), "/srv/fw.fd"},
    {"devices/disk/source", DISK("<source file='/srv/a'/>"), "the disk 'vda'"},
    {"devices/disk/source", DEVICE("<disk type='volume'><source pool='fast' volume='a'/></disk>"),
     "fast"},
    {"devices/disk/source/dataStore/source",
     DISK("<source file='/srv/a'><dataStore type='file'><source file='/srv/data'/></dataStore>"
          "</source>"),
     "/srv/data"},
    {"devices/disk/backingStore/source",
     DISK("<backingStore type='file'><backingStore type='file'><source file='/srv/b'/>"
          "</backingStore></backingStore>"),
     "/srv/b"},
    {"devices/disk/auth/secret", DISK("<auth username='a'>" SECRET "</auth>"), "000000000007"},
    {"devices/disk/encryption/secret", DISK("<encryption>" SECRET "</encryption>"), "000000000007"},
    {"devices/disk/source/auth/secret", DISK("<source><auth>" SECRET "</auth></source>"),
     "000000000007"},
    {"devices/disk/source/encryption/secret",
     DISK("<source><encryption>" SECRET "</encryption></source>"), "000000000007"},
    CHARDEV("serial"),
    CHARDEV("parallel"),
    CHARDEV("console"),
    CHARDEV("channel"),
    CHARDEV("redirdev"),
    CHARDEV("smartcard"),
    {"devices/smartcard/database",
     DEVICE("<smartcard mode='host-certificates'><database>/srv/nss</database></smartcard>"),
     "<database>"},
    {"devices/rng/backend",
     DEVICE("<rng model='virtio'><backend model='random'>/dev/hwrng9</backend></rng>"), "<rng>"},
    {"devices/rng/backend/source",
     DEVICE("<rng><backend model='egd' type='unix'><source mode='connect' path='/run/egd'/>"
            "</backend></rng>"),
     "/run/egd"},
    {"devices/hostdev/rom", DEVICE("<hostdev/><hostdev><rom file='/srv/patched.rom'/></hostdev>"),
     "<rom>"},
    {"devices/interface/source", CARD("bridge", "<source bridge='br-ten42'/>"), "br-ten42"},
    {"devices/interface/source", CARD("direct", "<source dev='eno9' mode='bridge'/>"), "eno9"},
    {"devices/interface/source", CARD("network", "<source network='tenant' bridge='virbr7'/>"),
     "tenant"},
    {"devices/interface/rom", CARD("network", "<rom file='/srv/ipxe.rom'/>"), "<rom>"},
    {"devices/interface/filterref", CARD("network", "<filterref filter='clean'/>"), "clean"},
    {"devices/interface/script", CARD("ethernet", "<script path='/etc/up'/>"), "<script>"},
    {"devices/interface/downscript", CARD("ethernet", "<downscript path='/etc/down'/>"),
     "<downscript>"},
    {"devices/interface/target", CARD("ethernet", "<target dev='tap7' managed='no'/>"), "tap7"},
    {"devices/interface/driver", CARD("network", "<driver name='vhost'/>"), "/dev/vhost-net"},
    {"devices/filesystem/binary", DEVICE("<filesystem><binary path='/usr/lib/fsd'/></filesystem>"),
     "<binary>"},
    {"devices/tpm/backend", DEVICE("<tpm><backend type='emulator'/></tpm>"), "swtpm"},
    {"devices/tpm/backend/source",
     DEVICE("<tpm><backend type='emulator'><source type='file' path='/srv/tpm'/></backend></tpm>"),
     "the state of the TPM"},
    {"devices/tpm/backend/encryption",
     DEVICE("<tpm><backend type='emulator'><encryption secret='abc'/></backend></tpm>"), "abc"},
    {"devices/graphics/gl",
     DEVICE("<graphics type='spice'><gl enable='yes' rendernode='/dev/dri/renderD139'/>"
            "</graphics>"),
     "renderD139"},
    {"devices/graphics/listen",
     DEVICE("<graphics type='vnc'><listen type='network' network='mgmt'/></graphics>"), "mgmt"},
    {"devices/video/model/acceleration",
     DEVICE("<video><model><acceleration rendernode='/dev/dri/renderD140'/></model></video>"),
     "renderD140"},
    {"devices/input/source",
     DEVICE("<input type='evdev'><source dev='/dev/input/event9'/></input>"), "event9"},
    {"devices/audio/input", DEVICE("<audio type='oss'><input dev='/dev/dsp9'/></audio>"), "dsp9"},
    {"devices/audio/output", DEVICE("<audio type='oss'><output dev='/dev/dsp8'/></audio>"), "dsp8"},
    {"devices/vsock", DEVICE("<vsock model='virtio'/>"), "/dev/vhost-vsock"},
    {"devices/pstore/path", DEVICE("<pstore><path>/srv/ps</path></pstore>"), "<pstore>"},
    {"devices/lease/target", DEVICE("<lease><target path='/srv/lease'/></lease>"), "<lease>"},
};

/* Two NUMA nodes, of which one has no huge page, and four CPUs. */
static const char host[] =
    "<capabilities><host><topology><cells num='2'>"
    "<cell id='0'><pages unit='KiB' size='4'>100</pages><pages unit='KiB' size='2048'>8</pages>"
    "<pages unit='KiB' size='1048576'>0</pages><cpus><cpu id='0'/><cpu id='1'/></cpus></cell>"
    "<cell id='4'><pages unit='KiB' size='2048'>0</pages><cpus><cpu id='2'/><cpu id='3'/></cpus>"
    "</cell></cells></topology></host></capabilities>";

static const char qemu[] = "<domainCapabilities><devices><tpm supported='yes'><enum "
                           "name='backendModel'><value>passthrough</value></enum></tpm></devices>"
                           "</domainCapabilities>";

static char *
lists(void)
{
    static const char *const versions[] = {"9.0", "11.3"};
    const char *srcdir = getenv("VG_SRCDIR");
    GString *all = g_string_new(NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(versions); i++) {
        g_autofree char *path = g_strdup_printf("%s/tests/data/libvirt-domain/elements-%s.txt",
                                                srcdir ? srcdir : ".", versions[i]);
        g_autofree char *text = NULL;
        assert_true(g_file_get_contents(path, &text, NULL, NULL));
        g_string_append(all, text);
    }
    return g_string_free(all, FALSE);
}

/* Returns what a target that has nothing is refused for, one sentence a line. */
static char *
refusals(const char *xml)
{
    g_autoptr(vg_move_needs) needs = vg_move_needs_read(xml, NULL);
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);
    struct vg_path_seen nothing = {.state = VG_PATH_MISSING};
    GString *text = g_string_new(NULL);

    assert_non_null(needs);
    for (guint i = 0; i < needs->paths->len; i++) {
        struct vg_path_check *check =
            vg_path_judge(needs->paths->pdata[i], NULL, &nothing, "a", "b");
        if (check->verdict == VG_PATH_REFUSED)
            g_string_append_printf(text, "%s\n", check->text);
        vg_path_check_free(check);
    }
    for (guint i = 0; i < needs->objects->len; i++)
        g_string_append_printf(text, "%s\n",
                               ((const struct vg_move_object *)needs->objects->pdata[i])->name);
    assert_int_equal(vg_target_lacks(xml, host, qemu, problems, NULL), 0);
    for (guint i = 0; i < problems->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)problems->pdata[i]);
    return g_string_free(text, FALSE);
}

static void
test_each_element_has_a_class(void **state)
{
    g_autofree char *text = lists();
    g_auto(GStrv) paths = g_strsplit(g_strchomp(text), "\n", -1);

    (void)state;
    assert_true(g_strv_length(paths) > 1500);
    for (size_t i = 0; paths[i]; i++)
        if (vg_domain_class_of(paths[i]) == VG_DOMAIN_CLASS_NEW)
            fail_msg("%s has no class in host/domain-class.c", paths[i]);
    assert_int_equal(vg_domain_class_of("devices/teleporter"), VG_DOMAIN_CLASS_NEW);
    assert_int_equal(vg_domain_class_of("devices/hostdev"), VG_DOMAIN_CLASS_BLOCKS);
    assert_int_equal(vg_domain_class_of("description"), VG_DOMAIN_CLASS_IRRELEVANT);
}

/* Whether a case, or libvirt, answers for an element, or for the one that it is a part of. */
static bool
is_tried(const char *path)
{
    bool tried = false;

    for (size_t i = 0; i < G_N_ELEMENTS(cases) && !tried; i++)
        tried = g_str_has_prefix(path, cases[i].element);
    for (size_t i = 0; i < G_N_ELEMENTS(asked) && !tried; i++)
        tried = g_str_has_prefix(path, asked[i]);
    return tried;
}

static void
test_each_need_is_tried(void **state)
{
    g_autofree char *text = lists();
    g_auto(GStrv) paths = g_strsplit(g_strchomp(text), "\n", -1);

    (void)state;
    for (size_t i = 0; paths[i]; i++)
        if (vg_domain_class_of(paths[i]) == VG_DOMAIN_CLASS_TARGET && !is_tried(paths[i]))
            fail_msg("no case shows that a target without %s is refused", paths[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (vg_domain_class_of(cases[i].element) != VG_DOMAIN_CLASS_TARGET)
            fail_msg("%s is not of the class TARGET", cases[i].element);
}

static void
test_target_without_it_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = refusals(cases[i].xml);
        if (!strstr(text, cases[i].word))
            fail_msg("%s: '%s' is not in: %s", cases[i].element, cases[i].word, text);
    }
}

/* What the target has, or what cannot be told, is no problem. */
static void
test_target_with_it_is_not_refused(void **state)
{
    static const char *const good[] = {
        "<domain><vcpu cpuset='0-3'>4</vcpu><cputune><vcpupin vcpu='0' cpuset='0-99,^4-99'/>"
        "</cputune><numatune><memory nodeset='0,4'/></numatune><memoryBacking><hugepages>"
        "<page size='2048' unit='KiB' nodeset='0'/></hugepages></memoryBacking></domain>",
        "<domain><memoryBacking><hugepages/></memoryBacking></domain>",
        "<domain><memoryBacking><hugepages><page size='4'/></hugepages></memoryBacking></domain>",
        DEVICE("<serial type='pty'><source path='/dev/pts/3'/></serial><serial type='unix'>"
               "<source mode='bind' path='/run/x'/></serial><hostdev><rom bar='on'/></hostdev>"),
        CARD("ethernet", "<target dev='tap0'/>"),
        DEVICE("<audio type='alsa'><input dev='default'/></audio>"),
        DEVICE("<tpm><backend type='passthrough'/></tpm>"),
    };
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autofree char *text = refusals(good[i]);
        if (*text)
            fail_msg("case %zu: %s", i, text);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        assert_int_equal(vg_target_lacks(cases[i].xml, "<capabilities/>", NULL, problems, NULL), 0);
    assert_int_equal(problems->len, 0);
    assert_int_equal(vg_target_lacks("<domain/>", "<host/>", NULL, problems, NULL), -1);
}

static void
test_news_are_named(void **state)
{
    g_autoptr(vg_move_needs) needs = vg_move_needs_read(
        "<domain><metadata><x><y/></x></metadata><devices><teleporter><a/></teleporter>"
        "<teleporter/><disk><backingStore><backingStore/></backingStore></disk></devices>"
        "<warp/></domain>",
        NULL);

    (void)state;
    assert_int_equal(needs->news->len, 2);
    assert_string_equal(needs->news->pdata[0], "devices/teleporter");
    assert_string_equal(needs->news->pdata[1], "warp");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_has_a_class),
        cmocka_unit_test(test_each_need_is_tried),
        cmocka_unit_test(test_target_without_it_is_refused),
        cmocka_unit_test(test_target_with_it_is_not_refused),
        cmocka_unit_test(test_news_are_named),
    };
    return cmocka_run_group_tests_name("domain-class", tests, NULL, NULL);
}
