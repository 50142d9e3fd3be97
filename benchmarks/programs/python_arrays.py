"""NumPy and SciPy at work on whole arrays, as whole programs: python_arrays.py NAME [SCALE of the repetitions]."""

import sys

import numpy as np


def stencil(steps):
    """Diffusion on a square grid: sums of slices, as large as a second-level cache."""
    grid = np.random.default_rng(1).random((500, 500))
    for _ in range(steps):
        grid[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])
    return grid.sum()


def stars(steps):
    """Bodies that attract each other: broadcasting, powers, sums along an axis."""
    random = np.random.default_rng(2)
    place, speed, mass = random.random((300, 3)), np.zeros((300, 3)), random.random(300)
    for _ in range(steps):
        way = place[None, :, :] - place[:, None, :]
        distance = (way**2).sum(axis=2) + 0.01
        force = mass[None, :] * distance**-1.5
        speed += 1e-4 * (way * force[:, :, None]).sum(axis=1)
        place += speed
    return place.sum()


def clusters(steps):
    """k-means: distances by a matrix product, nearest centres, counts and sums by bin."""
    random = np.random.default_rng(3)
    points = random.random((50_000, 4))
    centres = points[:16].copy()
    for _ in range(steps):
        distance = (centres**2).sum(axis=1) - 2 * (points @ centres.T)
        nearest = distance.argmin(axis=1)
        number = np.maximum(np.bincount(nearest, minlength=16), 1)
        for axis in range(4):
            centres[:, axis] = np.bincount(nearest, weights=points[:, axis], minlength=16) / number
    return centres.sum()


def options(steps):
    """Prices of options: elementary functions of long vectors."""
    random = np.random.default_rng(4)
    price, strike, years = (
        random.uniform(50, 150, 200_000),
        random.uniform(50, 150, 200_000),
        0.1 + random.random(200_000),
    )
    total = 0.0
    for step in range(steps):
        volatility = 0.1 + 0.001 * step
        spread = volatility * np.sqrt(years)
        d = (np.log(price / strike) + (0.02 + 0.5 * volatility**2) * years) / spread
        likely, hedge = 1 / (1 + np.exp(-1.7 * (d - spread))), 1 / (1 + np.exp(-1.7 * d))
        total += float((price * hedge - strike * np.exp(-0.02 * years) * likely).mean())
    return total


def ranks(steps):
    """PageRank: products with a sparse matrix whose columns lie anywhere."""
    from scipy import sparse

    random = np.random.default_rng(5)
    pages, links = 50_000, 500_000
    places = (random.integers(0, pages, links), random.integers(0, pages, links))
    matrix = sparse.csr_matrix((np.full(links, pages / links), places), shape=(pages, pages))
    rank = np.full(pages, 1 / pages)
    for _ in range(steps):
        rank = 0.85 * (matrix @ rank) + 0.15 / pages
    return rank.max()


def records(steps):
    """A table: sorted by key, filtered, summed by group."""
    random = np.random.default_rng(6)
    total = 0.0
    for _ in range(steps):
        key, value = random.integers(0, 1000, 200_000), random.random(200_000)
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
        large = value[key > 500]
        total += np.add.reduceat(value, np.flatnonzero(np.diff(key, prepend=-1))).max() + large.sum()
    return total


PROGRAMS = {
    "stencil": (stencil, 2000),
    "stars": (stars, 300),
    "clusters": (clusters, 400),
    "options": (options, 150),
    "ranks": (ranks, 2000),
    "records": (records, 150),
}

if __name__ == "__main__":
    function, repetitions = PROGRAMS[sys.argv[1]]
    print(function(max(1, int(repetitions * float(sys.argv[2] if len(sys.argv) > 2 else 1)))))
