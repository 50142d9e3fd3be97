// Templates, matrix classes with operators, lambdas and algorithms of the standard library.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

namespace grid {

template <typename T>
class Matrix {
public:
    Matrix(int rows, int columns) : rows_(rows), columns_(columns), cells_(rows * columns) {}
    T &operator()(int i, int j) { return cells_[i * columns_ + j]; }
    const T &operator()(int i, int j) const { return cells_[i * columns_ + j]; }
    int rows() const { return rows_; }
    int columns() const { return columns_; }

    void fill(T value)
    {
        for (int i = 0; i < rows_ * columns_; ++i)            // loop: parallel
            cells_[i] = value;                                // idiom: stream
    }

    Matrix &operator+=(const Matrix &other)
    {
        for (std::size_t i = 0; i < cells_.size(); ++i)       // loop: parallel
            cells_[i] += other.cells_[i];                     // idiom: stream
        return *this;
    }

    T trace() const
    {
        T sum{};
        for (int i = 0; i < rows_; ++i)                       // loop: reduction
            sum += (*this)(i, i);                             // idiom: reduction
        return sum;
    }

private:
    int rows_, columns_;
    std::vector<T> cells_;
};

template <typename T>
void multiply(const Matrix<T> &a, const Matrix<T> &b, Matrix<T> &c)
{
    for (int i = 0; i < a.rows(); ++i)                        // loop: unjudged
        for (int j = 0; j < b.columns(); ++j) {               // loop: parallel
            T sum = T(0);
            for (int k = 0; k < a.columns(); ++k)             // loop: reduction
                sum += a(i, k) * b(k, j);                     // idiom: matrix-product (reduction)
            c(i, j) = sum;                                    // idiom: none
        }
}

template <typename T>
void transpose(const Matrix<T> &a, Matrix<T> &b)
{
    for (int i = 0; i < a.rows(); ++i)                        // loop: unjudged
        for (int j = 0; j < a.columns(); ++j)                 // loop: parallel
            b(j, i) = a(i, j);                                // idiom: transpose
}

void laplace(const Matrix<double> &u, Matrix<double> &v)
{
    for (int i = 1; i < u.rows() - 1; ++i)                    // loop: unjudged
        for (int j = 1; j < u.columns() - 1; ++j)             // loop: parallel
            v(i, j) = u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4 * u(i, j); // idiom: stencil
}

void apply(const Matrix<double> &a, const std::vector<double> &x, std::vector<double> &y)
{
    for (int i = 0; i < a.rows(); ++i) {                      // loop: parallel
        double sum = 0;
        for (int j = 0; j < a.columns(); ++j)                 // loop: reduction
            sum += a(i, j) * x[j];                            // idiom: matrix-vector-product (reduction)
        y[i] = sum;                                           // idiom: none
    }
}

void hadamard(const Matrix<float> &a, const Matrix<float> &b, Matrix<float> &c)
{
    for (int i = 0; i < c.rows(); i++)                        // loop: parallel
        for (int j = 0; j < c.columns(); j++)                 // loop: parallel
            c(i, j) += a(i, j) * b(i, j);                     // idiom: stream
}

template <typename Value, typename Operation>
Value folded(const std::vector<Value> &values, Value start, Operation operation)
{
    for (const Value &value : values)                         // loop: reduction
        start = operation(start, value);                      // idiom: reduction
    return start;
}

template <int Width>
void blocks(const float *in, float *out, int n)
{
    for (int i = 0; i < n; i += Width)                        // loop: parallel
        for (int lane = 0; lane < Width; ++lane)              // loop: parallel
            out[i + lane] = in[i + lane] * 2.0f;              // idiom: stream
}

template <typename Index, typename Value>
void accumulate_at(const Index *at, const Value *values, Value *bins, std::size_t n)
{
    for (std::size_t i = 0; i < n; ++i)                       // loop: reduction
        bins[at[i]] += values[i];                             // idiom: gather-modify-scatter
}

template <typename Iterator, typename Value>
Value sum_of(Iterator first, Iterator last, Value total)
{
    for (; first != last; ++first)                            // loop: reduction
        total += *first;                                      // idiom: reduction
    return total;
}

struct Link {
    int value;
    std::unique_ptr<Link> next;
    Link *after;
};

int chain(const Link *link)
{
    int sum = 0;
    for (; link != nullptr; link = link->after)               // loop: recurrence, idiom: pointer-chase
        sum += link->value;                                   // idiom: reduction
    return sum;
}

class Sparse {
public:
    void multiply(const double *x, double *y) const
    {
        for (std::size_t row = 0; row < rows; ++row) {        // loop: parallel
            double sum = 0;
            for (auto k = start[row]; k != start[row + 1]; ++k) // loop: reduction
                sum += entries[k].value * x[entries[k].column]; // idiom: sparse-product-csr (gather, reduction)
            y[row] = sum;                                     // idiom: none
        }
    }

private:
    struct Entry {
        std::size_t column;
        double value;
    };
    std::size_t rows = 0;
    std::vector<std::size_t> start;
    std::vector<Entry> entries;
};

class Smoother {
public:
    void sweep()
    {
        for (int i = 1; i < n - 1; ++i)                       // loop: recurrence
            u[i] = 0.5 * (u[i - 1] + u[i + 1] - f[i]);        // idiom: stencil (recurrence)
    }

