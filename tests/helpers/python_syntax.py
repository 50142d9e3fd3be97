"""Uses all of the language, in layouts that a formatter would not leave: a program to be traced by both cores."""
import asyncio, contextlib, functools, dataclasses, collections, enum, re, json
import typing
if typing.TYPE_CHECKING:
    import nowhere
else:
    import string
try:
    import nowhere_either
except ImportError as error:
    missing = error
def comprehensions(n):
    a = [x * x for x in range(n)]
    b = {x: y for x in range(n)
         for y in range(x)
         if y % 2}
    c = {x
         for x in a}
    d = sum(x for x in a if x)
    e = [[y for y in range(x)] for x in range(n)]
    f = [
        x
        for x in range(n)
        if x
    ]
    return a, b, c, d, e, f
def finals(n):
    for i in range(n):
        try:
            if i == 2: continue
            if i == 4: break
            x = 1 / (i % 2)
        except ZeroDivisionError:
            y = 2
        else:
            y = 3
        finally:
            z = 4
    try:
        return z
    finally:
        w = 1
def matching(v):
    match v:
        case 0 | 1:
            return "small"
        case [a, b, *rest] if rest:
            return rest
        case [a, b]:
            return a
        case {"k": k, **others}:
            return k
        case Point(x=0, y=y):
            return y
        case Point():
            return "point"
        case str() as s:
            return s
        case _:
            return None
@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
class C:
    attribute = 1
    for attribute in range(3):
        other = attribute
    def method(self): return self.attribute
    @property
    def prop(self):
        return 1
    @staticmethod
    def static(a, *args, b=2, **kw): return a
    class Inner:
        z = [i for i in range(3)]
@contextlib.contextmanager
def manager(suppress=False):
    try:
        yield 1
    except ValueError:
        if not suppress:
            raise
def withs():
    with manager() as m: x = 1
    with manager() as a, manager() as b:
        x = a
    with (
        manager() as a,
        manager() as b,
    ):
        x = b
    with manager(True):
        raise ValueError
    try:
        with manager(): raise ValueError
    except ValueError: pass
    for i in range(3):
        with manager():
            if i == 1: continue
            if i == 2: break
    with manager(): return 5
def deco(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args,
                 **kwargs)
    return wrapper
@deco
@deco
def decorated(a,
              b=lambda: 3,
              c=[1,
                 2]):
    return b()
def walrus(n):
    while (n := n - 1) > 0: pass
    if (m := n) == 0 and m < 1 < 2 < 3: x = 1
    y = 1 if m else 2
    y = (1 if m
         else 2)
    z = (m and
         n or
         y)
    assert z, "message"
    return [t := 1, t ** 2, not t]
def loops(n):
    while n:
        n -= 1
        if n == 3:
            continue
    else:
        x = 1
    for i in range(3):
        if i > 5: break
    else:
        x = 2
    for i in range(3): x = i
    while True:
        if n > 3: break
        n += 1
    for i in []: pass
    for a, *b in [(1, 2, 3), (4, 5)]: x = b
    for i in range(2):
        for j in range(2):
            if j: break
        else:
            continue
        break
def gen(n):
    received = []
    for i in range(n):
        r = yield i
        received.append(r)
    yield from range(3)
    r = yield from sub()
    return received
def sub():
    try:
        yield 1
    except KeyError:
        yield 2
    finally:
        x = 1
    return 7
def generators():
    g = gen(3)
    next(g)
    g.send(1)
    list(g)
    g = sub(); next(g); g.throw(KeyError()); g.close()
    g = sub(); next(g); g.close()
    g = gen(0); next(g); del g
    sum(i for i in gen(4) if i)
    return sorted(gen(3), key=lambda v: -v)
async def aiter(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0)
class ACM:
    async def __aenter__(self): return self
    async def __aexit__(self, *a):
        await asyncio.sleep(0)
async def acoro(n):
    async with ACM() as m:
        async for i in aiter(n):
            x = i
    l = [i async for i in aiter(n)]
    t = [asyncio.create_task(abody(i)) for i in range(3)]
    r = await asyncio.gather(*t, return_exceptions=True)
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(1)
    except TimeoutError:
        x = 2
    return l
