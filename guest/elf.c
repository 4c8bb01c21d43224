/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/elf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elf.h>

#include "guest/util.h"

enum {
    /* The maximum number of sections; libcuda.so has about 40. */
    SECTIONS_MAX = 1024,
    SEGMENTS_MAX = 256,
    /* The maximum size of a symbol table or its names, in bytes. Those of libcuda.so have less than
     * 100 KiB. */
    TABLE_MAX = 16 << 20,
};

/* Returns the bytes at this place, or NULL. The caller frees them. */
static void *
elf_read(int fd, uint64_t offset, uint64_t size)
{
    if (size == 0 || size > TABLE_MAX || offset > INT64_MAX - size)
        return NULL;
    char *bytes = vg_guest_alloc(size + 1);
    for (size_t have = 0; have < size;) {
        ssize_t got = pread(fd, bytes + have, size - have, (off_t)(offset + have));
        if (got <= 0) {
            free(bytes);
            return NULL;
        }
        have += (size_t)got;
    }
    return bytes;
}

static bool
elf_is_library(const Elf64_Ehdr *head)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const unsigned char order = ELFDATA2LSB;
#else
    const unsigned char order = ELFDATA2MSB;
#endif

    return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64 &&
           head->e_ident[EI_DATA] == order && head->e_type == ET_DYN &&
           head->e_shentsize == sizeof(Elf64_Shdr) && head->e_phentsize == sizeof(Elf64_Phdr) &&
           head->e_shnum <= SECTIONS_MAX && head->e_phnum <= SEGMENTS_MAX;
}

/* Returns the file offset of this address, or 0 if it is not code. */
static uint64_t
elf_offset(const Elf64_Phdr *segments, size_t n, uint64_t address)
{
    for (size_t i = 0; i < n; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_X &&
            address >= segments[i].p_vaddr && address - segments[i].p_vaddr < segments[i].p_filesz)
            return address - segments[i].p_vaddr + segments[i].p_offset;
    }
    return 0;
}

static const Elf64_Shdr *
elf_dynsym(const Elf64_Shdr *sections, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < n)
            return &sections[i];
    }
    return NULL;
}

int
vg_guest_elf_find(int fd, const char *const *names, size_t n, uint64_t *ret_offsets)
{
    vg_guest_auto Elf64_Ehdr *head = elf_read(fd, 0, sizeof *head);

    memset(ret_offsets, 0, n * sizeof *ret_offsets);
    if (!head || !elf_is_library(head))
        return -1;
    vg_guest_auto Elf64_Phdr *segments =
        elf_read(fd, head->e_phoff, (uint64_t)head->e_phnum * sizeof *segments);
    vg_guest_auto Elf64_Shdr *sections =
        elf_read(fd, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections);
    const Elf64_Shdr *dynsym = sections ? elf_dynsym(sections, head->e_shnum) : NULL;
    if (!segments || !dynsym)
        return -1;
    const Elf64_Shdr *strings = &sections[dynsym->sh_link];
    vg_guest_auto Elf64_Sym *symbols = elf_read(fd, dynsym->sh_offset, dynsym->sh_size);
    /* A NUL follows the bytes that were read. */
    vg_guest_auto char *text = elf_read(fd, strings->sh_offset, strings->sh_size);
    if (!symbols || !text)
        return -1;
    for (size_t i = 0; i < dynsym->sh_size / sizeof *symbols; i++) {
        if (symbols[i].st_name >= strings->sh_size || symbols[i].st_shndx == SHN_UNDEF ||
            ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC)
            continue;
        for (size_t k = 0; k < n; k++) {
            if (strcmp(text + symbols[i].st_name, names[k]) == 0)
                ret_offsets[k] = elf_offset(segments, head->e_phnum, symbols[i].st_value);
        }
    }
    return 0;
}
