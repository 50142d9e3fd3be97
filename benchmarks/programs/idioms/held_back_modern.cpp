// Everyday C++: business records, simulation, geometry, text. Labelled after the recogniser was finished.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shop {

struct Order {
    int customer = 0;
    double amount = 0;
    bool paid = false;
};

double turnover(const std::vector<Order> &orders)
{
    double sum = 0;
    for (const auto &[customer, amount, paid] : orders)       // loop: reduction
        if (paid)
            sum += amount;                                    // idiom: reduction
    return sum;
}

void by_customer(const std::vector<Order> &orders, std::vector<double> &spent)
{
    for (const Order &order : orders)                         // loop: reduction
        spent[static_cast<std::size_t>(order.customer)] += order.amount; // idiom: gather-modify-scatter
}

std::vector<Order> unpaid(const std::vector<Order> &orders)
{
    std::vector<Order> open;
    for (const auto &order : orders)                          // loop: unjudged
        if (!order.paid)
            open.emplace_back(order);                         // idiom: compaction
    return open;
}

void discount(std::vector<Order> &orders, double rate)
{
    for (auto it = orders.begin(); it != orders.end(); ++it)  // loop: parallel
        it->amount -= it->amount * rate;                      // idiom: stream
}

int largest(const std::vector<Order> &orders)
{
    int best = 0;
    for (int i = 1; i < static_cast<int>(orders.size()); ++i) // loop: unjudged
        if (orders[i].amount > orders[best].amount)
            best = i;                                         // idiom: none
    return best;
}

std::map<int, int> counted(const std::vector<Order> &orders)
{
    std::map<int, int> found;
    for (const Order &order : orders)                         // loop: unknown
        ++found[order.customer];                              // idiom: none
    return found;
}

} // namespace shop

namespace geometry {

template <int N>
struct Vector {
    std::array<double, N> v{};
    double &operator[](int i) { return v[i]; }
    double operator[](int i) const { return v[i]; }
};

template <int N>
double dot(const Vector<N> &a, const Vector<N> &b)
{
    double sum = 0;
    for (int i = 0; i < N; ++i)                               // loop: reduction
        sum += a[i] * b[i];                                   // idiom: reduction
    return sum;
}

template <int N>
void axpy(double f, const Vector<N> &x, Vector<N> &y)
{
    for (int i = 0; i < N; ++i)                               // loop: parallel
        y[i] += f * x[i];                                     // idiom: stream
}

struct Triangle {
    std::uint32_t a, b, c;
};

class Surface {
public:
    double area_sum() const
    {
        double sum = 0;
        for (const Triangle &t : triangles_)                  // loop: reduction
            sum += heights_[t.a] + heights_[t.b] + heights_[t.c]; // idiom: gather (reduction)
        return sum;
    }

    void spread()
    {
        for (std::size_t t = 0; t < triangles_.size(); ++t) { // loop: reduction
            load_[triangles_[t].a] += weight_[t];             // idiom: gather-modify-scatter
            load_[triangles_[t].b] += weight_[t];             // idiom: gather-modify-scatter
        }
    }

    void relax(int width, int height)
    {
        for (int y = 1; y < height - 1; ++y)                  // loop: parallel
            for (int x = 1; x < width - 1; ++x)               // loop: parallel
                next_[y * width + x] = 0.25 * (heights_[y * width + x - 1] + heights_[y * width + x + 1] // idiom: stencil
                    + heights_[(y - 1) * width + x] + heights_[(y + 1) * width + x]);
    }

private:
    std::vector<Triangle> triangles_;
    std::vector<double> heights_, next_, load_, weight_;
};

void image_transposed(std::span<const float> in, std::span<float> out, std::size_t w, std::size_t h)
{
    for (std::size_t x = 0; x < w; ++x)                       // loop: parallel
        for (std::size_t y = 0; y < h; ++y)                   // loop: parallel
            out[x * h + y] = in[y * w + x];                   // idiom: transpose
}

} // namespace geometry

namespace words {

std::size_t hash(std::string_view word)
{
    std::size_t h = 0;
    for (const char letter : word)                            // loop: recurrence
        h = 131 * h + static_cast<unsigned char>(letter);     // idiom: recurrence
    return h;
}

void shout(std::string &text)
{
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); }); // idiom: stream
}

