// Members as temporaries and as sums, accessors of the program's own containers, pointers that advance in loops.
#include <cstddef>

#define CHECK(condition)

template <class T> class Sequence {
public:
    T &operator[](int i);
    const T &operator[](int i) const;
    int size() const { return size_; }
    T *data() { return data_; }

private:
    T *data_ = nullptr;
    int size_ = 0;
};

template <class T> inline T &Sequence<T>::operator[](int i)
{
    CHECK(i >= 0 && i < size_);
    return data_[i];
}

template <class T> inline const T &Sequence<T>::operator[](int i) const
{
    CHECK(i >= 0 && i < size_);
    return data_[i];
}

void subtract(Sequence<double> &a, const Sequence<double> &b)
{
    for (int i = 0; i < a.size(); i++)                        // loop: parallel
        a[i] -= b[i];                                         // idiom: stream
}

void running(Sequence<double> &a)
{
    for (int i = 1; i < a.size(); i++)                        // loop: recurrence
        a[i] += a[i - 1];                                     // idiom: prefix-scan
}

// A row of blocks, some of them absent, copied one behind the other.
void append(int blocks, Sequence<int> *const *block, const int *first, int *columns)
{
    int *at = columns;
    for (int b = 0; b < blocks; b++) {                        // loop: recurrence
        if (block[b] == nullptr)
            continue;
        for (int i = 0; i < block[b]->size(); i++)            // loop: parallel
            *(at++) = (*block[b])[i] + first[b];              // idiom: stream
    }
}

// Blocks of the matrix below the diagonal, added to both of its halves.
struct Element {
    int height;
    const double *gradient;
    void prepare();

    void assemble(double weight, double *matrix)
    {
        prepare();
        const int nodes = height;
        const int rows = 2 * nodes;
        const double scale = weight * gradient[0];
        prepare();
        for (int i = 0; i < nodes; i++)                       // loop: parallel
            for (int k = 0; k < i; k++) {                     // loop: parallel
                const double part = scale * gradient[i] * gradient[k];
                matrix[i + rows * (k + nodes)] += part;       // idiom: none
                matrix[k + nodes + rows * i] += part;         // idiom: stream
            }
    }

    void assemble_all(double weight, double *matrix)
    {
        const int nodes = height;
        const int rows = 2 * nodes;
        prepare();
        for (int i = 0; i < nodes; i++)                       // loop: reduction
            for (int k = 0; k < nodes; k++) {                 // loop: parallel
                matrix[i + rows * k] += weight * gradient[i]; // idiom: stream
                matrix[k + rows * i] += weight * gradient[k]; // idiom: stream
            }
    }
};

// The upper and the lower triangle of blocks of three by three, one below the other.
void couple(int nodes, const double *gradient, double *matrix)
{
    const int rows = 3 * nodes;
    for (int i = 0; i < nodes; i++)                           // loop: parallel
        for (int j = 1; j < 3; j++)                           // loop: parallel
            for (int l = 0; l < j; l++) {                     // loop: parallel
                const int ij = i + nodes * j, il = i + nodes * l;
                const double part = gradient[ij] * gradient[il];
                matrix[ij + rows * il] += part;               // idiom: none
                matrix[il + rows * ij] += part;               // idiom: stream
            }
}

// The same blocks with some of them written out.
void couple_parts(int nodes, const double *gradient, double *matrix)
{
    const int rows = 3 * nodes;
    for (int i = 0; i < nodes; i++)                           // loop: parallel
        for (int k = 0; k < i; k++) {                         // loop: parallel
            for (int j = 0; j < 3; j++)                       // loop: parallel
                matrix[i + nodes * j + rows * (k + nodes * j)] += gradient[k]; // idiom: stream
            matrix[i + rows * (k + nodes)] -= gradient[i];    // idiom: stream
            matrix[k + nodes + rows * i] -= gradient[i];      // idiom: stream
        }
}

// With the diagonal and both orders of j and l, two iterations meet.
void couple_all(int nodes, const double *gradient, double *matrix)
{
    const int rows = 3 * nodes;
    for (int i = 0; i < nodes; i++)                           // loop: parallel
        for (int j = 0; j < 3; j++)                           // loop: reduction
            for (int l = 0; l < 3; l++) {                     // loop: parallel
                matrix[i + nodes * j + rows * (i + nodes * l)] += gradient[j]; // idiom: stream
                matrix[i + nodes * l + rows * (i + nodes * j)] -= gradient[j]; // idiom: stream
            }
}

