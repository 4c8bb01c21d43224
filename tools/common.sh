# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # variables for those who source it
# What tools/check, tools/quickstart and tools/demo-migration share: packages, builds, and how a demo
# talks. Sourced with the working directory at the top of the tree. Functions print what went wrong
# and return non-zero.

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# What a calling make or a developer's shell exports must not leak into the builds.
unset MAKEFLAGS MAKELEVEL MFLAGS CC CFLAGS CPPFLAGS LDFLAGS CONFIG_SITE CDPATH GREP_OPTIONS

jobs=$(nproc)

# A compiler's output is kept for the next build where ccache is installed, also for that of another
# clone. It is no part of how a build is configured, so that a build continues when ccache appears.
ccache=''
if command -v ccache > /dev/null && [ -d /usr/lib/ccache ]; then
    ccache=yes
    export PATH=/usr/lib/ccache:$PATH CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi

# How the tools configure. A warning stops a build only where VG_WERROR=1 requests it: a compiler that is
# newer than this tree may have new ones.
gcc_build=(CC=gcc "CFLAGS=-g -O2")
clang_build=(CC=clang "CFLAGS=-O1 -gline-tables-only")
# Optimising takes the compiler three times as long as the tests then save.
sanitized_build=(CC=clang "CFLAGS=-O0 -gline-tables-only")
if [ "${VG_WERROR-}" = 1 ]; then
    gcc_build+=(--enable-werror)
    clang_build+=(--enable-werror)
    sanitized_build+=(--enable-werror)
fi

# this_release [FILE]: "debian" or "ubuntu", and the number of the release. A release in the making has none.
this_release()
{
    # shellcheck disable=SC1090
    (set +u
    . "${1:-/etc/os-release}"
    case " $ID $ID_LIKE " in
    *' ubuntu '*) system=ubuntu ;;
    *) system=debian ;;
    esac
    release=${VERSION_ID%%.*}
    echo "$system ${release:-99}")
}

# is_for SYSTEM RELEASE [WORD...]: whether a package with these words of tools/packages is for this release.
is_for()
{
    local system=$1 release=$2 word
    shift 2
    [ $# != 0 ] || return 0
    for word; do
        case $word in
        "$system") return 0 ;;
        "$system"[0-9]*) [ "${word#"$system"}" -gt "$release" ] || return 0 ;;
        esac
    done
    return 1
}

# missing_packages KIND...: those of tools/packages that are not installed.
missing_packages()
{
    local kind package words installed system release
    read -r system release < <(this_release)
    installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 2> /dev/null |
        sed -n 's/ installed$//p')
    while read -r kind package words; do
        # shellcheck disable=SC2086 # a list of words
        is_for "$system" "$release" $words || continue
        case " $* " in
        *" $kind "*) grep -qxF "$package" <<< "$installed" || echo "$package" ;;
        esac
    done < <(grep -v '^#' tools/packages)
}

# need_packages LOG KIND...: installs what is missing.
need_packages()
{
    local log=$1 list apt
    shift
    if ! command -v dpkg-query > /dev/null; then
        echo "This is neither Debian nor Ubuntu: install the packages that tools/packages lists yourself."
        return 0
    fi
    list=$(missing_packages "$@" | tr '\n' ' ')
    list=${list% }
    if [ -z "$list" ]; then
        return 0
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "Packages are missing. Run this command as root, then try again:"
        echo "  apt-get update && apt-get install -y --no-install-recommends $list"
        return 1
    fi
    echo "Installing these packages and their dependencies: $list"
    apt="apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    # shellcheck disable=SC2086 # lists of words
    if ! { $apt update && $apt install --no-install-recommends $list; } > "$log" 2>&1 < /dev/null
    then
        show_log "$log"
        echo "The packages could not be installed. Check the network and the mirror in /etc/apt (on Ubuntu, it" \
            "must include universe)."
        return 1
    fi
}

# show_log FILE [LINES]: its end, indented, and where the rest is.
show_log()
{
    tail -n "${2:-30}" "$1" | sed 's/^/    | /'
    echo "    complete log: $(realpath "$1")"
}

# Makes ./configure where it is missing or older than what it is made from.
ensure_configure()
{
    local input
    if [ -x configure ] && [ -f Makefile.in ] && [ -e build-aux/tap-driver.sh ] &&
        [ -e build-aux/install-sh ]; then
        for input in configure.ac Makefile.am tests/tests.am m4/*.m4; do
            if [ "$input" -nt configure ]; then
                input=stale
                break
            fi
        done
        [ "$input" = stale ] || return 0
    fi
    autoreconf -fi
}

# ensure_build DIR CONFIGURE_ARGUMENT...: configures DIR, unless it is configured like that.
ensure_build()
{
    local dir=$1 stamp want
    shift
    stamp=$dir/.configured-with
    # With the place: a build directory remembers where it was made.
    want="$PWD $*"
    ensure_configure || return 1
    if [ -f "$dir/Makefile" ] && [ "$(cat "$stamp" 2> /dev/null)" = "$want" ]; then
        return 0
    fi
    rm -f "$stamp"
    if [ -f "$dir/Makefile" ]; then
        make -s -C "$dir" clean || rm -rf "$dir"
    fi
    mkdir -p "$dir" && (cd "$dir" && ../configure -q "$@") || return 1
    echo "$want" > "$stamp"
}

# copy_tree DIR: copies there all files that git knows or that a tarball has, and nothing that was built.
copy_tree()
{
    if git -c safe.directory='*' rev-parse --git-dir > /dev/null 2>&1; then
        git -c safe.directory='*' ls-files -z --cached --others --exclude-standard
    else
        find . -path './build*' -prune -o -type f -print0
    fi | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null -T - | tar -x -C "$1"
}

# ---- a demo ----

# Is build/ one of this tree, and of this place?
is_configured()
{
    grep -qsxF -e "abs_top_srcdir = $PWD" -e "abs_top_srcdir = $PWD/build/.." build/Makefile
}

# is_built PROGRAM...: a build of this tree has them, and nothing has changed since. config.h is older
# than its stamp wherever configure found it unchanged.
is_built()
{
    is_configured && make -q -o config.h -C build "$@" > /dev/null 2>&1
}

# build_for_demo LOG PROGRAM...: makes them in build/; any build of this tree will do. 130: interrupted.
build_for_demo()
{
    local log=$1 interrupted='' status=0
    shift
    ! is_built "$@" || return 0
    echo "Building $* in build/ (about a minute on an idle machine)..."
    trap 'interrupted=yes' INT
    { { is_configured || ensure_build build "${gcc_build[@]}"; } &&
        make -j "$jobs" -C build "$@"; } > "$log" 2>&1 || status=1
    trap - INT
    if [ -n "$interrupted" ]; then
        echo "The build was interrupted; the next build continues from there."
        return 130
    elif [ "$status" != 0 ]; then
        echo "The build failed:"
        show_log "$log"
        return 1
    fi
}

title()
{
    printf '\n== %s\n\n' "$1"
}

# show COMMAND...: the command as one would type it, then what it prints.
show()
{
    printf '$ %s\n' "${*/#build\/vgpuctl/vgpuctl}"
    "$@"
}
