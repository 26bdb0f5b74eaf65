/*
 * DESIGN. libelf reads by pread, never by mmap: a file that somebody truncates while we read it then gives an error, not a signal.
 *
 * A stapsdt note holds three words (address of the nop, base, address of the semaphore) and three strings (provider, name,
 * arguments). A prelinked file has been moved by the difference between the section .stapsdt.base and that base. File offsets come
 * from the loadable segments, one by one, since the code and the semaphores lie in different ones.
 */
#include "tracer/elf.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_MOST 64
#define PAGE 4096u

struct weir_elf {
    Elf *elf;
    GElf_Ehdr header;
    GElf_Phdr loads[SEGMENTS_MOST];
    size_t load_count;
};

int weir_elf_open(struct weir_elf **out, int fd, struct weir_error *error)
{
    if (elf_version(EV_CURRENT) == EV_NONE)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOTSUP, "the installed libelf is too old");
    struct weir_elf *elf = calloc(1, sizeof *elf);
    if (!elf)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "out of memory while reading an executable");
    int rc = -ENOEXEC;
    size_t count = 0;
    elf->elf = elf_begin(fd, ELF_C_READ, NULL);
    if (!elf->elf || elf_kind(elf->elf) != ELF_K_ELF || !gelf_getehdr(elf->elf, &elf->header) ||
        elf->header.e_ident[EI_CLASS] != ELFCLASS64) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, ENOEXEC, "the executable is not a 64-bit ELF file");
        goto out;
    }
    if (elf_getphdrnum(elf->elf, &count) != 0)
        count = 0;
    for (size_t i = 0; i < count && elf->load_count < SEGMENTS_MOST; i++) {
        GElf_Phdr *load = &elf->loads[elf->load_count];
        if (gelf_getphdr(elf->elf, (int)i, load) && load->p_type == PT_LOAD && load->p_filesz <= load->p_memsz &&
            load->p_vaddr + load->p_memsz >= load->p_vaddr && load->p_offset + load->p_filesz >= load->p_offset)
            elf->load_count++;
    }
    if (elf->load_count == 0) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, ENOEXEC, "the executable has no loadable segment");
        goto out;
    }
    *out = elf;
    elf = NULL;
    rc = 0;
out:
    weir_elf_close(elf);
    return rc;
}

void weir_elf_close(struct weir_elf *elf)
{
    if (!elf)
        return;
    elf_end(elf->elf);
    free(elf);
}

static bool section_of(struct weir_elf *elf, uint32_t type, const char *name, Elf_Scn **found, GElf_Shdr *header)
{
    size_t names;
    if (elf_getshdrstrndx(elf->elf, &names) != 0)
        return false;
    for (Elf_Scn *section = elf_nextscn(elf->elf, NULL); section; section = elf_nextscn(elf->elf, section)) {
        if (!gelf_getshdr(section, header) || (type && header->sh_type != type))
            continue;
        const char *text = name ? elf_strptr(elf->elf, names, header->sh_name) : NULL;
        if (name && (!text || strcmp(text, name) != 0))
            continue;
        *found = section;
        return true;
    }
    return false;
}

bool weir_elf_symbol(struct weir_elf *elf, const char *name, size_t size, uint64_t *address)
{
    Elf_Scn *section;
    GElf_Shdr header;
    if (!section_of(elf, SHT_DYNSYM, NULL, &section, &header))
        return false;
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || header.sh_entsize != sizeof(Elf64_Sym))
        return false;
    size_t count = data->d_size / sizeof(Elf64_Sym);
    for (size_t i = 1; i < count && i <= INT32_MAX; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF || symbol.st_size < size)
            continue;
        const char *text = elf_strptr(elf->elf, header.sh_link, symbol.st_name);
        if (text && strcmp(text, name) == 0) {
            *address = symbol.st_value;
            return true;
        }
    }
    return false;
}

