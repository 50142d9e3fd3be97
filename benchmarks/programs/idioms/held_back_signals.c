/* Audio, images, finance and text, as application programmers write them. Labelled after the recogniser was finished. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 2
#define CLIP(v, lo, hi) ((v) < (lo) ? (lo) : (v) > (hi) ? (hi) : (v))
#define for_each_sample(k, buffer) for (size_t k = 0; k < (buffer)->length; k++)

typedef struct {
    size_t length;
    float *samples;
} buffer_t;

typedef struct {
    double open, high, low, close;
    uint64_t volume;
} bar_t;

typedef struct {
    uint8_t r, g, b, a;
} rgba_t;

static const int16_t ulaw_to_linear[256] = {-32124, -31100, -30076, -29052};

void apply_gain(buffer_t *buffer, float gain)
{
    for_each_sample(k, buffer)                                /* loop: parallel */
        buffer->samples[k] *= gain;                           /* idiom: stream */
}

void mix(buffer_t *into, const buffer_t *track, float level)
{
    float *dst = into->samples;
    const float *src = track->samples;
    size_t left = into->length;
    while (left) {                                            /* loop: parallel */
        *dst = CLIP(*dst + level * *src, -1.0f, 1.0f);        /* idiom: stream */
        dst++, src++, left--;
    }
}

void decode(int16_t *pcm, const uint8_t *bytes, size_t n)
{
    for (size_t k = 0; k != n; ++k)                           /* loop: parallel */
        pcm[k] = ulaw_to_linear[bytes[k]];                    /* idiom: table-lookup */
}

float peak(const buffer_t *buffer)
{
    float loudest = 0.0f;
    for_each_sample(k, buffer) {                              /* loop: reduction */
        float magnitude = fabsf(buffer->samples[k]);
        if (magnitude > loudest)
            loudest = magnitude;                              /* idiom: reduction */
    }
    return loudest;
}

double rms(const buffer_t *buffer)
{
    double power = 0.0;
    for_each_sample(k, buffer)                                /* loop: reduction */
        power += (double)buffer->samples[k] * buffer->samples[k]; /* idiom: reduction */
    return sqrt(power / (double)buffer->length);
}

void one_pole(float *out, const float *in, int n, float a)
{
    float state = 0.0f;
    for (int k = 0; k < n; k++) {                             /* loop: recurrence */
        state += a * (in[k] - state);                         /* idiom: recurrence */
        out[k] = state;
    }
}

void biquad(double *y, const double *x, int n, const double *c)
{
    for (int k = 2; k < n; k++)                               /* loop: recurrence */
        y[k] = c[0] * x[k] + c[1] * x[k - 1] + c[2] * x[k - 2] - c[3] * y[k - 1] - c[4] * y[k - 2]; /* idiom: recurrence */
}

void comb(float *line, int n, int delay, float feedback)
{
    for (int k = 64; k < n; k++)                              /* loop: recurrence */
        line[k] += feedback * line[k - 64];                   /* idiom: recurrence */
    (void)delay;
}

void fir(const float *restrict x, float *restrict y, int n, const float *taps, int width)
{
    for (int k = 0; k < n; k++) {                             /* loop: parallel */
        float sum = 0.0f;
        for (int t = 0; t < width; t++)                       /* loop: reduction */
            sum += taps[t] * x[k + t];                        /* idiom: reduction */
        y[k] = sum;                                           /* idiom: none */
    }
}

void differences(double *change, const bar_t *bars, int n)
{
    for (int day = 1; day < n; day++)                         /* loop: parallel */
        change[day] = bars[day].close / bars[day - 1].close - 1.0; /* idiom: stencil */
}

double drawdown(const bar_t *bars, int n)
{
    double top = bars[0].high, worst = 0.0;
    for (int day = 1; day < n; day++) {                       /* loop: recurrence */
        top = fmax(top, bars[day].high);                      /* idiom: reduction */
        double fall = (top - bars[day].low) / top;
        worst = fmax(worst, fall);                            /* idiom: reduction */
    }
    return worst;
}

void typical_price(double *price, const bar_t *bars, int n)
{
    const bar_t *bar = bars;
    for (double *p = price; p < price + n; p++, bar++)        /* loop: parallel */
        *p = (bar->high + bar->low + bar->close) / 3.0;       /* idiom: stream */
}

uint64_t traded(const bar_t *bars, int n, double above)
{
    uint64_t sum = 0;
    for (int day = n - 1; day >= 0; --day)                    /* loop: reduction */
        sum += bars[day].close > above ? bars[day].volume : 0; /* idiom: reduction */
    return sum;
}