std::string vowels(const std::string &text)
{
    std::string out;
    for (const char c : text)                                 // loop: unjudged
        if (c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u')
            out.push_back(c);                                 // idiom: compaction
    return out;
}

int mismatches(const std::string &a, const std::string &b)
{
    int count = 0;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) // loop: reduction
        if (a[i] != b[i])
            ++count;                                          // idiom: reduction
    return count;
}

void frequencies(std::string_view text, std::array<unsigned, 128> &count)
{
    for (auto it = text.begin(); it != text.end(); ++it)      // loop: reduction
        count[static_cast<std::size_t>(*it) & 127]++;         // idiom: gather-modify-scatter
}

} // namespace words

namespace numeric {

class Csr {
public:
    std::vector<double> operator*(const std::vector<double> &x) const
    {
        std::vector<double> y(rows_);
        for (std::size_t r = 0; r < rows_; ++r) {             // loop: parallel
            double sum = 0;
            for (auto k = begin_[r]; k < begin_[r + 1]; ++k)  // loop: reduction
                sum += values_[k] * x[columns_[k]];           // idiom: sparse-product-csr (gather, reduction)
            y[r] = sum;                                       // idiom: none
        }
        return y;
    }

private:
    std::size_t rows_ = 0;
    std::vector<std::size_t> begin_, columns_;
    std::vector<double> values_;
};

template <class T>
T product(const std::vector<T> &factors)
{
    T result = 1;
    for (auto f : factors)                                    // loop: reduction
        result *= f;                                          // idiom: reduction
    return result;
}

void cumulative(std::vector<double> &weights)
{
    std::partial_sum(weights.begin(), weights.end(), weights.begin()); // idiom: prefix-scan
}

void markov(const std::vector<std::vector<double>> &p, const std::vector<double> &now, std::vector<double> &next)
{
    for (std::size_t j = 0; j < next.size(); ++j) {           // loop: parallel
        next[j] = 0;                                          // idiom: stream
        for (std::size_t i = 0; i < now.size(); ++i)          // loop: reduction
            next[j] += now[i] * p[i][j];                      // idiom: matrix-vector-product (reduction)
    }
}

void multiply(const double (&a)[4][4], const double (&b)[4][4], double (&c)[4][4])
{
    for (int i = 0; i < 4; ++i)                               // loop: parallel
        for (int j = 0; j < 4; ++j) {                         // loop: parallel
            c[i][j] = 0;                                      // idiom: stream
            for (int k = 0; k < 4; ++k)                       // loop: reduction
                c[i][j] += a[i][k] * b[k][j];                 // idiom: matrix-product (reduction)
        }
}

void generate(std::vector<std::uint32_t> &out, std::uint32_t state)
{
    for (auto &value : out) {                                 // loop: recurrence
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        value = state;                                        // idiom: recurrence
    }
}

void shake(std::vector<int> &v)
{
    for (std::size_t i = v.size() - 1; i > 0; --i)            // loop: recurrence
        if (v[i - 1] > v[i])
            std::swap(v[i - 1], v[i]);                        // idiom: sort
}

struct Node {
    double value = 0;
    int next = -1;
};

double walk(const std::vector<Node> &pool, int at)
{
    double sum = 0;
    while (at >= 0) {                                         // loop: recurrence
        sum += pool[at].value;                                // idiom: reduction
        at = pool[at].next;                                   // idiom: pointer-chase
    }
    return sum;
}

void decay(std::vector<double> &level, const std::vector<double> &input, double keep)
{
    for (std::size_t i = 1; i < level.size(); ++i)            // loop: recurrence
        level[i] = keep * level[i - 1] + input[i];            // idiom: recurrence
}

void shuffled(const std::vector<int> &from, const std::vector<std::size_t> &to, std::vector<int> &out)
{
    for (std::size_t i = 0; i < from.size(); ++i)             // loop: unknown
        out[to[i]] = from[i];                                 // idiom: scatter
}

double variance(std::span<const double> x, double mean)
{
    return std::accumulate(x.begin(), x.end(), 0.0, // idiom: reduction
                           [mean](double sum, double v) { return sum + (v - mean) * (v - mean); });
}

void use()
{
    geometry::Vector<3> a, b;
    geometry::axpy(geometry::dot(a, b), a, b);
    geometry::Vector<8> c, d;
    geometry::axpy(geometry::dot(c, d), c, d);
    std::vector<double> factors{1, 2};
    std::vector<int> whole{3, 4};
    factors[0] = product(factors) + product(whole);
}

} // namespace numeric
