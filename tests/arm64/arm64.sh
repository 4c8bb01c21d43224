#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A Debian root with a cross compiler and libraries for arm64, where QEMU's emulation of user programs runs what was
# built; see README.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

usage()
{
    cat << 'END'
usage: tests/arm64/arm64.sh COMMAND

  make           makes the root, unless it exists
  run COMMAND... runs COMMAND in the root, at the top of this tree, where arm64 programs can be started
  cache          prints the directory of the root

The exit status of make is 77 if this machine lacks something.

Environment:
  VG_ARM64_CACHE for the root ($XDG_CACHE_HOME/vgpud/arm64); 3 GB
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../.." && pwd)
cache=${VG_ARM64_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vgpud/arm64}
root=$cache/root
enter=$tree/tests/releases/enter
# The beginning of an ELF program for arm64, and which of its bits count.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# What this machine lacks is no fault of the tree.
lacking()
{
    echo "arm64: $*" >&2
    exit 77
}

# ---- the root ----

# list_packages: those of tools/packages that are needed for a build, libraries for arm64, and what runs its programs.
list_packages()
{
    local kind package words
    while read -r kind package words; do
        case $words in
        ubuntu*) continue ;;
        esac
        case $kind/$package in
        build/build-essential) ;;
        build/opencl-c-headers) echo "$package" ;;
        build/*-dev) echo "$package:arm64" ;;
        build/* | cross/*) echo "$package" ;;
        esac
    done < "$tree/tools/packages"
}

find_mirror()
{
    # shellcheck disable=SC2016,SC1091 # apt expands it
    (. /etc/os-release
    suite=${VERSION_CODENAME-}
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
    echo "$suite $mirror")
}

make_root()
{
    local packages suite mirror key
    packages=$(list_packages)
    read -r suite mirror < <(find_mirror) || true
    [ -n "$mirror" ] || lacking "apt of this machine knows no mirror of Debian"
    key=$(echo "$suite" "$packages" | sha256sum)
    [ "$(cat "$cache/made-from" 2> /dev/null)" != "$key" ] || return 0
    command -v debootstrap > /dev/null || lacking "debootstrap is not installed"
    [ "$(id -u)" = 0 ] || lacking "a root needs root"
    rm -rf "$root" "$cache/made-from"
    mkdir -p "$cache/archives" "$cache/ccache"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" > "$cache/log" 2>&1 ||
        lacking "debootstrap failed: $(tail -n 1 "$cache/log")"
    # shellcheck disable=SC2016 # the inner shell expands it
    "$enter" "$root" "$cache/archives=/var/cache/apt/archives" -- env DEBIAN_FRONTEND=noninteractive bash -ec '
        dpkg --add-architecture arm64
        apt-get -q update
        apt-get -y -q -o Dpkg::Use-Pty=0 install --no-install-recommends $0' "$packages" >> "$cache/log" 2>&1 ||
        lacking "packages cannot be installed: $(tail -n 1 "$cache/log")"
    echo "$key" > "$cache/made-from"
}

# ---- in it ----

# Has the kernel start arm64 programs with the emulator, for processes of this user namespace alone.
register()
{
    local emulator=/usr/bin/qemu-aarch64-static
    # Its name since Debian 13.
    [ -x $emulator ] || emulator=/usr/bin/qemu-aarch64
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2> /dev/null || return
    echo ":vgpud-arm64:M::$magic:$mask:$emulator:OCF" > /proc/sys/fs/binfmt_misc/register
}

# inside COMMAND...: with all users of this machine.
inside()
{
    local pid gate
    gate=$(mktemp -u /tmp/gate.XXXXXX)
    mkfifo "$gate"
    unshare --user --mount --kill-child "$0" --registered "$gate" "$@" &
    pid=$!
    until [ "$(readlink "/proc/$pid/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do
        sleep 0.01
    done
    echo '0 0 4294967295' > "/proc/$pid/uid_map"
    echo '0 0 4294967295' > "/proc/$pid/gid_map"
    echo > "$gate"
    wait "$pid"
}

case $#${1-} in
1-h | 1--help) usage ;;
1cache) echo "$cache" ;;
1make) make_root ;;
*run)
    shift
    [ $# -gt 0 ] || { usage >&2; exit 2; }
    mkdir -p "$cache/ccache"
    exec "$enter" "$root" "$cache/ccache=/root/.cache/ccache" "$tree=$tree" -- \
        env VG_TEST_SEED="${VG_TEST_SEED-}" VG_TEST_FULL="${VG_TEST_FULL-}" VG_WERROR="${VG_WERROR-}" \
        "$tree/tests/arm64/arm64.sh" --inside "$@"
    ;;
*--inside)
    shift
    cd "$tree"
    inside "$@"
    ;;
*--registered)
    read -r _ < "$2"
    rm "$2"
    shift 2
    # Otherwise the machine's own registration is used, if there is one.
    register || true
    exec "$@"
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
