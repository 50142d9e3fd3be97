"""Labelled after the recogniser was finished: finance, sequences, images, simulations, in plain Python."""

from collections import defaultdict, deque
from math import exp, hypot

KEYPAD = [2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 9, 9, 9, 9]


def discount(cash, rate):
    value = 0.0
    factor = 1.0
    for amount in cash:                                  # loop: recurrence
        factor /= 1.0 + rate                             # idiom: none
        value += amount * factor                         # idiom: reduction
    return value


def returns(prices):
    out = []
    for today in range(1, len(prices)):                  # loop: parallel
        out.append(prices[today] / prices[today - 1] - 1)  # idiom: stencil
    return out


def moving_average(prices, alpha):
    smooth = [prices[0]]
    for price in prices[1:]:                             # loop: recurrence
        smooth.append(alpha * price + (1 - alpha) * smooth[-1])  # idiom: recurrence
    return smooth


def drawdown(prices):
    peak, worst = prices[0], 0.0
    for p in prices:                                     # loop: unjudged
        peak = max(peak, p)                              # idiom: reduction
        worst = min(worst, p / peak - 1)                 # idiom: reduction
    return worst


def balances(transactions, accounts):
    for source, target, amount in transactions:          # loop: reduction
        accounts[source] -= amount                       # idiom: gather-modify-scatter
        accounts[target] += amount                       # idiom: gather-modify-scatter


def by_day(days, amounts):
    totals = defaultdict(float)
    for day, amount in zip(days, amounts):               # loop: unjudged
        totals[day] += amount                            # idiom: gather-modify-scatter
    return totals


def ledger(opening, changes):
    state = opening
    history = [0.0] * len(changes)
    for n, change in enumerate(changes):                 # loop: recurrence
        state += change                                  # idiom: prefix-scan
        history[n] = state
    return history


def complement(sequence, codes):
    pairs = [3, 2, 1, 0]
    result = [0] * len(sequence)
    for i in range(len(sequence)):                       # loop: parallel
        result[i] = codes[pairs[sequence[i] & 3]]        # idiom: table-lookup
    return result


def letters(word):
    digits = []
    for c in word:                                       # loop: parallel
        digits.append(KEYPAD[ord(c) - 97])               # idiom: table-lookup
    return digits


def gc_content(bases):
    return sum(1 for b in bases if b in (1, 2)) / len(bases)  # idiom: reduction


def edit_row(previous, a, b):
    current = [0] * len(previous)
    current[0] = previous[0] + 1
    for j in range(1, len(previous)):                    # loop: recurrence
        current[j] = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b[j - 1]))  # idiom: recurrence
    return current


def suffix_order(rank, doubled):
    return [rank[d] for d in doubled]                    # idiom: gather


def inverse_bwt(first, next_row, start):
    out = []
    row = start
    for _ in range(len(first)):                          # loop: recurrence
        out.append(first[row])                           # idiom: none
        row = next_row[row]                              # idiom: pointer-chase
    return out


def invert(image):
    for line in image:                                   # loop: unjudged
        for x, pixel in enumerate(line):                 # loop: parallel
            line[x] = 255 - pixel                        # idiom: stream


def sobel(image, out, width, height):
    for y in range(1, height - 1):                       # loop: parallel
        for x in range(1, width - 1):                    # loop: parallel
            gx = image[y][x + 1] - image[y][x - 1]
            gy = image[y + 1][x] - image[y - 1][x]
            out[y][x] = hypot(gx, gy)                    # idiom: stencil


def quarter_turn(image):
    n = len(image)
    turned = [[0] * n for _ in range(n)]                 # idiom: stream
    for r in range(n):                                   # loop: parallel
        for c in range(n):                               # loop: parallel
            turned[c][r] = image[r][c]                   # idiom: transpose
    return turned


def equalise(image, n):
    counts = [0] * 256
    for v in image:                                      # loop: reduction
        counts[v] += 1                                   # idiom: gather-modify-scatter
    for v in range(1, 256):                              # loop: recurrence
        counts[v] += counts[v - 1]                       # idiom: prefix-scan
    return [counts[v] * 255 // n for v in image]         # idiom: gather


def heat(u, steps, k):
    n = len(u)
    for _ in range(steps):                               # loop: recurrence
        v = list(u)                                      # idiom: stream
        for i in range(1, n - 1):                        # loop: parallel
            u[i] = v[i] + k * (v[i + 1] - 2 * v[i] + v[i - 1])  # idiom: stencil
    return u


def life(cells, n):
    new = [0] * n
    for i in range(n):                                   # loop: parallel
        new[i] = cells[(i - 1) % n] ^ cells[(i + 1) % n]  # idiom: stencil
    return new


def leapfrog(x, v, a, dt):
    for i in range(len(x)):                              # loop: parallel
        v[i] += dt * a[i]                                # idiom: stream
        x[i] += dt * v[i]                                # idiom: stream


def decay(n, rate):
    amount = 1.0
    out = [0.0] * n
    for i in range(n):                                   # loop: recurrence
        out[i] = amount
        amount = amount * exp(-rate) + 0.01              # idiom: recurrence
    return out


def kinetic(mass, v):
    total = 0.0
    for m, (vx, vy) in zip(mass, v):                     # loop: reduction
        total += 0.5 * m * (vx * vx + vy * vy)           # idiom: reduction
    return total


def accept(candidates, limit):
    chosen = []
    for c in candidates:                                 # loop: recurrence
        if c.cost < limit:
            chosen.append(c)                             # idiom: compaction
    return chosen


def cocktail(a):
    for i in range(len(a) - 1, 0, -1):                   # loop: recurrence
        if a[i] < a[i - 1]:
            a[i], a[i - 1] = a[i - 1], a[i]              # idiom: sort


def matmul_rows(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]  # idiom: matrix-product (reduction)


def apply(matrix, vector):
    result = [0.0] * len(matrix)
    for i, row in enumerate(matrix):                     # loop: parallel
        for j, x in enumerate(vector):                   # loop: reduction
            result[i] += row[j] * x                      # idiom: matrix-vector-product (reduction)
    return result


def triangle_counts(start, neighbours, weight, score, out):
    for v in range(len(start) - 1):                      # loop: parallel
        acc = 0.0
        k, end = start[v], start[v + 1]
        while k < end:                                   # loop: reduction
            acc += weight[k] * score[neighbours[k]]      # idiom: sparse-product-csr (gather, reduction)
            k += 1
        out[v] = acc                                     # idiom: none


def breadth_first(neighbours, start):
    seen = {start}
    queue = deque([start])
    while queue:                                         # loop: unjudged
        v = queue.popleft()
        for w in neighbours[v]:                          # loop: unjudged
            if w not in seen:
                seen.add(w)
                queue.append(w)                          # idiom: none


def find_root(parent, v):
    while True:                                          # loop: unjudged
        if parent[v] == v:
            return v
        v = parent[v]                                    # idiom: pointer-chase


def send(messages, outbox, destination):
    for m in range(len(messages)):                       # loop: unknown
        outbox[destination[m]] = messages[m]             # idiom: scatter


def haar(a, n):
    half = n // 2
    out = [0.0] * n
    for i in range(half):                                # loop: parallel
        s, d = a[2 * i], a[2 * i + 1]
        out[i] = s + d                                   # idiom: fft-butterfly
        out[half + i] = s - d
    return out
