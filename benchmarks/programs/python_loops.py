"""Loops over lists and numbers, as whole programs: python_loops.py NAME [SCALE]."""

import sys


def sieve(n):
    prime = [True] * n
    for i in range(2, n):
        if prime[i]:
            for j in range(i * i, n, i):
                prime[j] = False
    return sum(prime)


def sort(n):
    a = [(i * 7919) % n for i in range(n)]
    for i in range(1, n):
        value = a[i]
        j = i - 1
        while j >= 0 and a[j] > value:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = value
    return a[n // 2]


def matrix(n):
    a = [[float(i + j) for j in range(n)] for i in range(n)]
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i][k] * a[k][j]
            c[i][j] = total
    return c[n // 2][n // 3]


def collatz(n):
    longest = 0
    for start in range(1, n):
        steps, value = 0, start
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        longest = max(longest, steps)
    return longest


PROGRAMS = {
    "sieve": (sieve, 12_000_000),
    "sort": (sort, 8_000),
    "matrix": (matrix, 300),
    "collatz": (collatz, 120_000),
}

if __name__ == "__main__":
    function, size = PROGRAMS[sys.argv[1]]
    print(function(int(size * float(sys.argv[2] if len(sys.argv) > 2 else 1))))
