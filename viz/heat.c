#include "viz/heat.h"

static const struct weir_heat steps[WEIR_HEAT_STEPS] = {
    { 0.00, "#fcfaf8", WEIR_HEAT_INK, "#5c554f", "#a8551b", "#ebe5df" },
    { 0.01, "#f9ecdf", WEIR_HEAT_INK, "#5a5049", "#a8551b", "#e9d8c7" },
    { 0.05, "#f4d8bb", WEIR_HEAT_INK, "#54463a", "#9a4a13", "#e3c09b" },
    { 0.10, "#ecbd8f", WEIR_HEAT_INK, "#46372a", "#8a3f0d", "#d8a26c" },
    { 0.20, "#e09c5d", WEIR_HEAT_INK, "#33261a", "#7a3509", "#c98446" },
    { 0.35, "#a5521a", "#ffffff", "#fdeedf", "#ffffff", "#c47a45" },
    { 0.50, "#743107", "#ffffff", "#fbe3cd", "#ffffff", "#9c5a2c" },
};

const struct weir_heat *weir_heat_step(unsigned step)
{
    return &steps[step < WEIR_HEAT_STEPS ? step : WEIR_HEAT_STEPS - 1];
}

const struct weir_heat *weir_heat_of(double share)
{
    unsigned step = 0;
    while (step + 1 < WEIR_HEAT_STEPS && share >= steps[step + 1].least)
        step++;
    return &steps[step];
}
