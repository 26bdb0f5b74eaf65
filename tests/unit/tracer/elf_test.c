/* The ELF reader on executables of every kind, compiled here, and on files that are none. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/elf.h"

/* A point `two` in two places and a point `bare` without a semaphore, as SystemTap's sys/sdt.h lays them out. */
static const char source[] =
    "#define POINT(name, semaphore) __asm__ volatile(\"990: nop\\n.pushsection .note.stapsdt,\\\"\\\",\\\"note\\\"\\n.balign "
    "4\\n\" \\\n"
    " \".4byte 992f-991f,994f-993f,3\\n991: .asciz \\\"stapsdt\\\"\\n992: .balign 4\\n993: .8byte 990b\\n.8byte "
    "_.stapsdt.base\\n\" \\\n"
    " \".8byte \" semaphore \"\\n.asciz \\\"weir\\\"\\n.asciz \\\"\" name \"\\\"\\n.asciz \\\"\\\"\\n994: .balign "
    "4\\n.popsection\\n\")\n"
    "__asm__(\".pushsection .stapsdt.base,\\\"aG\\\",\\\"progbits\\\",.stapsdt.base,comdat\\n.weak _.stapsdt.base\\n.hidden "
    "_.stapsdt.base\\n\"\n"
    " \"_.stapsdt.base: .space 1\\n.size _.stapsdt.base,1\\n.popsection\\n\");\n"
    "__attribute__((section(\".probes\"))) volatile unsigned short two_semaphore = 0x1234;\n"
    "char weir_contract[200] = \"found by its symbol\";\n"
    "__attribute__((noinline)) static void a(void) { POINT(\"two\", \"two_semaphore\"); }\n"
    "__attribute__((noinline)) static void b(void) { POINT(\"two\", \"two_semaphore\"); POINT(\"bare\", \"0\"); }\n"
    "int main(void) { a(); b(); return two_semaphore == 0 && weir_contract[0]; }\n";

static char folder[] = "/tmp/weir-elf-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    char path[64];
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x.c", folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs(source, file);
    return fclose(file);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int compile(const char *flags)
{
    char command[512], path[64];
    snprintf(command, sizeof command, "gcc -O1 -rdynamic %s %s/x.c -o %s/x 2>/dev/null", flags, folder, folder);
    if (system(command) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/x", folder);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void check_points(struct weir_elf *elf, int fd)
{
    struct weir_elf_point points[8];
    assert_int_equal(weir_elf_points(elf, "weir", points, 8), 3);
    for (size_t i = 0; i < 3; i++) {
        uint8_t byte = 0;
        uint16_t semaphore = 0;
        assert_int_equal(pread(fd, &byte, 1, (off_t)points[i].offset), 1);
        assert_int_equal(byte, 0x90);
        if (strcmp(points[i].name, "bare") == 0) {
            assert_int_equal(points[i].semaphore_offset, 0);
            continue;
        }
        assert_string_equal(points[i].name, "two");
        assert_int_equal(pread(fd, &semaphore, sizeof semaphore, (off_t)points[i].semaphore_offset), 2);
        assert_int_equal(semaphore, 0x1234);
    }
    assert_true(points[0].offset != points[1].offset);
    assert_int_equal(weir_elf_points(elf, "weir", points, 2), 2); /* never more than there is room for */
    assert_int_equal(weir_elf_points(elf, "other", points, 8), 0);
}

static void each_kind_of_executable(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        bool shared, dynamic;
    } kinds[] = { { "-pie -fPIE", true, true },
                  { "-no-pie", false, true },
                  { "-static", false, false },
                  { "-static-pie -fPIE", true, true },
                  { "-no-pie -Wl,-z,separate-code", false, true },
                  { "-pie -fPIE -s", true, true } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct weir_error error = WEIR_ERROR_INIT;
        struct weir_elf *elf;
        uint64_t address, offset, base, base_offset;
        char text[20];
        int fd = compile(kinds[i].flags);
        assert_true(fd >= 0);
        assert_int_equal(weir_elf_open(&elf, fd, &error), 0);
        assert_int_equal(weir_elf_is_shared(elf), kinds[i].shared);
        weir_elf_base(elf, &base_offset, &base);
        assert_int_equal(base_offset, 0);
        check_points(elf, fd);
        if (kinds[i].dynamic && weir_elf_symbol(elf, "weir_contract", 200, &address)) {
            assert_true(weir_elf_offset(elf, address, 0, &offset));
            assert_int_equal(pread(fd, text, sizeof text, (off_t)offset), sizeof text);
            assert_string_equal(text, "found by its symbol");
            assert_false(weir_elf_symbol(elf, "weir_contract", 201, &address)); /* too small for what is wanted */
        } else {
            assert_true(strstr(kinds[i].flags, "static") != NULL); /* these have no dynamic symbols */
        }
        assert_false(weir_elf_symbol(elf, "puts", 0, &address) && address == 0);
        weir_elf_close(elf);
        close(fd);
    }
}

static void files_that_are_none(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_elf *elf = NULL;
    int fd = open("/proc/self/status", O_RDONLY);
    assert_true(weir_elf_open(&elf, fd, &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_CANNOT);
    assert_true(strlen(error.text) > 10);
    close(fd);
}

/* Every byte of a small executable is damaged, one at a time and cut short: answers may be wrong, nothing may crash. */
static void damaged_files(void **state)
{
    (void)state;
    char path[64];
    int fd = compile("-no-pie -Wl,-z,noseparate-code -s");
    off_t size = lseek(fd, 0, SEEK_END);
    uint8_t *data = malloc((size_t)size);
    assert_int_equal(pread(fd, data, (size_t)size, 0), size);
    close(fd);
    snprintf(path, sizeof path, "%s/damaged", folder);
    srand(7);
    for (int i = 0; i < 2000; i++) {
        size_t at = i % 2 ? (size_t)rand() % 1024 : (size_t)(size - 1 - rand() % 4096),
               length = i % 10 == 9 ? (size_t)(rand() % size) : (size_t)size;
        uint8_t before = data[at];
        data[at] ^= (uint8_t)(1 + rand() % 255);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, data, length), length);
        struct weir_elf *elf = NULL;
        struct weir_elf_point points[4];
        uint64_t address, offset;
        if (weir_elf_open(&elf, fd, NULL) == 0) {
            if (weir_elf_symbol(elf, "weir_contract", 1, &address))
                weir_elf_offset(elf, address, 0, &offset);
            assert_true(weir_elf_points(elf, "weir", points, 4) <= 4);
            weir_elf_close(elf);
        }
        close(fd);
        data[at] = before;
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_executable),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
