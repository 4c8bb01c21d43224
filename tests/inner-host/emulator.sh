# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions of inner-host.sh and of tests/kernels/kernels.sh: they pack initramfs archives and run the emulator.
inner_host=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# ---- a file system for an initramfs ----

# add_file ROOT FILE...: with the path it has here.
add_file()
{
    local root=$1 file
    shift
    for file; do
        mkdir -p "$root${file%/*}"
        [ -e "$root$file" ] || cp -L "$file" "$root$file"
    done
}

# add_libraries ROOT FILE...: what the files need.
add_libraries()
{
    local root=$1 file library
    shift
    for file; do
        while read -r library; do
            add_file "$root" "$library"
        done < <(ldd "$file" | sed -nE 's,^.*=> (/[^ ]+) .*$,\1,p; s,^[[:blank:]]+(/[^ ]+) .*$,\1,p')
    done
}

add_program()
{
    local root=$1
    shift
    add_file "$root" "$@"
    add_libraries "$root" "$@"
}

# pack ROOT ARCHIVE
pack()
{
    (cd "$1" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) > "$2"
}

# add_host_programs ROOT: a shell, modprobe and QEMU with its firmware for the guests.
add_host_programs()
{
    local root=$1
    mkdir -p "$root"/{bin,sbin,proc,sys,dev,tmp,run,root,etc,guest} "$root"/usr/{bin,lib64} \
        "$root/usr/share/qemu" "$root/var/run"
    ln -s usr/lib64 "$root/lib64"
    cp "$(command -v busybox)" "$root/bin/busybox"
    ln -s busybox "$root/bin/sh"
    add_program "$root" /usr/bin/qemu-system-x86_64 /bin/kmod
    ln -s /bin/kmod "$root/sbin/modprobe"
    add_file "$root" /usr/share/seabios/bios-microvm.bin /usr/share/qemu/pvh.bin
    echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
    printf 'root:x:0:\ntracing:x:99:\n' > "$root/etc/group"
}

# ---- the guests' kernel ----

# unpack_kernel COMPRESSED FILE: writes the bare ELF kernel, which QEMU starts without a BIOS. The loader follows
# the compressed kernel; lz4 reports it as an error.
unpack_kernel()
{
    local offset
    offset=$(LC_ALL=C grep -obUaPm1 '\x02\x21\x4c\x18' "$1" | head -n 1)
    [ -n "$offset" ] || die "the kernel is not compressed with LZ4"
    tail -c "+$((${offset%%:*} + 1))" "$1" | lz4 -qdc > "$2" 2> /dev/null || true
    [ "$(head -c 4 "$2")" = $'\x7fELF' ] || die "there is no ELF kernel in $1"
}

# ---- running it ----

# make_guest ROOT: what the guests boot.
make_guest()
{
    local root=$1/guest-root
    mkdir -p "$root"/{bin,proc,dev} "$1/guest"
    cp "$(command -v busybox)" "$root/bin/busybox"
    ln -s busybox "$root/bin/sh"
    install -m 755 "$inner_host/guest-init" "$root/init"
    pack "$root" "$1/guest/guest.cpio"
    rm -r "$root"
}

# make_initramfs DIRECTORY HOST RUN PROGRAM...: the kernel accepts several archives, one after the other.
make_initramfs()
{
    local directory=$1 host=$2 run=$3 root=$1/programs
    shift 3
    mkdir -p "$root/usr/bin"
    add_libraries "$root" "$@"
    cp "$@" "$root/usr/bin/"
    install -m 755 "$inner_host/host-init" "$root/init"
    install -D -m 755 "$run" "$root/root/host-run"
    install -m 644 "$inner_host/host-guests" "$root/root/host-guests"
    make_guest "$root"
    pack "$root" "$directory/programs.cpio"
    cat "$host" "$directory/programs.cpio" > "$directory/initramfs"
    rm -r "$root" "$directory/programs.cpio"
}

# run_emulator DIRECTORY KERNEL OPTION...: replaces the shell by the emulator. $parameters: more for the kernel.
run_emulator()
{
    local directory=$1 kernel=$2
    shift 2
    rm -f "$directory/out.img"
    truncate -s 1G "$directory/out.img"
    exec qemu-system-x86_64 -accel tcg,thread=multi -M pc -cpu max,la57=off -smp 2 -m 3000 \
        -kernel "$kernel" -initrd "$directory/initramfs" \
        -append "console=ttyS0 panic=-1 quiet mitigations=off ${parameters-}" \
        -drive "file=$directory/out.img,if=virtio,format=raw" -display none -no-reboot \
        -monitor none -serial stdio "$@"
}

# unpack DIRECTORY: what the host has handed out.
unpack()
{
    mkdir -p "$1/out"
    tar -xf "$1/out.img" -C "$1/out"
}