async def abody(i):
    await asyncio.sleep(0)
    if i == 1:
        raise ValueError(i)
    return i
def exceptions(n):
    try:
        deep(n)
    except (TypeError, ValueError) as e:
        try:
            raise KeyError from e
        except KeyError:
            x = 1
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as g:
        x = 2
    except* TypeError:
        x = 3
    try: [][1]
    except IndexError: pass
    try:
        {}[1]
    except: pass
def deep(n):
    if n == 0:
        raise ValueError
    try:
        deep(n - 1)
    finally:
        x = 1
def nested(n):
    def inner(k):
        nonlocal n
        n += k
        def innermost(): return n
        return innermost()
    return [inner(i) for i in range(3)]
def strings(a, b):
    s = f"{a}{b!r:>{10}} {a + b}"
    t = (f"{a}"
         f"{b}")
    u = """multi
    line""" + s
    v = foo(
        a,
        b,
        c=[
            1,
            2,
        ],
    )
    w = (foo(1)
         .bar
         if False else
         foo(a, b, c=1))
    x = a[b:] if isinstance(a, list) else {**{}, 'k': a,
        'l': b}
    del x, w
    return s + \
        t
def foo(*a, c=None): return a
def stars(*args, **kw):
    a, *b = args
    *c, d = [*a, *b] if isinstance(a, list) else args
    print(*[], end="", **{})
    return {**kw}
def one_liners(n):
    for i in range(n): foo(i)
    while n: n -= 1
    if n: pass
    else: n = 1
    x = [foo(i) for i in range(3)]; y = 2; z = 3
    try: x = 1
    finally: y = 2
    return x
def longs(n):
    x = 0
    while x < n:
        if x % 3 == 0:
            x += 1
        elif x % 3 == 1:
            x += 2
        else:
            x += 3
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
        x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0; x += 0
    return x
global_list = [0] * 10
class Sub(list): pass
class Over(list):
    def __getitem__(self, i): return 5
def lists(a):
    a[0], a[1] = a[1], a[0]
    a[2:4] = [1, 2]
    a[-1] += 1
    del a[0]
    del a[0:2]
    Sub(a)[0]; Over(a)[0]
    b = a[::2]
    return [a[i][0] if isinstance(a[i], tuple) else a[i] for i in range(len(a))]
comprehensions(5); finals(6); withs(); decorated(1); walrus(4); loops(6); generators()
for v in (0, 1, [1, 2, 3], [1, 2], {"k": 1}, Point(0, 1), Point(1, 1), "s", 1.5): matching(v)
C().method(); C().prop; C.static(1)
asyncio.run(acoro(3))
exceptions(4); nested(2); strings(1, 2); strings([1], 2) if False else None; stars(1, 2, 3); one_liners(3); longs(40); lists(global_list)
exec(compile("def q(n):\n  for i in range(n):\n    yield i\nlist(q(5))", "<made up>", "exec"))
eval("[i for i in range(4)]"); eval("  1 + 2")
exec("class K:\n  x = 1\n  def f(self):\n    return 1\nK().f()")
N = collections.namedtuple("N", "a b"); N(1, 2)
re.sub("a", lambda m: "b", "aaa"); sorted([3, 1, 2], key=lambda v: v)
functools.reduce(lambda a, b: a + b, range(5))
print(json.dumps({"a": [1, 2]}, default=lambda o: 1))
lam = lambda: (yield)
list(lam())
def mixed(flag):
    with manager(): x = 1 if flag else foo(
        1)
    try: raise ValueError(foo(
        1))
    except ValueError: x = 2
    for i in range(3): x = foo(
        i)
    return x
mixed(0); mixed(1)
def throwing():
    while True:
        try:
            yield 1
        except ValueError:
            yield 2
g = throwing(); next(g); g.throw(ValueError()); next(g)
def recursive(n): return foo(recursive(n - 1), recursive(n - 2)) if n > 1 else n
recursive(5)
import threading
threads = [threading.Thread(target=longs, args=(n,)) for n in (5, 10)]
for t in threads: t.start()
for t in threads: t.join()