bool weir_elf_offset(const struct weir_elf *elf, uint64_t address, uint32_t flags, uint64_t *offset)
{
    for (size_t i = 0; i < elf->load_count; i++) {
        const GElf_Phdr *load = &elf->loads[i];
        if (address < load->p_vaddr || address - load->p_vaddr >= load->p_filesz || (load->p_flags & flags) != flags)
            continue;
        *offset = address - load->p_vaddr + load->p_offset;
        return true;
    }
    return false;
}

void weir_elf_base(const struct weir_elf *elf, uint64_t *offset, uint64_t *address)
{
    *offset = elf->loads[0].p_offset & ~(uint64_t)(PAGE - 1);
    *address = elf->loads[0].p_vaddr & ~(uint64_t)(PAGE - 1);
}

bool weir_elf_is_shared(const struct weir_elf *elf)
{
    return elf->header.e_type == ET_DYN;
}

/* The string at `*at`, moving past its NUL; null when it does not end before `size`. */
static const char *next_string(const char *data, size_t size, size_t *at)
{
    if (*at >= size)
        return NULL;
    const char *text = data + *at;
    const char *end = memchr(text, 0, size - *at);
    if (!end)
        return NULL;
    *at = (size_t)(end - data) + 1;
    return text;
}

static bool read_point(struct weir_elf *elf, const char *provider, const char *note, size_t size, uint64_t base,
                       struct weir_elf_point *point)
{
    uint64_t words[3];
    size_t at = sizeof words;
    if (size < sizeof words)
        return false;
    memcpy(words, note, sizeof words);
    const char *owner = next_string(note, size, &at);
    const char *name = owner ? next_string(note, size, &at) : NULL;
    if (!name || strcmp(owner, provider) != 0 || strlen(name) >= sizeof point->name)
        return false;
    uint64_t moved = base ? base - words[1] : 0;
    *point = (struct weir_elf_point){ .address = words[0] + moved };
    strcpy(point->name, name);
    if (!weir_elf_offset(elf, point->address, PF_X, &point->offset))
        return false;
    if (words[2]) {
        point->semaphore_address = words[2] + moved;
        /* A wrong semaphore offset would make the kernel count in some other word: refuse what is not writable data of the file. */
        if ((point->semaphore_address & 1) || !weir_elf_offset(elf, point->semaphore_address, PF_W, &point->semaphore_offset))
            return false;
    }
    return true;
}

void weir_elf_code(struct weir_elf *elf, uint64_t *segment, uint64_t *text, uint64_t *end)
{
    Elf_Scn *section;
    GElf_Shdr header;
    *segment = *text = *end = 0;
    if (!section_of(elf, SHT_PROGBITS, ".text", &section, &header))
        return;
    for (size_t i = 0; i < elf->load_count; i++) {
        const GElf_Phdr *load = &elf->loads[i];
        if (!(load->p_flags & PF_X) || header.sh_addr < load->p_vaddr || header.sh_addr - load->p_vaddr >= load->p_filesz)
            continue;
        *segment = load->p_vaddr;
        *text = header.sh_addr;
        *end = load->p_vaddr + load->p_filesz;
    }
}

size_t weir_elf_points(struct weir_elf *elf, const char *provider, struct weir_elf_point *points, size_t limit)
{
    Elf_Scn *section;
    GElf_Shdr header;
    uint64_t base = section_of(elf, SHT_PROGBITS, ".stapsdt.base", &section, &header) ? header.sh_addr : 0;
    if (!section_of(elf, SHT_NOTE, ".note.stapsdt", &section, &header))
        return 0;
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data)
        return 0;
    size_t count = 0, at = 0, name, descriptor;
    GElf_Nhdr note;
    while (count < limit && (at = gelf_getnote(data, at, &note, &name, &descriptor)) > 0) {
        const char *bytes = data->d_buf;
        if (note.n_type == 3 && note.n_namesz == sizeof "stapsdt" && memcmp(bytes + name, "stapsdt", sizeof "stapsdt") == 0 &&
            read_point(elf, provider, bytes + descriptor, note.n_descsz, base, &points[count]))
            count++;
    }
    return count;
}
