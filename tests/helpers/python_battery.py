"""Asks NumPy and SciPy for random things and prints what they answer: a program to be traced.

python_battery.py SEED STEPS
"""

import hashlib
import operator
import sys
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
import scipy.special

warnings.simplefilter("ignore")
np.seterr(all="ignore")
rng = np.random.default_rng(int(sys.argv[1]))


def show(name, value):
    if isinstance(value, tuple | list):
        for part in value:
            show(name, part)
    elif sp.issparse(value):
        show(name, value.toarray())
    elif isinstance(value, np.ndarray):
        digest = hashlib.sha1(repr(value).encode() if value.dtype.hasobject else value.tobytes()).hexdigest()
        print(name, value.dtype.str, value.shape, value.strides, digest, type(value).__name__)
    else:
        print(name, type(value).__name__, repr(value))


def attempt(name, function, *arguments):
    try:
        show(name, function(*arguments))
    except Exception as error:
        print(name, type(error).__name__, error)


DTYPES = ["f8", "f4", "c16", "i8", "i4", "u1", "?", ">f8", ">i4", "f2", "O", "U3", "M8[s]"]


def array():
    nd = int(rng.integers(0, 4))
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 7], size=nd))
    values = rng.integers(-9, 10, shape)
    dtype = rng.choice(DTYPES)
    made = values.astype("i8").astype(dtype) if dtype != "U3" else values.astype("U3")
    made = np.asarray(made)
    for axis in range(made.ndim):
        if rng.random() < 0.2:
            made = np.flip(made, axis)
    if made.ndim > 1 and rng.random() < 0.3:
        made = made.T
    if made.ndim and rng.random() < 0.2:
        made = made[::2]
    if rng.random() < 0.1:
        made = np.asfortranarray(made)
    return made


def index(length):
    kind = rng.integers(0, 9)
    if kind == 0:
        return int(rng.integers(-length - 1, length + 1))
    if kind == 1:
        return slice(
            *(None if rng.random() < 0.4 else int(rng.integers(-6, 6)) for _ in range(2)),
            int(rng.choice([-2, -1, 1, 2])),
        )
    if kind == 2:
        return None
    if kind == 3:
        return Ellipsis
    if kind == 4:
        return rng.random(length) < 0.5
    if kind == 5:
        return [int(i) for i in rng.integers(-length - 1 if rng.random() < 0.1 else -length, max(length, 1), 3)]
    if kind == 6:
        return np.int64(rng.integers(-length, max(length, 1)))
    if kind == 7:
        return bool(rng.random() < 0.5)
    return rng.integers(-length, max(length, 1), tuple(rng.integers(0, 4, rng.integers(0, 3)))).astype(
        rng.choice(["i8", "i4", "u1", ">i8"])
    )


def key(a):
    if rng.random() < 0.1:
        return rng.random(a.shape) < 0.5
    items = tuple(index(n) for n in a.shape[: rng.integers(0, a.ndim + 1)])
    return items[0] if len(items) == 1 and rng.random() < 0.7 else items


