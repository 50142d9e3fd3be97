"""More small loops, labelled as those in loops.c. They were written when foretrace was done with those."""

import numpy as np

total_calls = 0


def work(value):
    global total_calls
    total_calls += 1
    return value * 2.0


class Account:
    """Sums what is paid in."""

    def __init__(self):
        """Empty."""
        self.balance = 0.0

    def pay(self, amounts):
        """Pay in."""
        for amount in amounts:  # loop: reduction add
            self.balance += amount


def mean_and_least(x):
    found, least = 0.0, x[0]
    for value in x:  # loop: reduction
        found += value
        least = min(least, value)
    return found / len(x), least


def fibonacci(n):
    one, two = 1, 1
    for _ in range(n):  # loop: recurrence 1
        one, two = two, (one + two) % 1000003
    return one


def sieve(n):
    prime = [True] * n
    for i in range(2, n):  # loop: recurrence
        if prime[i]:
            for j in range(i * i, n, i):  # loop: none
                prime[j] = False
    return sum(prime)


def distances(x):
    n = len(x)
    table = [0.0] * (n * n)
    for i in range(n):  # loop: none
        for j in range(n):  # loop: none
            table[i * n + j] = abs(x[i] - x[j])
    return table


def knapsack(weights, most):
    best = [0] * (most + 1)
    for weight in weights:  # loop: recurrence 1
        for room in range(most, weight - 1, -1):  # loop: privatisable
            best[room] = max(best[room], best[room - weight] + weight)
    return best[most]


def merge(a, b):
    result = [0] * (len(a) + len(b))
    i = j = 0
    for k in range(len(result)):  # loop: recurrence 1
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            result[k] = a[i]
            i += 1
        else:
            result[k] = b[j]
            j += 1
    return result


def newton(value):
    guess = value
    while abs(guess * guess - value) > 1e-9:  # loop: recurrence 1
        guess = 0.5 * (guess + value / guess)
    return guess


def groups(keys, values):
    sums = [0.0] * 8
    for k, value in zip(keys, values, strict=True):  # loop: collision add
        sums[k] += value
    return sums


def vectors(n):
    x = np.linspace(0.0, 1.0, n)
    index = np.arange(n) // 2
    y = np.sqrt(x) + 1.0  # loop: none
    largest = y.max()  # loop: reduction max
    z = np.cumprod(y)  # loop: recurrence 1
    w = np.zeros(n)
    w[index] = x  # loop: collision
    np.maximum.at(w, index, y)  # loop: collision max
    velocity = np.zeros(n)
    for _ in range(4):  # loop: recurrence 1
        velocity = velocity * 0.5 + y
    return largest + z[2] + w[3] + velocity[1]


def main():
    x = [float(i % 17) for i in range(400)]  # loop: none
    account = Account()
    account.pay(x)
    result = sum(mean_and_least(x)) + fibonacci(200) + sieve(300) + distances(x[:20])[5] + knapsack([3, 5, 7], 60)
    merged = merge(list(range(0, 100, 2)), list(range(1, 100, 2)))
    print(round(result + merged[9] + newton(2.0) + groups([i % 8 for i in range(80)], x[:80])[2] + vectors(64), 3))
    print(account.balance)


if __name__ == "__main__":
    main()
