/* All kernels by number, what each needs (kernels.h has the contract), the chain that a chase follows, and the clock.
 */
#define _POSIX_C_SOURCE 200112L

#include "kernels.h"

#include <time.h>

static const struct ft_kernel *const groups[] = {ft_memory_kernels, ft_window_kernels, ft_core_kernels,
                                                 ft_code_kernels,   ft_fp_kernels,     ft_special_kernels};

const struct ft_kernel *ft_kernel_at(size_t number)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct ft_kernel *kernel = groups[g]; kernel->name; kernel++) {
            if (!number--)
                return kernel;
        }
    }
    return NULL;
}

static bool data_fits(const struct ft_kernel *kernel, const struct ft_work *work)
{
    if (!work->data || (uintptr_t)work->data % FT_LINE_BYTES || !work->bytes || work->bytes % kernel->granule)
        return false;
    if (kernel->power_of_two && (work->bytes & (work->bytes - 1)))
        return false;
    return !kernel->strided || (work->stride && work->stride % 8 == 0 && work->stride <= work->bytes / 16 &&
                                work->bytes % (16 * work->stride) == 0);
}

bool ft_kernel_fits(const struct ft_kernel *kernel, const struct ft_work *work)
{
    if (kernel->available && !kernel->available())
        return false;
    if (kernel->granule && !data_fits(kernel, work))
        return false;
    if (kernel->element_bytes)
        return work->index && work->dense && work->state < work->elements;
    return !kernel->granule || kernel->power_of_two || (work->state < work->bytes && work->state % FT_LINE_BYTES == 0);
}

bool ft_link_chain(void *data, size_t lines, const uint32_t *order, size_t links, uint8_t *scratch)
{
    char *base = data;
    for (size_t i = 0; i < links; i++) {
        if (order[i] >= lines || scratch[order[i]]++)
            return false;
    }
    for (size_t i = 0; i < links; i++)
        *(char **)(base + (size_t)order[i] * FT_LINE_BYTES) = base + (size_t)order[(i + 1) % links] * FT_LINE_BYTES;
    return links > 0;
}

double ft_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
