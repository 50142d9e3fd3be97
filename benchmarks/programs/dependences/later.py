"""More small loops, labelled as those in loops.c; written, and run for the first time, after the second set."""

import numpy as np


def matrix_vector(matrix, x):
    y = [0.0] * len(x)
    for i in range(len(x)):  # loop: none
        total = 0.0
        for j in range(len(x)):  # loop: reduction add
            total += matrix[i][j] * x[j]
        y[i] = total
    return y


def bubble(x):
    for end in range(len(x) - 1, 0, -1):  # loop: recurrence
        for i in range(end):  # loop: recurrence
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]


def collatz(n):
    steps = 0
    while n != 1:  # loop: recurrence 1
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def moving(x):
    y = [0.0] * len(x)
    for i in range(1, len(x) - 1):  # loop: none
        y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0
    return y


def count_words(index, n):
    counts = [0] * n
    for i in index:  # loop: collision add
        counts[i] += 1
    return counts


def running_largest(x):
    y = [0.0] * len(x)
    most = x[0]
    for i in range(len(x)):  # loop: recurrence 1
        if x[i] > most:
            most = x[i]
        y[i] = most
    return y


def product(x):
    found = 1.0
    for value in x:  # loop: reduction multiply
        found *= value
    return found


def arrays(n):
    x = np.linspace(1.0, 2.0, n)
    index = np.arange(n) % 7
    apart = np.arange(n)[::-1]
    y = np.exp(x) * x  # loop: none
    y[index] = 3.0  # loop: collision
    y[apart] = x  # loop: none
    low = y.min()  # loop: reduction min
    s = np.add.accumulate(y)  # loop: recurrence 1
    np.maximum.at(s, index, x)  # loop: collision max
    for _ in range(4):  # loop: recurrence 1
        x = x * 0.5 + y
    return low + s[3] + x[2]


def main():
    n = 300
    x = [float((i * 37) % 101) + 0.5 for i in range(n)]
    matrix = [[float((i + j) % 5) for j in range(20)] for i in range(20)]
    y = matrix_vector(matrix, x[:20])
    short = x[:40]
    bubble(short)
    z = moving(x)
    counts = count_words([(i * i) % 50 for i in range(n)], 50)
    most = running_largest(x)
    result = product([1.0 + v * 1e-6 for v in x]) + collatz(97) + arrays(n)
    print(round(result, 3), y[3], short[0], round(z[7], 3), counts[4], most[-1])


if __name__ == "__main__":
    main()
