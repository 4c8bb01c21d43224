#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An emulated Debian 13 host with an IOMMU, cards behind it, and AMD-V; see README.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

usage()
{
    cat << 'END'
usage: tests/vfio/host.sh COMMAND

  pack DIRECTORY PROGRAMS    make DIRECTORY/initramfs, for all hosts: vgpud, vgpuctl,
                             vgpu-guestd and vgpu-proxy of the build directory PROGRAMS, with
                             their libraries
  boot NUMBER DIRECTORY COMMANDS API LINK PEER [IOMMU]
                             become the emulator of host NUMBER (1 or 2), with its console in
                             DIRECTORY/console-NUMBER and its monitor at DIRECTORY/monitor-NUMBER.
                             COMMANDS and API are ports of 127.0.0.1 for scripts (host-command)
                             and for vgpud's socket; LINK and PEER are UDP ports of this host and of
                             the other one, which are a cable between them. IOMMU is on, or off: the
                             kernel does not use it then; or vulkan: a host without cards, that has
                             Debian 13's system as a second disk for guests

Environment:
  VG_VFIO_CPUS    CPUs of a host (default: 1; README says what more cost)
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$("$here/image.sh" cache)
# Those of libc are Debian 13's: they are newer, and a process has only one libc.
libc='ld-linux-x86-64\.so|lib(c|m|dl|rt|pthread|resolv|util)\.so'

die()
{
    echo "vfio: $*" >&2
    exit 1
}

# ---- what a host runs ----

# libraries PROGRAM: the files.
libraries()
{
    ldd "$1" | sed -nE 's,^.*=> (/[^ ]+) .*$,\1,p; s,^[[:blank:]]+(/[^ ]+) .*$,\1,p'
}

# archive ROOT FILE
archive()
{
    (cd "$1" && find . | sort | cpio -o -H newc -R 0:0 --quiet) > "$2"
}

# A guest has nothing of Debian 13 but its kernel.
make_guest()
{
    local root=$1 programs=$2 file
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,usr/sbin,run} "$root"/etc/vgpud/guest-hooks.d/{prepare,resume}
    cp "$cache/root/usr/bin/busybox" "$root/bin/"
    ln -s busybox "$root/bin/sh"
    strip -o "$root/usr/sbin/vgpu-guestd" "$programs/vgpu-guestd"
    for file in $(libraries "$programs/vgpu-guestd"); do
        install -D -m 755 "$(realpath "$file")" "$root$file"
    done
    install -m 755 "$here/guest-init" "$root/init"
    for file in prepare resume; do
        install -m 755 "$here/guest-hook" "$root/etc/vgpud/guest-hooks.d/$file/10-tell"
    done
}

# emulated PROGRAM WORD...: runs a program of Debian 13, with its own libc.
emulated()
{
    "$cache/root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$cache/root/usr/lib/x86_64-linux-gnu" \
        "$cache/root/usr/bin/$1" "${@:2}"
}

# make_work DIRECTORY PROGRAMS: a program of Vulkan and its shaders, for hosts and guests.
make_work()
{
    local directory=$1 programs=$2 shader
    for shader in comp:compute vert:vertex frag:fragment; do
        emulated glslangValidator -V --vn "${shader#*:}_code" -o "$directory/vulkan-work.${shader%:*}.h" \
            "$here/vulkan-work.${shader%:*}" > "$directory/glslang.log" || die "$(cat "$directory/glslang.log")"
    done
    "${CC:-cc}" -std=gnu17 -O2 -I"$programs" -I"$directory" -idirafter "$cache/root/usr/include" "$here/vulkan-work.c" \
        "$cache/root/usr/lib/x86_64-linux-gnu/libvulkan.so.1" -Wl,--allow-shlib-undefined \
        -o "$directory/vulkan-work"
}

# make_opencl DIRECTORY PROGRAMS: a program of OpenCL, and the library that has it use a proxy.
make_opencl()
{
    local directory=$1 programs=$2
    mkdir -p "$directory"
    strip -o "$directory/libvgpu-opencl.so" "$programs/libvgpu-opencl.so"
    strip -o "$directory/waves" "$programs/tests/opencl/waves"
}

# A guest that works with Vulkan or OpenCL has Debian 13's system as a disk.
make_vulkan_guest()
{
    local root=$1 work=$2 programs=$3
    mkdir -p "$root"/{bin,proc,sys,dev,root}
    (cd "$root" && cpio -id --quiet 'modules/*') < "$cache/initramfs.cpio"
    cp "$cache/root/usr/bin/busybox" "$root/bin/"
    ln -s busybox "$root/bin/sh"
    cp "$work/vulkan-work" "$root/"
    make_opencl "$root/opencl" "$programs"
    install -m 755 "$here/guest-vulkan-init" "$root/init"
}