void invert_colours(rgba_t *pixel, int w, int h)
{
    for (int at = 0; at < w * h; at++) {                      /* loop: parallel */
        pixel[at].r = (uint8_t)(255 - pixel[at].r);           /* idiom: stream */
        pixel[at].g = (uint8_t)(255 - pixel[at].g);           /* idiom: stream */
        pixel[at].b = (uint8_t)(255 - pixel[at].b);           /* idiom: stream */
    }
}

void luminance_histogram(unsigned bins[256], const rgba_t *pixel, size_t n)
{
    memset(bins, 0, 256 * sizeof bins[0]);                    /* idiom: stream */
    for (size_t at = 0; at < n; at++) {                       /* loop: reduction */
        unsigned y = (77u * pixel[at].r + 150u * pixel[at].g + 29u * pixel[at].b) >> 8;
        bins[y]++;                                            /* idiom: gather-modify-scatter */
    }
}

void equalise(unsigned cdf[256], const unsigned bins[256])
{
    unsigned so_far = 0;
    for (int level = 0; level < 256; level++)                 /* loop: recurrence */
        cdf[level] = so_far += bins[level];                   /* idiom: prefix-scan */
}

void remap(uint8_t *image, size_t n, const uint8_t curve[256])
{
    for (size_t at = 0; at < n; at++)                         /* loop: parallel */
        image[at] = curve[image[at]];                         /* idiom: table-lookup */
}

void sobel(const int *image, int *edges, int w, int h)
{
    for (int y = 1; y + 1 < h; y++)                           /* loop: parallel */
        for (int x = 1; x + 1 < w; x++) {                     /* loop: parallel */
            int at = y * w + x;
            int gx = image[at + 1] - image[at - 1], gy = image[at + w] - image[at - w];
            edges[at] = abs(gx) + abs(gy);                    /* idiom: stencil */
        }
}

void rotate(const uint32_t *src, uint32_t *dst, int w, int h)
{
    for (int y = 0; y < h; ++y)                               /* loop: parallel */
        for (int x = 0; x < w; ++x)                           /* loop: parallel */
            dst[x * h + y] = src[y * w + x];                  /* idiom: transpose */
}

void palette(rgba_t *out, const uint8_t *index, const rgba_t *colours, int n)
{
    for (int at = 0; at < n; at++)                            /* loop: parallel */
        out[at] = colours[index[at]];                         /* idiom: gather */
}

void dissolve(uint8_t *frame, const uint32_t *order, const uint8_t *next, int first, int last)
{
    for (int k = first; k < last; k++) {                      /* loop: unknown */
        uint32_t at = order[k];
        frame[at] = next[at];                                 /* idiom: scatter (gather) */
    }
}

size_t strip_comments(char *text)
{
    char *out = text;
    int inside = 0;
    for (char *in = text; *in; in++) {                        /* loop: recurrence */
        if (*in == '#')
            inside = 1;
        if (*in == '\n')
            inside = 0;
        if (!inside)
            *out++ = *in;                                     /* idiom: compaction */
    }
    *out = 0;
    return (size_t)(out - text);
}

void count_letters(const char *s, long counts[26])
{
    for (; *s; s++)                                           /* loop: unjudged */
        if (*s >= 'a' && *s <= 'z')
            counts[*s - 'a']++;                               /* idiom: gather-modify-scatter */
}

unsigned adler(const unsigned char *data, size_t n)
{
    unsigned a = 1, b = 0;
    for (size_t k = 0; k < n; k++) {                          /* loop: recurrence */
        a = (a + data[k]) % 65521;                            /* idiom: recurrence */
        b = (b + a) % 65521;                                  /* idiom: recurrence */
    }
    return b << 16 | a;
}

int is_palindrome(const char *word, int n)
{
    int same = 1;
    for (int k = 0; k < n / 2; k++)                           /* loop: reduction */
        same &= word[k] == word[n - 1 - k];                   /* idiom: reduction */
    return same;
}

void reverse_words(char *word, int n)
{
    for (int i = 0, j = n - 1; i < j; i++, j--) {             /* loop: unjudged */
        char kept = word[i];
        word[i] = word[j];                                    /* idiom: none */
        word[j] = kept;                                       /* idiom: none */
    }
}

void report(const double *totals, int n)
{
    for (int k = 0; k < n; k++)                               /* loop: unknown */
        printf("%d: %g\n", k, totals[k]);                     /* idiom: none */
}
