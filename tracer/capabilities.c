#include "tracer/capabilities.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t effective(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };
    if (syscall(SYS_capget, &header, data) != 0)
        return 0;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

static bool has(uint64_t set, int capability)
{
    return set >> capability & 1;
}

int weir_capabilities_check(struct weir_error *error)
{
    uint64_t set = effective();
    if (has(set, CAP_SYS_ADMIN) || (has(set, CAP_BPF) && has(set, CAP_PERFMON)))
        return 0;
    const char *missing = !has(set, CAP_BPF) && !has(set, CAP_PERFMON) ? "CAP_BPF and CAP_PERFMON are" : has(set, CAP_BPF) ? "CAP_PERFMON is" : "CAP_BPF is";
    return weir_error_set(error, WEIR_EXIT_CANNOT, EPERM, "can't load probes: %s missing; run weir as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep WEIR", missing);
}