class Optimiser {
public:
    void asymptotes(const double *x, const double *older)
    {
        for (int i = 0; i < variables; i++) {                 // loop: parallel
            change = x[i] - older[i];
            if (change < 0)
                factor[i] = 0.7;                              // idiom: stream
            else
                factor[i] = 1.2;                              // idiom: stream
            least = x[i] - 10 * factor[i];
            low[i] = low[i] > least ? low[i] : least;         // idiom: stream
        }
    }

    // What the iteration before left is read first.
    void delayed(const double *x)
    {
        for (int i = 0; i < variables; i++) {                 // loop: recurrence
            factor[i] = change;                               // idiom: stream
            change = x[i];
        }
    }

    // Some iterations read what an earlier one left.
    void held(const double *x)
    {
        for (int i = 0; i < variables; i++) {                 // loop: recurrence
            if (x[i] > 0)
                change = x[i];
            factor[i] = change;                               // idiom: stream
        }
    }

    void residual(const double *slack)
    {
        const int n = variables, m = constraints;
        residue[n + m] = 1;
        for (int i = 0; i < n; i++) {                         // loop: reduction
            for (int j = 0; j < m; j++)                       // loop: reduction
                residue[n + m] -= factor[j] * slack[i];       // idiom: reduction
            residue[i] = low[i];                              // idiom: stream
            residue[n + m + 1 + m + i] = slack[i];            // idiom: stream
        }
    }

    void partial(const double *slack)
    {
        for (int i = 0; i < variables; i++) {                 // loop: recurrence
            residue[0] += slack[i];                           // idiom: prefix-scan
            low[i] = residue[0];
        }
    }

    // Each iteration starts anew, so no total grows.
    void anew(const double *slack)
    {
        for (int i = 0; i < variables; i++) {                 // loop: parallel
            most[0] = slack[i];
            most[0] = most[0] - 2 * low[i];                   // idiom: none
            factor[i] = most[0];                              // idiom: stream
        }
    }

    void total(const double *slack)
    {
        sum = 0;
        for (int i = 0; i < variables; i++)                   // loop: reduction
            sum += slack[i] * slack[i];                       // idiom: reduction
    }

    void largest(const double *slack)
    {
        for (int i = 0; i < variables; i++)                   // loop: reduction
            if (slack[i] > most[1])
                most[1] = slack[i];                           // idiom: reduction
    }

private:
    int variables = 0, constraints = 0;
    double change = 0, least = 0, sum = 0;
    double *factor = nullptr, *low = nullptr, *residue = nullptr, *most = nullptr;
};

void use(Optimiser &optimiser, Element &element, double *v)
{
    optimiser.asymptotes(v, v + 8);
    optimiser.delayed(v);
    optimiser.held(v);
    optimiser.residual(v);
    optimiser.partial(v);
    optimiser.anew(v);
    optimiser.total(v);
    optimiser.largest(v);
    element.assemble(1, v);
    element.assemble_all(1, v);
}

// Any order of equal values leaves the same.
void touched(int n, const int *node, bool *seen)
{
    for (int i = 0; i < n; i++)                               // loop: reduction
        seen[node[i]] = true;                                 // idiom: scatter
}

void last_touched(int n, const int *node, int *by)
{
    for (int i = 0; i < n; i++)                               // loop: unknown
        by[node[i]] = i;                                      // idiom: scatter
}

// Zeros below, ones on the diagonal: whether their places differ is in the data.
void eliminate(int n, const int *row, const int *column, const int *fixed, double *value)
{
    for (int f = 0; f < n; f++) {                             // loop: unknown
        const int r = fixed[f];
        for (int j = row[r]; j < row[r + 1]; j++)             // loop: unknown
            if (column[j] == r)
                value[j] = 1.0;                               // idiom: stream
            else
                for (int k = row[column[j]]; k < row[column[j] + 1]; k++) // loop: parallel
                    if (column[k] == r)
                        value[k] = 0.0;                       // idiom: stream
    }
}
