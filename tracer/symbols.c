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

/* Debug files that lie on this machine are welcome; searching for them over the network is not. */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file_name,
                          const char *link_file, GElf_Word crc, char **debug_name)
{
    if (getenv("DEBUGINFOD_URLS"))
        return -1;
    return dwfl_standard_find_debuginfo(module, userdata, name, base, file_name, link_file, crc, debug_name);
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
    opening = symbols;
    const char *name = module ? dwfl_module_addrname(module, at) : NULL;
    opening = NULL;
    if (name) {
        snprintf(text, size, "%.*s", (int)strcspn(name, "@"), name); /* without the symbol's version */
        return;
    }
    const char *file = module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (file)
        snprintf(text, size, "[%s]", slash ? slash + 1 : file);
    else
        snprintf(text, size, "[unknown]");
}