UNARY = [
    operator.neg,
    operator.abs,
    np.sqrt,
    np.exp,
    np.sin,
    np.isnan,
    np.square,
    np.modf,
    np.frexp,
    np.sign,
    scipy.special.gamma,
    scipy.special.expit,
    np.conjugate,
]
BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.eq,
    operator.and_,
    operator.matmul,
    np.maximum,
    np.divmod,
    np.hypot,
    np.arctan2,
    np.dot,
    np.inner,
    np.vdot,
    np.outer,
    np.kron,
    np.add.outer,
    np.convolve,
    np.searchsorted,
    np.append,
]
REDUCE = [
    np.sum,
    np.prod,
    np.max,
    np.argmin,
    np.mean,
    np.std,
    np.any,
    np.all,
    np.cumsum,
    np.cumprod,
    np.ptp,
    np.median,
    np.add.reduce,
    np.multiply.accumulate,
    np.logical_or.reduce,
    np.count_nonzero,
    np.sort,
    np.argsort,
    np.diff,
    np.nanmax,
]
OTHER = [
    np.copy,
    np.ravel,
    np.nonzero,
    np.unique,
    np.flatnonzero,
    lambda a: a.astype("f4"),
    lambda a: a.tolist(),
    lambda a: a.flatten("F"),
    lambda a: a.item(0),
    lambda a: a.item(),
    lambda a: None if a.dtype.hasobject else a.tobytes(),
    np.transpose,
    np.atleast_2d,
    lambda a: np.concatenate([a, a]),
    lambda a: list(a),
    lambda a: list(a.flat),
    lambda a: np.where(a > 0, a, -a),
    lambda a: np.take(a, [0, 1], axis=-1),
    lambda a: a.repeat(2),
    lambda a: np.clip(a, 0, 3),
    np.isfinite,
    lambda a: np.bincount(a),
    lambda a: np.histogram(a.ravel()),
    lambda a: np.linalg.norm(a),
    lambda a: np.fft.fft(a),
    lambda a: np.einsum("...i,...i->...", a, a),
    lambda a: a.sum(axis=(0, 1), keepdims=True),
    lambda a: np.add.reduceat(a, [0, 1]),
    lambda a: np.add(a, a, where=a > 0, out=np.zeros_like(a)),
    lambda a: np.ma.masked_array(a, a > 1).sum(),
    lambda a: a.view(np.matrix) * 2,
    lambda a: np.vectorize(lambda x: x)(a),
    lambda a: a.copy().resize(3),
    lambda a: np.pad(a, 1),
    lambda a: np.roll(a, 1),
    lambda a: np.lexsort((a, a)),
]


def exercise(a, b):
    if rng.random() < 0.5 and a.dtype.char != "U":
        b = np.broadcast_to(np.asarray(b.flat[0] if b.size else 1), a.shape).astype(b.dtype)
    for number in rng.integers(0, len(UNARY), 2):
        attempt(f"unary {number}", UNARY[number], a)
    for number in rng.integers(0, len(BINARY), 4):
        attempt(f"binary {number}", BINARY[number], a, b)
    for number in rng.integers(0, len(REDUCE), 3):
        attempt(f"reduce {number}", REDUCE[number], a)
        attempt(f"reduce axis {number}", partial(REDUCE[number], axis=int(rng.integers(-3, 3))), a)
    for number in rng.integers(0, len(OTHER), 4):
        attempt(f"other {number}", OTHER[number], a)
    for _ in range(3):
        attempt("get", lambda: a[key(a)])
    for _ in range(3):

        def assign(value):
            target = a.copy()
            target[key(target)] = value
            return target

        attempt("set", assign, rng.choice([1, 2.5]) if rng.random() < 0.5 else b)
        attempt("set own", lambda: assign(a[key(a)]))

    def update(ufunc):
        target = np.array(a)
        ufunc.at(target, key(target), 1 if rng.random() < 0.5 else b.ravel()[:1])
        return target

    attempt("at", update, rng.choice([np.add, np.maximum, np.multiply]))

    def put():
        target = np.array(a)
        target.put([0, 1, -1], [5, 6])
        return target

    attempt("put", put)
    attempt("iadd", lambda: operator.iadd(np.array(a), b))


def multiply(m):
    for vector in (np.arange(7.0), np.ones((7, 3)), np.ones(7, "i4"), np.arange(7) * 1j):
        attempt("sparse", operator.matmul, m, vector)
    attempt("sparse T", lambda: (m.T @ m).sum(axis=0))


for step in range(int(sys.argv[2])):
    exercise(array(), array())
    if step % 4 == 0:
        formats = rng.choice(["csr", "csc", "coo", "lil"])
        multiply(sp.random(9, 7, density=0.3, format=str(formats), random_state=int(rng.integers(99))))
