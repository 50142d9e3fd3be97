"""usage: rotation.py [SIDE [TURNS]]

Turns a picture around its middle, again and again, by bilinear interpolation: NumPy gathers with computed indices.
"""

import sys

import numpy as np


def turn(picture, angle):
    """The picture turned by `angle`, black where nothing comes from."""
    side = len(picture)
    middle = (side - 1) / 2
    y, x = np.mgrid[0:side, 0:side] - middle
    from_x = np.cos(angle) * x + np.sin(angle) * y + middle
    from_y = np.cos(angle) * y - np.sin(angle) * x + middle
    inside = (from_x >= 0) & (from_x < side - 1) & (from_y >= 0) & (from_y < side - 1)
    from_x, from_y = from_x[inside], from_y[inside]
    column, row = from_x.astype(np.int64), from_y.astype(np.int64)
    part_x, part_y = from_x - column, from_y - row
    flat = picture.ravel()
    corner = row * side + column
    above = flat[corner] * (1 - part_x) + flat[corner + 1] * part_x
    below = flat[corner + side] * (1 - part_x) + flat[corner + side + 1] * part_x
    turned = np.zeros_like(picture)
    turned[inside] = above * (1 - part_y) + below * part_y
    return turned


def main():
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 611
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 37
    y, x = np.mgrid[0:side, 0:side]
    picture = np.where((x // 17 + y // 23) % 2 == 0, 0.2, 0.9)
    for number in range(turns):
        picture = turn(picture, 0.1 + 0.7 * number)
    print(f"points {side} x {side}  turns {turns}  checksum {picture.sum():.6f}")


if __name__ == "__main__":
    main()
