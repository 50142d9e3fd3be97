"""Reductions, scans, recurrences and sorts."""

import functools
import itertools


def sums(n, a, b):
    total = 0.0
    for i in range(n):                                   # loop: reduction
        total += a[i] * b[i]                             # idiom: reduction
    return total


def largest(a):
    most = a[0]
    for value in a[1:]:                                  # loop: reduction
        if value > most:
            most = value                                 # idiom: reduction
    return most


def least(n, a):
    found = float("inf")
    for i in range(n):                                   # loop: reduction
        found = min(found, abs(a[i]))                    # idiom: reduction
    return found


def larger_ones(a, limit):
    number = 0
    for value in a:                                      # loop: reduction
        if value > limit:
            number += 1                                  # idiom: reduction
    return number


def every(n, a):
    all_positive = True
    for i in range(n):                                   # loop: reduction
        all_positive = all_positive and a[i] > 0         # idiom: reduction
    return all_positive


def parity(data):
    value = 0
    for word in data:                                    # loop: reduction
        value ^= word                                    # idiom: reduction
    return value


def generator_sum(a, b):
    return sum(x * y for x, y in zip(a, b))              # idiom: reduction


def builtin_sum(a):
    return sum(a)                                        # idiom: reduction


def folded(a):
    return functools.reduce(lambda x, y: x * y, a, 1)    # idiom: reduction


def no_reductions(n, a):
    last = 0.0
    for i in range(n):                                   # loop: parallel
        last = a[i]                                      # idiom: none
    s = 0.0
    for i in range(n):                                   # loop: recurrence
        s = a[i] - s                                     # idiom: recurrence
    for i in range(n):                                   # loop: recurrence
        s = 0.5 * s + a[i]                               # idiom: recurrence
    return last, s


def counted(n):
    s = 0
    for i in range(n):                                   # loop: reduction
        s += i                                           # idiom: none
    return s


def scans(n, a, b):
    running = 0.0
    for i in range(n):                                   # loop: recurrence
        running += b[i]                                  # idiom: prefix-scan
        a[i] = running
    for i in range(1, n):                                # loop: recurrence
        a[i] = a[i - 1] + b[i]                           # idiom: prefix-scan
    for i in range(1, n):                                # loop: recurrence
        a[i] += a[i - 1]                                 # idiom: prefix-scan
    most = b[0]
    for i in range(n):                                   # loop: recurrence
        most = max(most, b[i])                           # idiom: prefix-scan
        a[i] = most


def accumulated(a):
    return list(itertools.accumulate(a))                 # idiom: prefix-scan


def exclusive(count):
    start = [0] * (len(count) + 1)
    for i in range(len(count)):                          # loop: recurrence
        start[i + 1] = start[i] + count[i]               # idiom: prefix-scan
    return start


def running_list(a):
    total, out = 0, []
    for value in a:                                      # loop: recurrence
        total += value                                   # idiom: prefix-scan
        out.append(total)
    return out


def no_scans(n, a, b):
    for i in range(1, n):                                # loop: parallel
        a[i] = b[i - 1] + b[i]                           # idiom: stencil
    for i in range(n - 1):                               # loop: recurrence
        a[i] = a[i + 1] + b[i]                           # idiom: stream


def linear(n, a, b, c):
    for i in range(1, n):                                # loop: recurrence
        a[i] = c[i] * a[i - 1] + b[i]                    # idiom: recurrence


def back_substituted(n, x, c, d):
    for i in range(n - 2, -1, -1):                       # loop: recurrence
        x[i] = d[i] - c[i] * x[i + 1]                    # idiom: recurrence


def smoothed(a, rate):
    level = a[0]
    for i in range(1, len(a)):                           # loop: recurrence
        level = rate * a[i] + (1 - rate) * level         # idiom: recurrence
        a[i] = level                                     # idiom: none


def far(n, a):
    for i in range(4, n):                                # loop: recurrence
        a[i] = 0.5 * a[i - 4]                            # idiom: recurrence
    for i in range(n):                                   # loop: parallel
        a[i + n] = a[i] * 2                              # idiom: stream


def fibonacci(n):
    f = [0, 1] + [0] * n
    for i in range(2, n):                                # loop: recurrence
        f[i] = f[i - 1] + f[i - 2]                       # idiom: recurrence
    return f


def bubbles(a):
    n = len(a)
    for i in range(n):                                   # loop: recurrence
        for j in range(n - 1 - i):                       # loop: recurrence
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]          # idiom: sort


def insertion(a):
    for i in range(1, len(a)):                           # loop: recurrence
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:                     # loop: unjudged
            a[j + 1] = a[j]                              # idiom: sort
            j -= 1
        a[j + 1] = key                                   # idiom: none


def network(n, a):
    for i in range(0, n - 1, 2):                         # loop: parallel
        low, high = min(a[i], a[i + 1]), max(a[i], a[i + 1])
        a[i] = low                                       # idiom: sort
        a[i + 1] = high


def shell(a, gap):
    for i in range(gap, len(a)):                         # loop: unjudged
        if a[i - gap] > a[i]:
            kept = a[i]
            a[i] = a[i - gap]                            # idiom: sort
            a[i - gap] = kept


def turned_round(a):
    n = len(a)
    for i in range(n // 2):                              # loop: parallel
        a[i], a[n - 1 - i] = a[n - 1 - i], a[i]          # idiom: none


def fills(n):
    zeros = [0 for _ in range(n)]                        # idiom: stream
    squares = [i * i for i in range(n)]                  # idiom: stream
    for i in range(n):                                   # loop: parallel
        zeros[i] = -1 if squares[i] > 9 else 1           # idiom: stream
    return zeros


def early(a, wanted):
    for i in range(len(a)):                              # loop: unjudged
        if a[i] == wanted:
            return i
    return -1


def printed(a):
    for value in a:                                      # loop: unjudged
        print(value)
