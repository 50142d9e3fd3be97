"""Index arrays, sparse matrices, tables, chains and compactions."""

import heapq

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
NIBBLES = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4]


def gathers(n, a, b, at):
    for i in range(n):                                   # loop: parallel
        a[i] = b[at[i]]                                  # idiom: gather
    for i in range(n):                                   # loop: parallel
        place = at[i]
        a[i] = 3.0 * b[place] + 1.0                      # idiom: gather
    for i, place in enumerate(at):                       # loop: parallel
        a[i] = b[place]                                  # idiom: gather
    for i in range(n):                                   # loop: parallel
        a[i] = b[at[at[i]]]                              # idiom: gather


def gathered_list(b, at):
    return [b[place] for place in at]                    # idiom: gather


def gathered_total(b, at):
    total = 0.0
    for place in at:                                     # loop: reduction
        total += b[place]                                # idiom: gather (reduction)
    return total


def gathered_sum(b, at):
    return sum(b[k] for k in at)                         # idiom: gather (reduction)


def no_gathers(n, a, b, at):
    for i in range(n):                                   # loop: parallel
        a[i] = b[i] + at[i]                              # idiom: stream
    for i in range(n):                                   # loop: parallel
        a[i] = b[at[0]]                                  # idiom: none
    for i in range(n):                                   # loop: parallel
        a[i] = b[n - 1 - i]                              # idiom: none


def scatters(n, a, b, at):
    for i in range(n):                                   # loop: unknown
        a[at[i]] = b[i]                                  # idiom: scatter
    for place, value in zip(at, b):                      # loop: unknown
        if place >= 0:
            a[place] = value                             # idiom: scatter


def inverted(order):
    place = [0] * len(order)
    for i in range(len(order)):                          # loop: unknown
        place[order[i]] = i                              # idiom: scatter
    return place


def permuted(n, a, b, at, source):
    for i in range(n):                                   # loop: unknown
        a[at[i]] = b[source[i]]                          # idiom: scatter (gather)


def histogram(data):
    count = [0] * 256
    for value in data:                                   # loop: reduction
        count[value] += 1                                # idiom: gather-modify-scatter
    return count


def binned(x, low, width, count):
    for value in x:                                      # loop: reduction
        b = int((value - low) / width)
        count[b] = count[b] + 1                          # idiom: gather-modify-scatter


def assembled(corner, height, force):
    for e in range(len(corner)):                         # loop: reduction
        for c in range(3):                               # loop: reduction
            node = corner[e][c]
            force[node] += height[node]                  # idiom: gather-modify-scatter (gather)


def no_histogram(n, count, data):
    for i in range(n):                                   # loop: parallel
        count[i] += data[i]                              # idiom: stream


def relaxed(edges, source, target, weight, distance):
    for e in range(edges):                               # loop: unknown
        through = distance[source[e]] + weight[e]
        if through < distance[target[e]]:
            distance[target[e]] = through                # idiom: gather-modify-scatter (gather)


def csr(n, first, column, value, x, y):
    for i in range(n):                                   # loop: parallel
        total = 0.0
        for k in range(first[i], first[i + 1]):          # loop: reduction
            total += value[k] * x[column[k]]             # idiom: sparse-product-csr (gather, reduction)
        y[i] = total                                     # idiom: none


def csr_in_place(n, first, column, value, x, y):
    for i in range(n):                                   # loop: parallel
        k = first[i]
        while k < first[i + 1]:                          # loop: reduction
            y[i] -= value[k] * x[column[k]]              # idiom: sparse-product-csr (gather, reduction)
            k += 1


def coo(row, column, value, x, y):
    for k in range(len(value)):                          # loop: reduction
        y[row[k]] += value[k] * x[column[k]]             # idiom: sparse-product-coo (gather, gather-modify-scatter)


def coo_zipped(row, column, value, x, y):
    for r, c, v in zip(row, column, value):              # loop: reduction
        y[r] += v * x[c]                                 # idiom: sparse-product-coo (gather, gather-modify-scatter)


def ell(n, width, column, value, x, y):
    for i in range(n):                                   # loop: parallel
        total = 0.0
        for k in range(width):                           # loop: reduction
            total += value[i][k] * x[column[i][k]]       # idiom: sparse-product-ell (gather, reduction)
        y[i] = total                                     # idiom: none


def no_sparse_product(n, first, value, y):
    for i in range(n):                                   # loop: parallel
        for k in range(first[i], first[i + 1]):          # loop: reduction
            y[i] += value[k]                             # idiom: reduction


def length_of_chain(start, following):
    steps = 0
    while start >= 0:                                    # loop: recurrence
        start = following[start]                         # idiom: pointer-chase
        steps += 1
    return steps


def listed(head):
    total = 0
    node = head
    while node is not None:                              # loop: recurrence
        total += node.load                               # idiom: reduction
        node = node.next                                 # idiom: pointer-chase
    return total


def root(parent, x):
    while parent[x] != x:                                # loop: recurrence
        x = parent[x]                                    # idiom: pointer-chase
    return x


def one_step(start, following, end):
    for i in range(len(start)):                          # loop: parallel
        end[i] = following[start[i]]                     # idiom: gather


def lookups(n, out, key):
    for i in range(n):                                   # loop: parallel
        out[i] = POWERS[key[i] & 7]                      # idiom: table-lookup


def bits(data):
    total = 0
    for value in data:                                   # loop: reduction
        total += NIBBLES[value & 15] + NIBBLES[value >> 4]  # idiom: table-lookup (reduction)
    return total


def checksum(data, table):
    c = 0xFFFFFFFF
    for byte in data:                                    # loop: recurrence
        c = table[(c ^ byte) & 255] ^ (c >> 8)           # idiom: table-lookup
    return c


def no_lookups(n, out):
    for i in range(n):                                   # loop: parallel
        out[i] = POWERS[i % 8]                           # idiom: none


def positive(a):
    found = []
    for value in a:                                      # loop: recurrence
        if value > 0:
            found.append(value)                          # idiom: compaction
    return found


def filtered(a):
    return [2 * value for value in a if value > 0]       # idiom: compaction


def packed(n, a, b):
    kept = 0
    for i in range(n):                                   # loop: recurrence
        if a[i] > 0:
            b[kept] = a[i]                               # idiom: compaction
            kept += 1
    return kept


def where_set(n, flag, at):
    k = 0
    for i in range(n):                                   # loop: recurrence
        if not flag[i]:
            continue
        at[k] = i                                        # idiom: compaction
        k = k + 1
    return k


def no_compaction(n, a, b):
    k = 0
    for i in range(n):                                   # loop: parallel
        b[k] = a[i]                                      # idiom: stream
        k += 1
    for i in range(n):                                   # loop: parallel
        if a[i] > 0:
            b[i] = a[i]                                  # idiom: stream


def smallest_first(items):
    heap = list(items)
    heapq.heapify(heap)
    out = []
    while heap:                                          # loop: unjudged
        out.append(heapq.heappop(heap))                  # idiom: stream
    return out
