/* What a built server shows to a tracer: its trace points, its contract, its topology, and its stages as functions. */
#include <fcntl.h>
#include <gelf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/profile.h"
#include "probes/contract.h"
#include "tests/system/harness.h"

static struct harness_server server;
static Elf *elf;
static int elf_fd;

static int start(void **state)
{
    (void)state;
    harness_run(&server, "pool io threads 2\npool workers threads 3\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 16MiB\n"
                         "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n");
    elf_version(EV_CURRENT);
    elf_fd = open(server.binary, O_RDONLY);
    elf = elf_begin(elf_fd, ELF_C_READ_MMAP, NULL);
    return elf ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    elf_end(elf);
    close(elf_fd);
    harness_stop(&server);
    return 0;
}

static Elf_Scn *section(const char *name, GElf_Shdr *header)
{
    size_t strings;
    assert_int_equal(elf_getshdrstrndx(elf, &strings), 0);
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn))
        if (gelf_getshdr(scn, header) && strcmp(elf_strptr(elf, strings, header->sh_name), name) == 0)
            return scn;
    return NULL;
}

/* The bytes at a virtual address, from the file. */
static const uint8_t *at_address(uint64_t address, size_t size)
{
    size_t count, file_size;
    const char *raw = elf_rawfile(elf, &file_size);
    assert_int_equal(elf_getphdrnum(elf, &count), 0);
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        gelf_getphdr(elf, (int)i, &header);
        if (header.p_type == PT_LOAD && address >= header.p_vaddr && address + size <= header.p_vaddr + header.p_filesz)
            return (const uint8_t *)raw + header.p_offset + (address - header.p_vaddr);
    }
    return NULL;
}

struct point {
    const char *name;
    unsigned seen;
};

static void each_point_is_one_nop_with_a_semaphore(void **state)
{
    (void)state;
#if defined(__x86_64__)
    struct point points[] = { { "thread_start", 0 }, { "items_flush", 0 }, { "trace_on", 0 }, { "trace_exact", 0 } };
    GElf_Shdr header, base_header, probes;
    Elf_Scn *notes = section(".note.stapsdt", &header);
    assert_non_null(notes);
    assert_non_null(section(".stapsdt.base", &base_header));
    assert_non_null(section(".probes", &probes));
    Elf_Data *data = elf_getdata(notes, NULL);
    GElf_Nhdr note;
    size_t name_at, desc_at, next;
    for (size_t at = 0; (next = gelf_getnote(data, at, &note, &name_at, &desc_at)) > 0; at = next) {
        const char *desc = (const char *)data->d_buf + desc_at;
        uint64_t words[3]; /* pc, base, semaphore */
        memcpy(words, desc, sizeof words);
        const char *provider = desc + sizeof words, *name = provider + strlen(provider) + 1, *arguments = name + strlen(name) + 1;
        uint64_t moved = base_header.sh_addr - words[1];
        assert_int_equal(note.n_type, 3);
        assert_string_equal((const char *)data->d_buf + name_at, "stapsdt");
        assert_string_equal(provider, "weir");
        assert_string_equal(arguments, "8@%rdi 8@%rsi 8@%rdx");
        const uint8_t *code = at_address(words[0] + moved, 1), *semaphore = at_address(words[2] + moved, 2);
        assert_non_null(code);
        assert_int_equal(*code, 0x90);
        assert_non_null(semaphore); /* in the file's own data, or the kernel could not count it */
        assert_int_equal(semaphore[0] | semaphore[1], 0);
        assert_in_range(words[2] + moved, probes.sh_addr, probes.sh_addr + probes.sh_size - 2);
        for (size_t i = 0; i < 4; i++)
            points[i].seen += strcmp(points[i].name, name) == 0;
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(points[i].seen, 1);
#else
    skip();
#endif
}

static uint64_t symbol(const char *table, const char *name)
{
    GElf_Shdr header;
    Elf_Scn *scn = section(table, &header);
    assert_non_null(scn);
    Elf_Data *data = elf_getdata(scn, NULL);
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
        GElf_Sym sym;
        gelf_getsym(data, (int)i, &sym);
        if (strcmp(elf_strptr(elf, header.sh_link, sym.st_name), name) == 0)
            return sym.st_value;
    }
    return 0;
}

static void each_stage_is_a_function(void **state)
{
    (void)state;
    static const char *const names[] = { "riemann__listen", "riemann__frame", "riemann__handoff", "riemann__decode",
                                         "riemann__index", "riemann__encode", "riemann__reply", "riemann__reply__send" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!symbol(".symtab", names[i]))
            fail_msg("there is no function %s", names[i]);
}

/* Where the executable is mapped: the start of its first line in maps. */
static uint64_t load_address(void)
{
    char path[64], line[512];
    unsigned long long from = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)server.pid);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, server.binary)) {
            sscanf(line, "%llx", &from);
            break;
        }
    fclose(maps);
    return from;
}

static void peek(uint64_t address, void *out, size_t size)
{
    struct iovec local = { out, size }, remote = { (void *)(uintptr_t)address, size };
    assert_int_equal(process_vm_readv(server.pid, &local, 1, &remote, 1, 0), (ssize_t)size);
}

