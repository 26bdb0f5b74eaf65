/* The profile's reader: whatever it accepts can be written and read again, verified, and shown by every view. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"
#include "viz/dot.h"
#include "viz/json.h"
#include "viz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writing what was read is a fixed point: unknown fields and odd encodings are gone after the first time. */
static void write_twice(const struct weir_profile *profile)
{
    struct weir_buffer first = WEIR_BUFFER_INIT, second = WEIR_BUFFER_INIT;
    struct weir_profile *again = weir_profile_new();
    if (weir_profile_write(profile, &first, NULL) != 0 || weir_profile_read(again, first.data, first.length, NULL) != 0 ||
        weir_profile_write(again, &second, NULL) != 0 || first.length != second.length ||
        memcmp(first.data, second.data, first.length) != 0)
        abort();
    weir_profile_free(again);
    weir_buffer_release(&first);
    weir_buffer_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_profile *profile = weir_profile_new();
    struct weir_buffer out = WEIR_BUFFER_INIT;
    if (weir_profile_read(profile, data, size, NULL) == 0) {
        write_twice(profile);
        weir_profile_verify(profile);
        if (weir_table_profile(profile, NULL, &out, NULL) != 0 || weir_json_profile(profile, NULL, &out, NULL) != 0 ||
            weir_dot_profile(profile, NULL, &out, NULL) != 0 || weir_dot_topology(&profile->topology, &out, NULL) != 0)
            abort();
    }
    weir_buffer_release(&out);
    weir_profile_free(profile);
    return 0;
}
