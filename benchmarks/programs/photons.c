/* usage: photons [PHOTONS]
 *
 * Monte Carlo: photons walk through a slab of three layers that scatter and absorb, until they leave it above or below
 * or fade away. Counts where their weight goes, by depth.
 */
#include "program.h"

enum { LAYERS = 3, BINS = 97 };

struct layer {
    double depth_end, scattering, absorption, forward; /* per unit length; mean cosine of a deflection */
};

static const struct layer LAYER[LAYERS] = {{0.3, 12, 0.4, 0.8}, {0.8, 25, 1.5, 0.6}, {1.7, 9, 0.2, 0.9}};

struct outcome {
    double reflected, transmitted, absorbed[BINS];
    uint64_t steps;
};

/* Henyey and Greenstein's phase function: the cosine of a deflection whose mean is g. */
static double deflection(double g, double u)
{
    double part = (1 - g * g) / (1 - g + 2 * g * u);
    return (1 + g * g - part * part) / (2 * g);
}

KERNEL static void walk(uint64_t *state, struct outcome *outcome)
{
    double z = 0, cosine = 1, weight = 1;
    for (;;) {
        int which = 0;
        while (which < LAYERS - 1 && z >= LAYER[which].depth_end)
            which++;
        const struct layer *layer = LAYER + which;
        double total = layer->scattering + layer->absorption;
        z -= log(1 - random_unit(state)) / total * cosine;
        outcome->steps++;
        if (z < 0) {
            outcome->reflected += weight;
            return;
        }
        if (z >= LAYER[LAYERS - 1].depth_end) {
            outcome->transmitted += weight;
            return;
        }
        double lost = weight * layer->absorption / total;
        outcome->absorbed[(size_t)(z / LAYER[LAYERS - 1].depth_end * BINS)] += lost;
        weight -= lost;
        if (weight < 1e-3) { /* one in ten goes on, ten times as heavy */
            if (random_unit(state) >= 0.1)
                return;
            weight *= 10;
        }
        double turn = deflection(layer->forward, random_unit(state));
        double azimuth = cos(6.28318530717958647692 * random_unit(state));
        double side = sqrt(fmax(0, (1 - cosine * cosine) * (1 - turn * turn)));
        cosine = fmax(-1, fmin(1, cosine * turn - side * azimuth));
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "photons [PHOTONS]");
    size_t photons = number_argument(argc, argv, 1, 170000, 1, 1000000000);
    static struct outcome outcome;
    uint64_t state = 23;
    for (size_t i = 0; i < photons; i++)
        walk(&state, &outcome);
    double absorbed = 0;
    for (size_t bin = 0; bin < BINS; bin++)
        absorbed += outcome.absorbed[bin];
    printf("photons %zu  steps %" PRIu64 "  reflected %.6f  transmitted %.6f  checksum %.8f\n", photons, outcome.steps,
           outcome.reflected / (double)photons, outcome.transmitted / (double)photons, absorbed / (double)photons);
    return 0;
}
