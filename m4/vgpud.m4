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