    double residual() const
    {
        double worst = 0;
        for (int i = 1; i < n - 1; ++i)                       // loop: reduction
            worst = std::max(worst, std::abs(u[i - 1] - 2 * u[i] + u[i + 1] - f[i])); // idiom: reduction
        return worst;
    }

private:
    int n = 0;
    double *u = nullptr, *f = nullptr;
};

void algorithms(std::vector<double> &a, std::vector<double> &b, std::vector<int> &order)
{
    std::fill(a.begin(), a.end(), 0.0);                       // idiom: stream
    std::copy(a.begin(), a.end(), b.begin());                 // idiom: stream
    std::transform(a.begin(), a.end(), b.begin(), [](double v) { return v * v; }); // idiom: stream
    std::iota(order.begin(), order.end(), 0);                 // idiom: stream
    std::partial_sum(a.begin(), a.end(), b.begin());          // idiom: prefix-scan
    std::for_each(a.begin(), a.end(), [](double &v) { v += 1; }); // idiom: stream
}

double totals(const std::vector<double> &a, const std::vector<double> &b)
{
    const double sum = std::accumulate(a.begin(), a.end(), 0.0); // idiom: reduction
    const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0); // idiom: reduction
    const double most = *std::max_element(a.begin(), a.end()); // idiom: reduction
    const auto many = std::count_if(a.begin(), a.end(), [](double v) { return v > 1; }); // idiom: reduction
    return sum + dot + most + static_cast<double>(many);
}

void captured(std::vector<double> &out, const std::vector<double> &in, const std::vector<int> &at)
{
    auto load = [&](std::size_t i) { return in[at[i]]; };
    for (std::size_t i = 0; i < out.size(); ++i)              // loop: parallel
        out[i] = load(i);                                     // idiom: gather
}

void by_index(std::vector<double> &out, const std::vector<double> &in, const std::vector<int> &at)
{
    std::transform(at.begin(), at.end(), out.begin(), [&](int place) { return in[place]; }); // idiom: gather
}

inline double squared(double v)
{
    return v * v;
}

double energy(const double *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; ++i)                               // loop: reduction
        sum += squared(v[i]);                                 // idiom: reduction
    return sum;
}

double unknown_callback(const std::vector<double> &v, const std::function<double(double)> &f)
{
    double sum = 0;
    for (double value : v)                                    // loop: unknown
        sum += f(value);                                      // idiom: reduction
    return sum;
}

void use()
{
    Matrix<double> a(4, 4), b(4, 4), c(4, 4);
    Matrix<float> f(4, 4);
    a.fill(1);
    f.fill(2);
    a += b;
    multiply(a, b, c);
    multiply(f, f, f);
    transpose(a, b);
    std::vector<double> v(4);
    std::vector<int> w(4);
    v[0] = folded(v, 0.0, [](double x, double y) { return x + y; }) + a.trace();
    blocks<4>(nullptr, nullptr, 8);
    blocks<8>(nullptr, nullptr, 8);
    accumulate_at(w.data(), v.data(), v.data(), 4);
    v[1] = sum_of(v.begin(), v.end(), 0.0);
}

} // namespace grid
