/* Runs a fuzz target once on each file named: how `make test` replays the corpus without a fuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            fprintf(stderr, "replay: can't open %s\n", argv[i]);
            return 1;
        }
        size_t size = 0, room = 1 << 16;
        uint8_t *data = malloc(room);
        for (size_t got; (got = fread(data + size, 1, room - size, file)) > 0; size += got)
            if (size + got == room)
                data = realloc(data, room *= 2);
        fclose(file);
        /* An exact copy, so that a sanitizer sees every read past the end. */
        uint8_t *exact = malloc(size ? size : 1);
        for (size_t k = 0; k < size; k++)
            exact[k] = data[k];
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
        free(data);
    }
    printf("replayed %d\n", argc - 1);
    return 0;
}
