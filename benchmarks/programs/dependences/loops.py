"""Small loops, labelled as those in loops.c; a line of NumPy is labelled by what its array operations carry."""

import numpy as np

N = 600


def fill(n):
    x = [0.0] * n
    for i in range(n):  # loop: none
        x[i] = 1.0 + i % 7
    return x


def total(x):
    found = 0.0
    for value in x:  # loop: reduction add
        found += value
    return found


def largest(x):
    most = x[0]
    for value in x:  # loop: reduction
        if value > most:
            most = value
    return most


def largest_by_call(x):
    most = x[0]
    for value in x:  # loop: reduction max
        most = max(most, value)
    return most


def prefix(x):
    y = [0.0] * len(x)
    found = 0.0
    for i in range(len(x)):  # loop: recurrence 1
        found += x[i]
        y[i] = found
    return y


def smooth(x):
    for i in range(1, len(x)):  # loop: recurrence 1
        x[i] = 0.5 * (x[i] + x[i - 1])


def apart(x):
    for i in range(3, len(x)):  # loop: recurrence 3
        x[i] = x[i] + x[i - 3]


def differences(x, y):
    before = 0.0
    for i in range(len(x)):  # loop: none
        y[i] = x[i] - before
        before = x[i]


def histogram(keys, counts):
    for i in range(len(keys)):  # loop: collision add
        counts[keys[i]] += 1


def scatter_apart(y, index, x):
    for i in range(len(index)):  # loop: none
        y[index[i]] += x[i]


def generate(n):
    seed = 1
    for _ in range(n):  # loop: recurrence 1
        seed = (seed * 1103515245 + 12345) % 2147483648
    return seed


def halve(n):
    steps = 0
    while n > 1:  # loop: recurrence 1
        n = n // 2
        steps += 1
    return steps


def rows(n):
    room = [0.0] * n
    result = [0.0] * n
    for i in range(n):  # loop: privatisable
        for j in range(n):  # loop: none
            room[j] = float(i * j)
        found = 0.0
        for j in range(n):  # loop: reduction add
            found += room[n - 1 - j]
        result[i] = found
    return result


def product(a, b, n):
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):  # loop: none
        for j in range(n):  # loop: none
            found = 0.0
            for k in range(n):  # loop: reduction add
                found += a[i][k] * b[k][j]
            c[i][j] = found
    return c


def arrays(n):
    x = np.arange(n) * 0.5
    index = np.arange(n) % 10
    y = np.zeros(n)
    z = x + y  # loop: none
    y[:] = z * 2.0  # loop: none
    s = np.cumsum(y)  # loop: recurrence 1
    t = y.sum()  # loop: reduction add
    u = np.dot(x, y)  # loop: reduction add
    np.add.at(y, index, x)  # loop: collision add
    np.add.at(y, np.arange(n), x)  # loop: none
    return s[3] + t + u + y[2]


def steps(n):
    x = np.ones(n)
    for _ in range(5):  # loop: recurrence 1
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
    return x[1]


def main():
    x = fill(N)
    y = fill(N)
    result = total(x) + largest(x) + largest_by_call(x) + prefix(x)[5]
    smooth(x)
    apart(x)
    differences(x, y)
    counts = [0] * 16
    histogram([i % 16 for i in range(N)], counts)
    scatter_apart(y, [(i * 7) % N for i in range(N)], x)
    result += generate(N) + halve(10**9) + rows(25)[3]
    a = [fill(12) for _ in range(12)]
    result += product(a, a, 12)[2][3] + arrays(N) + steps(100)
    print(round(result, 3), counts[3], round(y[5], 3))


if __name__ == "__main__":
    main()
