#include "viz/value.h"

#include <math.h>

#include "viz/escape.h"

json_t *weir_value_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *weir_value_count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *weir_value_text(const char *value)
{
    struct weir_buffer safe = WEIR_BUFFER_INIT;
    if (!value)
        return json_null();
    weir_escape_utf8(&safe, value);
    json_t *made = json_string(weir_buffer_text(&safe));
    weir_buffer_release(&safe);
    return made ? made : json_null();
}
