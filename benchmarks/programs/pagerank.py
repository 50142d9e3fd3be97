"""usage: pagerank.py [PAGES [LINKS_PER_PAGE]]

PageRank by power iteration on a generated web graph with popular and unpopular pages (NumPy, SciPy CSR product).
"""

import sys

import numpy as np
from scipy import sparse

DAMPING = 0.85
TOLERANCE = 1e-12


def generate_links(pages, links_per_page, seed=6):
    """Source and destination page of each link; a few pages draw most of the links, in no order."""
    rng = np.random.default_rng(seed)
    links = pages * links_per_page
    source = rng.integers(0, pages, links)
    by_popularity = rng.permutation(pages)
    destination = by_popularity[(pages * rng.random(links) ** 2).astype(np.int64)]
    return source, destination


def pagerank(source, destination, pages):
    """Rank of each page, and how many iterations it took."""
    out_links = np.zeros(pages)
    np.add.at(out_links, source, 1.0)
    transition = sparse.csr_matrix((1.0 / out_links[source], (destination, source)), shape=(pages, pages))
    dangling = out_links == 0
    rank = np.full(pages, 1.0 / pages)
    iterations = 0
    change = 1.0
    while change > TOLERANCE:
        teleport = (1.0 - DAMPING + DAMPING * rank[dangling].sum()) / pages
        new_rank = DAMPING * (transition @ rank) + teleport
        change = np.abs(new_rank - rank).sum()
        rank = new_rank
        iterations += 1
    return rank, iterations


def main():
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    links_per_page = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    rank, iterations = pagerank(*generate_links(pages, links_per_page), pages)
    best = np.argsort(rank)[-3:][::-1]
    top = "  ".join(f"{page} ({score:.2e})" for page, score in zip(best, rank[best], strict=True))
    print(f"pages {pages}  iterations {iterations}  top {top}  sum {rank.sum():.12f}")


if __name__ == "__main__":
    main()
