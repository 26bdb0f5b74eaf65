#include "tracer/symbols.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct weir_symbols {
    Dwfl *dwfl;
    pid_t pid;
    int exe_fd;
    char *exe;
};

/* libdwfl's callbacks have no argument of ours before a module exists; a session opens one at a time. */
static struct weir_symbols *opening;

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
    if (opening && strncmp(name, opening->exe, strlen(opening->exe)) == 0) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", opening->exe_fd);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            *file_name = strdup(opening->exe);
        return fd;
    }
    return dwfl_linux_proc_find_elf(module, userdata, name, base, file_name, elf);
}

/* A debug file of this machine, by the build id. libdwfl's own search would load a web client and may ask the network. */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file_name,
                          const char *link_file, GElf_Word crc, char **debug_name)
{
    (void)userdata, (void)name, (void)base, (void)file_name, (void)link_file, (void)crc;
    const unsigned char *bits;
    GElf_Addr where;
    char path[256];
    int count = dwfl_module_build_id(module, &bits, &where);
    if (count < 2 || count > 64)
        return -1;
    int length = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%02x/", bits[0]);
    for (int i = 1; i < count; i++)
        length += snprintf(path + length, sizeof path - (size_t)length, "%02x", bits[i]);
    snprintf(path + length, sizeof path - (size_t)length, ".debug");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        *debug_name = strdup(path);
    return fd;
}

static const Dwfl_Callbacks callbacks = { .find_elf = find_elf, .find_debuginfo = find_debuginfo };

struct weir_symbols *weir_symbols_open(pid_t pid, int exe_fd, const char *exe)
{
    struct weir_symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return NULL;
    symbols->pid = pid;
    symbols->exe_fd = exe_fd;
    symbols->exe = strdup(exe);
    symbols->dwfl = dwfl_begin(&callbacks);
    if (symbols->exe && symbols->dwfl && dwfl_linux_proc_report(symbols->dwfl, pid) == 0 &&
        dwfl_report_end(symbols->dwfl, NULL, NULL) == 0)
        return symbols;
    weir_symbols_close(symbols);
    return NULL;
}

void weir_symbols_refresh(struct weir_symbols *symbols)
{
    if (!symbols || access("/proc", X_OK) != 0)
        return;
    /* Modules of the first look stay when the process is gone by now. */
    dwfl_report_begin_add(symbols->dwfl);
    dwfl_linux_proc_report(symbols->dwfl, symbols->pid);
    dwfl_report_end(symbols->dwfl, NULL, NULL);
}

void weir_symbols_close(struct weir_symbols *symbols)
{
    if (!symbols)
        return;
    if (symbols->dwfl)
        dwfl_end(symbols->dwfl);
    free(symbols->exe);
    free(symbols);
}

void weir_symbols_name(struct weir_symbols *symbols, uint64_t address, int is_return, char *text, size_t size)
{
    /* A call may be a function's last instruction, so the address after it may be the next function's. */
    uint64_t at = is_return && address ? address - 1 : address;
    Dwfl_Module *module = symbols ? dwfl_addrmodule(symbols->dwfl, at) : NULL;
    /* libdwfl gives the gaps between files, and the far ends, to a neighbour. */
    Dwarf_Addr low = 0, high = 0;
    const char *file = module ? dwfl_module_info(module, NULL, &low, &high, NULL, NULL, NULL, NULL) : NULL;
    if (at < low || at >= high)
        module = NULL;
    opening = symbols;
    const char *name = module ? dwfl_module_addrname(module, at) : NULL;
    opening = NULL;
    if (name) {
        snprintf(text, size, "%.*s", (int)strcspn(name, "@"), name); /* without the symbol's version */
        return;
    }
    const char *slash = module && file ? strrchr(file, '/') : NULL;
    if (module && file)
        snprintf(text, size, "[%s]", slash ? slash + 1 : file);
    else
        snprintf(text, size, "[unknown]");
}
