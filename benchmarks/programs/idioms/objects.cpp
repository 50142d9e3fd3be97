// Members, references, static and mutable state, and loops that only look like an idiom.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

struct Point {
    double x, y;
    Point operator+(const Point &other) const { return {x + other.x, y + other.y}; }
};

class Histogram {
public:
    explicit Histogram(int bins) : count_(bins) {}

    void add(const std::vector<double> &samples)
    {
        for (double sample : samples) {                       // loop: reduction
            const auto bin = static_cast<std::size_t>((sample - low_) * scale_);
            count_[bin]++;                                    // idiom: gather-modify-scatter
        }
    }

    void merge(const Histogram &other)
    {
        for (std::size_t i = 0; i < count_.size(); i++)       // loop: parallel
            count_[i] += other.count_[i];                     // idiom: stream
    }

    std::size_t total() const
    {
        std::size_t sum = 0;
        for (const std::size_t one : count_)                  // loop: reduction
            sum += one;                                       // idiom: reduction
        return sum;
    }

    void cumulate()
    {
        std::size_t running = 0;
        for (auto &one : count_) {                            // loop: recurrence
            running += one;                                   // idiom: prefix-scan
            one = running;
        }
    }

private:
    std::vector<std::size_t> count_;
    double low_ = 0, scale_ = 1;
};

class Mesh {
public:
    void forces(const double *pressure)
    {
        for (int e = 0; e < elements; ++e) {                  // loop: reduction
            const int *nodes = &corner[4 * e];
            for (int c = 0; c < 4; ++c)                       // loop: reduction
                force[nodes[c]].x += 0.25 * pressure[e];      // idiom: gather-modify-scatter
        }
    }

    double width() const
    {
        double low = std::numeric_limits<double>::max(), high = -low;
        for (int i = 0; i < points; ++i) {                    // loop: reduction
            low = low < at[i].x ? low : at[i].x;              // idiom: reduction
            high = high > at[i].x ? high : at[i].x;           // idiom: reduction
        }
        return high - low;
    }

    void centres(Point *out) const
    {
        for (int e = 0; e < elements; ++e)                    // loop: parallel
            out[e].x = 0.5 * (at[corner[2 * e]].x + at[corner[2 * e + 1]].x); // idiom: gather
    }

    void move(double by)
    {
        for (int i = 0; i < points; ++i) {                    // loop: parallel
            Point &point = at[i];
            point.x += by;                                    // idiom: stream
            point.y -= by;                                    // idiom: stream
        }
    }

private:
    int elements = 0, points = 0;
    int *corner = nullptr;
    Point *at = nullptr, *force = nullptr;
};

void by_reference(double &total, const double *values, int n)
{
    for (int i = 0; i < n; ++i)                               // loop: reduction
        total += values[i];                                   // idiom: reduction
}

void aliased(double *values, int n)
{
    double *&&same = static_cast<double *>(values);
    double *later = same + 2;
    for (int i = 0; i < n; ++i)                               // loop: recurrence
        later[i] = values[i] + 1;                             // idiom: recurrence
}

std::uint64_t fnv(const std::uint8_t *data, std::size_t n)
{
    std::uint64_t h = 1469598103934665603ULL;
    for (std::size_t i = 0; i < n; ++i) {                     // loop: recurrence
        h ^= data[i];                                         // idiom: recurrence
        h *= 1099511628211ULL;
    }
    return h;
}

void points(std::vector<Point> &sum, const std::vector<Point> &a, const std::vector<Point> &b)
{
    for (std::size_t i = 0; i < sum.size(); ++i)              // loop: parallel
        sum[i] = a[i] + b[i];                                 // idiom: stream
}

int *first_negative(int *begin, int *end)
{
    for (int *p = begin; p != end; ++p)                       // loop: unknown
        if (*p < 0)
            return p;
    return end;
}

void insertion(std::vector<double> &v)
{
    for (std::size_t i = 1; i < v.size(); ++i) {              // loop: recurrence
        const double key = v[i];
        std::size_t j = i;
        for (; j > 0 && v[j - 1] > key; --j)                  // loop: unjudged
            v[j] = v[j - 1];                                  // idiom: sort
        v[j] = key;                                           // idiom: none
    }
}

void exchange(std::vector<int> &v)
{
    for (std::size_t i = 0; i + 1 < v.size(); i += 2) {       // loop: parallel
        const int low = v[i] < v[i + 1] ? v[i] : v[i + 1];
        const int high = v[i] < v[i + 1] ? v[i + 1] : v[i];
        v[i] = low;                                           // idiom: sort
        v[i + 1] = high;
    }
}

void padded(const std::vector<int> &column, const std::vector<double> &value, const std::vector<double> &x,
            std::vector<double> &y, int width)
{
    const int rows = static_cast<int>(y.size());
    for (int k = 0; k < width; ++k)                           // loop: reduction
        for (int row = 0; row < rows; ++row)                  // loop: parallel
            y[row] += value[k * rows + row] * x[column[k * rows + row]]; // idiom: sparse-product-ell (gather)
}

void coordinates(const std::vector<int> &row, const std::vector<int> &column, const std::vector<double> &value,
                 const double *x, double *y)
{
    for (std::size_t e = 0; e < value.size(); ++e) {          // loop: reduction
        const double part = value[e] * x[column[e]];
        y[row[e]] += part;                                    // idiom: sparse-product-coo (gather, gather-modify-scatter)
    }
}

void wavefront(std::vector<std::vector<int>> &d, const std::vector<std::vector<int>> &cost)
{
    for (std::size_t i = 1; i < d.size(); ++i)                // loop: recurrence
        for (std::size_t j = 1; j < d[0].size(); ++j)         // loop: recurrence
            d[i][j] = cost[i][j] + (d[i - 1][j] < d[i][j - 1] ? d[i - 1][j] : d[i][j - 1]); // idiom: stencil (recurrence)
}

void look_up(std::vector<float> &out, const std::vector<std::uint16_t> &code, const float (&book)[64])
{
    for (std::size_t i = 0; i < out.size(); ++i)              // loop: parallel
        out[i] = book[code[i] % 64];                          // idiom: table-lookup
}

void keep(std::vector<int> &v, int limit)
{
    auto to = v.begin();
    for (auto from = v.begin(); from != v.end(); ++from)      // loop: recurrence
        if (*from < limit)
            *to++ = *from;                                    // idiom: compaction
    v.erase(to, v.end());
}

void packed(std::uint8_t *out, const std::uint32_t *in, std::size_t n)
{
    for (std::size_t i = 0; i < n; ++i)                       // loop: parallel
        std::memcpy(out + 4 * i, &in[i], 4);                  // idiom: stream
}

int reach(const std::vector<int> &parent, int from)
{
    while (parent[from] >= 0)                                 // loop: recurrence
        from = parent[from];                                  // idiom: pointer-chase
    return from;
}