pack()
{
    local directory=$1 programs=$2 root name file emulators
    [ -f "$cache/made-from" ] || die "there is no image: image.sh build makes it"
    root=$(mktemp -d "$directory/pack.XXXXXX")
    mkdir -p "$root"/host/{bin,brought/{opt/vgpud/lib,guest}} "$root"/{guest,vulkan,built}
    ln -s busybox "$root/host/bin/sh"
    for name in vgpud vgpuctl; do
        strip -o "$root/host/brought/opt/vgpud/$name" "$programs/$name"
        for file in $(libraries "$programs/$name" | grep -vE "/($libc)"); do
            cp -L "$file" "$root/host/brought/opt/vgpud/lib/"
        done
    done
    install -m 755 "$here/host-init" "$here/host-command" "$here/host-systemd" "$root/host/brought/"
    install -m 755 "$here/host-mount" "$root/host/init"
    make_guest "$root/guest" "$programs"
    archive "$root/guest" "$root/host/brought/guest/initrd"
    make_work "$root/built" "$programs"
    make_vulkan_guest "$root/vulkan" "$root/built" "$programs"
    archive "$root/vulkan" "$root/host/brought/guest/vulkan-initrd"
    cp "$root/built/vulkan-work" "$root/host/brought/opt/vgpud/"
    make_opencl "$root/host/brought/opt/vgpud/opencl" "$programs"
    make -s -C "$programs" install-proxy "DESTDIR=$root/host/brought" > "$root/built/install.log" 2>&1 ||
        die "$(cat "$root/built/install.log")"
    # Where vgpud was built to look for it.
    emulators=$(grep -aom 1 '/[a-z/]*/vgpud/spawn' "$programs/vgpud" | head -n 1)
    mkdir -p "$root/host/brought$emulators"
    strip -o "$root/host/brought${emulators%/*}/vgpud-qemu-spawn" "$programs/vgpud-qemu-spawn"
    ln -s ../vgpud-qemu-spawn "$root/host/brought$emulators/qemu-system-x86_64"
    "${CC:-cc}" -std=gnu17 -O2 -I"$programs" "$here/tsc-khz.c" -o "$root/built/tsc-khz"
    "$root/built/tsc-khz" > "$directory/tsc-khz"
    archive "$root/host" "$root/host.cpio"
    # The kernel takes several archives, one after the other.
    cat "$cache/initramfs.cpio" "$root/host.cpio" > "$directory/initramfs"
    rm -r "$root"
}

# ---- the emulator ----

# add_port NUMBER DEVICE...: a root port with the functions of one card; a card with more than one has
# them all in one IOMMU group.
add_port()
{
    local number=$1 function=0 device more=''
    shift
    cards+=(-device "pcie-root-port,id=port$number,chassis=$number,slot=$number,bus=pcie.0,addr=0x1$number")
    [ $# = 1 ] || more=,multifunction=on
    for device; do
        cards+=(-device "$device,bus=port$number,addr=0.$function$more")
        function=$((function + 1))
    done
}

add_cards()
{
    # 01 and 02: GPUs to be passed through; 03, 04 and 08: parents of mediated devices; 05: a GPU
    # that shares its IOMMU group; 06 and 07: accelerators that have no class of one, the second
    # with virtual functions.
    add_port 1 bochs-display
    add_port 2 bochs-display
    add_port 3 bochs-display
    add_port 4 bochs-display
    add_port 5 bochs-display e1000e,romfile=
    add_port 6 edu
    cards+=(-device "nvme-subsys,id=subsystem")
    add_port 7 nvme,serial=vfio,subsys=subsystem,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2
    add_port 8 bochs-display
}

boot()
{
    local number=$1 directory=$2 commands=$3 api=$4 link=$5 peer=$6 kind=${7-on} root=$cache/root memory=3072
    local -a cards=() words=(console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable
        no_timer_check random.trust_cpu=on nohz=off highres=off "intel_iommu=${kind/vulkan/off}"
        "tsc_early_khz=$(cat "$directory/tsc-khz")" "host=h$number" "link=10.77.0.$number")
    local system="file=$cache/disk,format=raw,if=none,id=system,readonly=on"
    if [ "$kind" = vulkan ]; then
        memory=4608
        cards=(-drive "$system" -device "virtio-blk-pci,drive=system")
    else
        add_cards
    fi
    # Debian 13's own emulator, with its own libc.
    QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu exec \
        "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" \
        "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" \
        -name "vfio-h$number" -accel tcg,thread=multi,tb-size=512 -machine q35,kernel-irqchip=split \
        -cpu max,la57=off -smp "${VG_VFIO_CPUS:-1}" -m $memory -device intel-iommu,intremap=on -nodefaults -display none \
        -no-reboot -kernel "$cache/vmlinuz" -initrd "$directory/initramfs" \
        -append "${words[*]}" \
        -serial "file:$directory/console-$number" -monitor "unix:$directory/monitor-$number,server=on,wait=off" \
        -drive "file=$cache/disk,format=raw,if=none,id=root,snapshot=on" \
        -device virtio-blk-pci,drive=root \
        -netdev "user,id=out,restrict=on,hostfwd=tcp:127.0.0.1:$commands-:5000,hostfwd=tcp:127.0.0.1:$api-:5001" \
        -device "virtio-net-pci,netdev=out,mac=52:54:00:00:00:0$number,romfile=" \
        -netdev "dgram,id=cable,local.type=inet,local.host=127.0.0.1,local.port=$link,remote.type=inet,remote.host=127.0.0.1,remote.port=$peer" \
        -device "virtio-net-pci,netdev=cable,mac=52:54:00:77:00:0$number,romfile=" "${cards[@]}"
}

command=${1-}
[ $# = 0 ] || shift
case $command in
pack | boot) "$command" "$@" ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
