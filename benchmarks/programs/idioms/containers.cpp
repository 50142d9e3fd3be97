// Vectors, arrays, spans, iterators and ranges in place of arrays and indices.
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <valarray>
#include <vector>

namespace {

using Row = std::array<double, 3>;

struct Body {
    double mass = 0;
    Row position{};
    Row velocity{};
};

void triad(std::vector<double> &a, const std::vector<double> &b, const std::vector<double> &c, double q)
{
    for (std::size_t i = 0; i < a.size(); ++i)                // loop: parallel
        a[i] = b[i] + q * c[i];                               // idiom: stream
}

void scale_all(std::vector<float> &values, float factor)
{
    for (auto &value : values)                                // loop: parallel
        value *= factor;                                      // idiom: stream
}

void iterators(std::vector<int> &to, const std::vector<int> &from)
{
    auto out = to.begin();
    for (auto in = from.begin(); in != from.end(); ++in, ++out) // loop: parallel
        *out = *in + 1;                                       // idiom: stream
}

void spans(std::span<double> a, std::span<const double> b)
{
    for (std::size_t i = 0; i != a.size(); i++)               // loop: parallel
        a[i] = b[i];                                          // idiom: stream
}

void drift(std::vector<Body> &bodies, double dt)
{
    for (Body &body : bodies)                                 // loop: parallel
        for (int d = 0; d < 3; ++d)                           // loop: parallel
            body.position[d] += dt * body.velocity[d];        // idiom: stream
}

double total_mass(const std::vector<Body> &bodies)
{
    double total = 0;
    for (const auto &body : bodies)                           // loop: reduction
        total += body.mass;                                   // idiom: reduction
    return total;
}

double largest(const std::valarray<double> &v)
{
    double most = v[0];
    for (std::size_t i = 1; i < v.size(); ++i)                // loop: reduction
        if (most < v[i])
            most = v[i];                                      // idiom: reduction
    return most;
}

void gather(std::vector<double> &out, const std::vector<double> &in, const std::vector<int> &at)
{
    for (std::size_t i = 0; i < at.size(); ++i)               // loop: parallel
        out[i] = in[at[i]];                                   // idiom: gather
}

double gather_range(const std::vector<double> &in, const std::vector<unsigned> &at)
{
    double sum = 0;
    for (unsigned place : at)                                 // loop: reduction
        sum += in[place];                                     // idiom: gather (reduction)
    return sum;
}

void scatter(std::vector<double> &out, const std::vector<double> &in, const std::vector<int> &at)
{
    for (std::size_t i = 0; i < at.size(); ++i)               // loop: unknown
        out.at(at[i]) = in.at(i);                             // idiom: scatter
}

std::array<int, 256> letters(const std::string &text)
{
    std::array<int, 256> count{};                             // idiom: stream
    for (unsigned char letter : text)                         // loop: reduction
        ++count[letter];                                      // idiom: gather-modify-scatter
    return count;
}

void stencil(std::span<const double> in, std::span<double> out)
{
    for (std::size_t i = 1; i + 1 < in.size(); ++i) {         // loop: parallel
        const double left = in[i - 1], right = in[i + 1];
        out[i] = 0.5 * (left + right);                        // idiom: stencil
    }
}

void nested_vectors(std::vector<std::vector<double>> &c, const std::vector<std::vector<double>> &a,
                    const std::vector<std::vector<double>> &b)
{
    for (std::size_t i = 0; i < c.size(); ++i)                // loop: parallel
        for (std::size_t j = 0; j < c[i].size(); ++j) {       // loop: parallel
            double sum = 0;
            for (std::size_t k = 0; k < b.size(); ++k)        // loop: reduction
                sum += a[i][k] * b[k][j];                     // idiom: matrix-product (reduction)
            c[i][j] = sum;                                    // idiom: none
        }
}

std::vector<std::vector<int>> transposed(const std::vector<std::vector<int>> &m)
{
    std::vector<std::vector<int>> t(m[0].size(), std::vector<int>(m.size()));
    for (std::size_t i = 0; i < m.size(); i++)                // loop: parallel
        for (std::size_t j = 0; j < m[0].size(); j++)         // loop: parallel
            t[j][i] = m[i][j];                                // idiom: transpose
    return t;
}

std::vector<double> product(const std::vector<int> &start, const std::vector<int> &column,
                            const std::vector<double> &value, const std::vector<double> &x)
{
    std::vector<double> y(start.size() - 1);
    for (std::size_t row = 0; row + 1 < start.size(); ++row)  // loop: parallel
        for (int k = start[row]; k < start[row + 1]; ++k)     // loop: reduction
            y[row] += value[k] * x[column[k]];                // idiom: sparse-product-csr (gather, reduction)
    return y;
}

void scan(std::vector<std::size_t> &offsets)
{
    for (std::size_t i = 1; i < offsets.size(); ++i)          // loop: recurrence
        offsets[i] += offsets[i - 1];                         // idiom: prefix-scan
}

std::vector<int> positives(const std::vector<int> &in, std::vector<int> &out)
{
    std::size_t kept = 0;
    for (int value : in)                                      // loop: recurrence
        if (value > 0)
            out[kept++] = value;                              // idiom: compaction
    return out;
}

void pushed(const std::vector<int> &in, std::vector<int> &out)
{
    for (int value : in)                                      // loop: unjudged
        if (value % 2 == 0)
            out.push_back(value);                             // idiom: compaction
}

void bubble(std::vector<int> &v)
{
    for (std::size_t last = v.size(); last > 1; --last)       // loop: recurrence
        for (std::size_t i = 0; i + 1 < last; ++i)            // loop: recurrence
            if (v[i + 1] < v[i])
                std::swap(v[i], v[i + 1]);                    // idiom: sort
}

void upper(std::string &text)
{
    for (char &letter : text)                                 // loop: parallel
        if (letter >= 'a' && letter <= 'z')
            letter = static_cast<char>(letter - 32);          // idiom: stream
}

void coded(std::vector<std::uint8_t> &data)
{
    static constexpr std::array<std::uint8_t, 16> box{6, 4, 12, 5, 0, 7, 2, 14, 1, 15, 3, 13, 8, 10, 9, 11};
    for (auto &byte : data)                                   // loop: parallel
        byte = box[byte & 15];                                // idiom: table-lookup
}

void butterfly(std::vector<std::complex<double>> &z, const std::vector<std::complex<double>> &root)
{
    const std::size_t half = z.size() / 2;
    for (std::size_t k = 0; k < half; ++k) {                  // loop: parallel
        const auto upper = z[k];
        const auto turned = z[k + half] * root[k];
        z[k] = upper + turned;                                // idiom: fft-butterfly
        z[k + half] = upper - turned;
    }
}

std::size_t chase(const std::vector<std::size_t> &next, std::size_t steps)
{
    std::size_t at = 0;
    while (steps-- != 0)                                      // loop: recurrence
        at = next[at];                                        // idiom: pointer-chase
    return at;
}

double smoothed(const std::deque<double> &samples)
{
    double level = 0;
    for (double sample : samples)                             // loop: recurrence
        level = 0.9 * level + 0.1 * sample;                   // idiom: recurrence
    return level;
}

int zipped(const std::vector<int> &a, const std::vector<int> &b)
{
    int same = 0;
    auto other = b.cbegin();
    for (const int &one : a)                                  // loop: reduction
        same += one == *other++;                              // idiom: reduction
    return same;
}

void reversed(std::vector<double> &a, const std::vector<double> &b)
{
    for (std::size_t i = a.size(); i-- > 0;)                  // loop: parallel
        a[i] = b[i] * b[i];                                   // idiom: stream
}

void no_gather(std::vector<double> &a, const std::vector<int> &at)
{
    for (std::size_t i = 0; i < a.size(); ++i)                // loop: parallel
        a[i] = at[i];                                         // idiom: stream
}

bool use()
{
    std::vector<double> a(8), b(8), c(8);
    std::vector<int> v(8), w(8);
    std::vector<float> f(8);
    std::vector<Body> bodies(2);
    std::vector<std::size_t> next(8);
    std::vector<std::vector<double>> m(4, a);                 // idiom: stream
    std::vector<std::complex<double>> z(8);
    std::vector<std::uint8_t> bytes(8);
    std::string text = "text";
    triad(a, b, c, 2);
    scale_all(f, 2);
    iterators(v, w);
    spans(a, b);
    drift(bodies, 0.1);
    gather(a, b, v);
    scatter(a, b, v);
    stencil(a, b);
    nested_vectors(m, m, m);
    scan(next);
    positives(v, w);
    pushed(v, w);
    bubble(v);
    upper(text);
    coded(bytes);
    butterfly(z, z);
    reversed(a, b);
    no_gather(a, v);
    return total_mass(bodies) + largest({1, 2}) + gather_range(a, {1, 2}) + letters(text)[0] + smoothed({1}) > 0
        && transposed({{1}})[0][0] && product(v, w, a, b).empty() && chase(next, 3) && zipped(v, w);
}

} // namespace

int main()
{
    return use();
}
