# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # variables for those who source it
# What the tests over the tree share: its files, and TAP. Sourced; moves to the top of the tree.
set -uo pipefail
export LC_ALL=C.UTF-8
cd "${VG_SRCDIR:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 99
builddir=${VG_BUILDDIR:-$PWD/build}
case_number=0

# Those lines that name a file; false if there are none.
existing()
{
    local file found=1
    while read -r file; do
        if [ -f "$file" ]; then
            echo "$file"
            found=0
        fi
    done
    return $found
}

# Every file that belongs to the tree, tracked or not. Where git cannot tell (a tarball): every
# file that no build makes.
tree_files()
{
    if [ -e .git ] && command -v git > /dev/null &&
        git -c safe.directory='*' ls-files -co --exclude-standard 2> /dev/null | existing; then
        return 0
    fi
    find . \( -name .git -o -name 'build*' -type d ! -name build-aux -o -name autom4te.cache \
        -o -name __pycache__ -o -name '_build' -o -name '_inst' \) -prune -o -type f -print |
        sed 's,^\./,,' | grep -vE \
        '^(configure~?|aclocal\.m4|config\.h\.in~?|Makefile\.in|build-aux/(compile|config\.guess|config\.sub|depcomp|install-sh|missing|tap-driver\.sh|test-driver|ar-lib))$'
}

# c_files REGEX: sources and headers whose path matches.
c_files()
{
    tree_files | grep -E '\.[ch]$' | grep -E "$1" | sort
}

# changed_of: of the files of its input, in tools/check --quick those that differ from the commit before the
# last one; otherwise all.
changed_of()
{
    local git='git -c safe.directory=*'
    if [ -z "${VG_CHECK_CHANGED-}" ] || ! $git rev-parse -q --verify HEAD~1 > /dev/null 2>&1; then
        cat
        return
    fi
    awk 'FILENAME != "-" { changed[$0]; next } $0 in changed' \
        <($git diff --name-only HEAD~1; $git ls-files -o --exclude-standard) -
}

# Files that bash or sh runs, or sources.
shell_files()
{
    tree_files | grep -vE '\.(json|c|h|md|py)$' | sort | tr '\n' '\0' |
        xargs -0 -r grep -lIE '^#! */(usr/)?bin/(env )?(ba|da)?sh\b|^# shellcheck shell='
}

plan()
{
    echo "1..$1"
}

skip_all()
{
    echo "1..0 # SKIP $1"
    exit 0
}

# result NAME FINDINGS: passes when there are no findings, else shows them.
result()
{
    case_number=$((case_number + 1))
    if [ -z "$2" ]; then
        echo "ok $case_number - $1"
    else
        echo "not ok $case_number - $1"
        head -n 40 <<< "$2" | sed 's/^/# /'
    fi
}

# skip NAME WHY
skip()
{
    case_number=$((case_number + 1))
    echo "ok $case_number - $1 # SKIP $2"
}
