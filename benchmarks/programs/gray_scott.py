"""usage: gray_scott.py [SIDE [STEPS]]

Two substances that react and spread (Gray and Scott's model), on a periodic square grid: NumPy on whole arrays.
"""

import sys

import numpy as np

FEED, KILL = 0.037, 0.06


def laplacian(a, out):
    """Five-point stencil on the inside of an array whose border repeats the opposite side."""
    np.add(a[:-2, 1:-1], a[2:, 1:-1], out=out)
    out += a[1:-1, :-2]
    out += a[1:-1, 2:]
    out -= 4 * a[1:-1, 1:-1]


def wrap(a):
    """Set the border to the opposite side."""
    a[0], a[-1] = a[-2], a[1]
    a[:, 0], a[:, -1] = a[:, -2], a[:, 1]


def step(u, v, change_u, change_v):
    wrap(u)
    wrap(v)
    inside_u, inside_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    laplacian(u, change_u)
    laplacian(v, change_v)
    reaction = inside_u * inside_v * inside_v
    inside_u += 0.16 * change_u - reaction + FEED * (1 - inside_u)
    inside_v += 0.08 * change_v + reaction - (FEED + KILL) * inside_v


def main():
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 307
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 211
    u, v = np.ones((side + 2, side + 2)), np.zeros((side + 2, side + 2))
    third = side // 3
    u[third : third + 21, third : third + 21] = 0.5
    v[third : third + 21, third : third + 21] = 0.25
    change_u, change_v = np.empty((side, side)), np.empty((side, side))
    for _ in range(steps):
        step(u, v, change_u, change_v)
    print(f"points {side} x {side}  steps {steps}  checksum {(u[1:-1, 1:-1] * v[1:-1, 1:-1]).sum():.8f}")


if __name__ == "__main__":
    main()
