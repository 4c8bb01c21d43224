# SPDX-License-Identifier: Apache-2.0
# Compiler and linker flags: each one is tried, none is assumed.

# VG_WARNING_FLAGS: appends the project's warnings to WARN_CFLAGS.
AC_DEFUN([VG_WARNING_FLAGS], [
    AX_APPEND_COMPILE_FLAGS([dnl
        -Wall -Wextra -Wformat=2 -Wshadow -Wvla -Wundef -Wstrict-prototypes dnl
        -Wmissing-prototypes -Wold-style-definition -Wwrite-strings dnl
        -Wpointer-arith -Wcast-align -Wimplicit-fallthrough -Wswitch-enum dnl
        -Wnull-dereference -Wdouble-promotion -Wconversion dnl
        -Wno-sign-conversion -Wno-cast-function-type-strict dnl
        -Wno-cast-function-type-mismatch -Wdate-time], [WARN_CFLAGS], [-Werror])
    AC_SUBST([WARN_CFLAGS])
])

# VG_HARDENING_FLAGS: appends hardening flags to HARDEN_CFLAGS, HARDEN_LDFLAGS and
# MODULE_LDFLAGS.
# Fortify needs optimisation and is left out under a sanitizer, which has its own checks.
AC_DEFUN([VG_HARDENING_FLAGS], [
    AX_APPEND_COMPILE_FLAGS([dnl
        -fstack-protector-strong -fstack-clash-protection -fPIE -fno-common dnl
        -ftrivial-auto-var-init=zero], [HARDEN_CFLAGS], [-Werror])
    AS_IF([test "x$vg_sanitizers" = x && test "x$enable_coverage" != xyes],
          [AX_APPEND_COMPILE_FLAGS([-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3], [HARDEN_CFLAGS],
                                   [-Werror -O2])])
    AX_APPEND_LINK_FLAGS([-pie -Wl,-z,relro -Wl,-z,now], [HARDEN_LDFLAGS])
    # Of a shared object that is loaded, not linked.
    AX_APPEND_LINK_FLAGS([-Wl,-z,relro -Wl,-z,now], [MODULE_LDFLAGS])
    MODULE_LDFLAGS="-shared $MODULE_LDFLAGS"
    AC_SUBST([HARDEN_CFLAGS])
    AC_SUBST([HARDEN_LDFLAGS])
    AC_SUBST([MODULE_LDFLAGS])
])

# VG_NEED(PREFIX, MODULES, PACKAGE): PKG_CHECK_MODULES, which leaves it to VG_REPORT_MISSING to stop when
# the modules of this Debian package are not there.
AC_DEFUN([VG_NEED], [
    PKG_CHECK_MODULES([$1], [$2], [], [VG_MISSING([$2], [$3])])
])

# VG_NEED_STATIC(NAME, CFLAGS, PACKAGE, PROLOGUE, BODY): notes if this program cannot be linked with
# libNAME.a, which this Debian package has.
AC_DEFUN([VG_NEED_STATIC], [
    AC_MSG_CHECKING([for $1 as a static library])
    vg_save_LIBS=$LIBS vg_save_CFLAGS=$CFLAGS
    LIBS="-l:lib$1.a $LIBS" CFLAGS="$CFLAGS $2"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$4], [$5])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         VG_MISSING([lib$1.a, or configure --disable-static-guest], [$3])])
    LIBS=$vg_save_LIBS CFLAGS=$vg_save_CFLAGS
])

# VG_MISSING(WHAT, PACKAGE, [UBUNTU-PACKAGE]): notes that WHAT is missing and that this Debian package has it.
AC_DEFUN([VG_MISSING], [
    vg_missing="$vg_missing
  $1 (Debian: $2[]m4_ifval([$3], [[, Ubuntu: $3]]))"
    vg_package=$2
    m4_ifval([$3], [AS_IF([grep -q -s '^ID=ubuntu' /etc/os-release], [vg_package=$3])])
    AS_CASE(["$vg_packages "], [*" $vg_package "*], [], [vg_packages="$vg_packages $vg_package"])
])

# VG_REPORT_MISSING: stops if something is missing, and names all of it.
AC_DEFUN([VG_REPORT_MISSING], [
    AS_IF([test "x$vg_missing" != x], [AC_MSG_ERROR([missing, or too old:$vg_missing
On Debian or Ubuntu, install the packages:
  apt-get install$vg_packages
config.log has the details.])])
])

# VG_NEED_COMPILER: stops where AC_PROG_CC would stop without naming a package.
AC_DEFUN([VG_NEED_COMPILER], [
    AC_CHECK_PROGS([vg_compiler], [gcc cc clang])
    AS_IF([test "x$CC$vg_compiler" = x],
          [AC_MSG_ERROR([a C compiler is missing (Debian: build-essential)])])
    AS_IF([echo '#include <stdio.h>' | ${CC:-$vg_compiler} -E - > /dev/null 2>&1], [],
          [AC_MSG_ERROR([${CC:-$vg_compiler} finds no stdio.h (Debian: build-essential)])])
])