static void the_contract_is_found_from_outside(void **state)
{
    (void)state;
    struct weir_contract contract;
    static struct weir_contract_thread threads[WEIR_THREAD_SLOTS];
    static uint8_t bytes[65536];
    uint64_t address = symbol(".dynsym", WEIR_CONTRACT_SYMBOL);
    assert_true(address != 0);
    peek(load_address() + address, &contract, sizeof contract);
    assert_true(contract.magic == WEIR_CONTRACT_MAGIC);
    assert_int_equal(contract.major, WEIR_CONTRACT_MAJOR);
    assert_int_equal(contract.size, sizeof contract);
    assert_int_equal(contract.shards, 2);
    assert_int_equal(contract.queue_count, 2);
    assert_int_equal(contract.thread_overflow, 0);
    assert_in_range(contract.topology_bytes, 1, sizeof bytes);

    struct weir_arena arena;
    struct weir_topology topology;
    weir_arena_init(&arena, 0, SIZE_MAX);
    peek(contract.topology, bytes, contract.topology_bytes);
    assert_int_equal(weir_topology_read(&topology, &arena, bytes, contract.topology_bytes, NULL), 0);
    assert_int_equal(topology.stage_count, 7);
    assert_int_equal(contract.tag_count, weir_topology_tag_count(&topology));

    unsigned taken = 0;
    usleep(200000); /* until all of them wait */
    peek(contract.threads, threads, sizeof threads);
    for (unsigned i = 0; i < WEIR_THREAD_SLOTS; i++) {
        if (!threads[i].tid)
            continue;
        taken++;
        assert_int_equal(threads[i].generation, 1);
        assert_true(threads[i].pool < topology.pool_count);
        unsigned kind = threads[i].wait & 0xff, object = threads[i].wait >> 8;
        assert_int_equal(kind, WEIR_WAIT_IDLE);
        assert_int_equal(object, topology.pools[threads[i].pool].listens ? WEIR_WAIT_LOOP : 0);
    }
    assert_int_equal(taken, 5);
    weir_arena_release(&arena);
}

static void connections_go_to_the_least_loaded_loop(void **state)
{
    (void)state;
    struct weir_contract contract;
    struct weir_contract_way ways[2];
    int fds[6];
    peek(load_address() + symbol(".dynsym", WEIR_CONTRACT_SYMBOL), &contract, sizeof contract);
    for (int i = 0; i < 6; i++)
        assert_true((fds[i] = harness_connect(server.port)) >= 0);
    for (int i = 0; i < 1000; i++, usleep(1000)) {
        peek(contract.ways, ways, sizeof ways);
        if (ways[0].connections + ways[1].connections == 6)
            break;
    }
    assert_int_equal(ways[0].connections, 3);
    assert_int_equal(ways[1].connections, 3);
    for (int i = 0; i < 6; i++)
        close(fds[i]);
}

/* --- under load ---------------------------------------------------------------------------------------------------------- */

static bool load_stops;

static void *load_run(void *argument)
{
    uint8_t message[64], many[16 * 64];
    size_t size = harness_message(message, sizeof message, 1, "load"), all = 0;
    int fd = harness_connect(server.port);
    (void)argument;
    for (int i = 0; i < 16; i++, all += size)
        memcpy(many + all, message, size);
    while (!__atomic_load_n(&load_stops, __ATOMIC_RELAXED) && harness_send(fd, many, all))
        for (int i = 0; i < 16; i++)
            if (harness_reply(fd, NULL, 0) != 1)
                return (void *)1;
    close(fd);
    return NULL;
}

/* One block as a tracer reads it: again, until no write came between. */
static void peek_block(uint64_t address, void *out, size_t size)
{
    weir_u32 before, after;
    do {
        peek(address, out, size);
        memcpy(&before, out, sizeof before);
        peek(address, &after, sizeof after);
    } while (before != after || (before & 1));
}

static void no_snapshot_breaks_the_laws(void **state)
{
    (void)state;
    struct weir_contract contract;
    pthread_t threads[3];
    void *failed = NULL;
    uint64_t seen = 0;
    peek(load_address() + symbol(".dynsym", WEIR_CONTRACT_SYMBOL), &contract, sizeof contract);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_run, NULL), 0);
    for (long i = 0; i < harness_count(20000, 500000); i++) {
        struct weir_contract_queue queue;
        struct weir_contract_way way;
        uint64_t shard = (uint64_t)i % contract.shards;
        for (uint32_t q = 0; q < contract.queue_count; q++) {
            peek_block(contract.queues + (q * contract.shards + shard) * sizeof queue, &queue, sizeof queue);
            assert_int_equal(queue.in, queue.out + queue.dropped + queue.rejected + queue.queued_items);
        }
        peek_block(contract.ways + shard * sizeof way, &way, sizeof way);
        assert_int_equal(way.accepted, way.answered + way.abandoned + way.discarded + way.in_flight);
        seen = way.accepted > seen ? way.accepted : seen;
    }
    __atomic_store_n(&load_stops, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(seen > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_point_is_one_nop_with_a_semaphore),
        cmocka_unit_test(each_stage_is_a_function),
        cmocka_unit_test(the_contract_is_found_from_outside),
        cmocka_unit_test(connections_go_to_the_least_loaded_loop),
        cmocka_unit_test(no_snapshot_breaks_the_laws),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
