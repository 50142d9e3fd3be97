"""usage: edit_distance.py [WORDS]

The closest pairs of a generated list of words, by how many letters must be changed, put in or left out: dynamic
programming over lists of Python.
"""

import sys

LETTERS = "aeioubcdfghklmnprst"


def make_words(count):
    """Words from a linear congruential generator (constants of POSIX's drand48)."""
    state, words = 51, []
    for _ in range(count):
        word = ""
        for _ in range(5 + (state >> 20) % 9):
            state = (state * 25214903917 + 11) % (1 << 48)
            word += LETTERS[(state >> 24) % len(LETTERS)]
        words.append(word)
    return words


def distance(a, b):
    above = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            changed = above[j - 1] if letter == other else above[j - 1] + 1
            row.append(min(changed, above[j] + 1, row[j - 1] + 1))
        above = row
    return above[-1]


def main():
    words = make_words(int(sys.argv[1]) if len(sys.argv) > 1 else 211)
    pairs = ((a, b) for number, a in enumerate(words) for b in words[:number])
    distances = [(distance(a, b), a, b) for a, b in pairs]
    _, a, b = min(distances)
    print(f"words {len(words)}  closest {a} {b}  checksum {sum(d * (len(x) + 1) for d, x, _ in distances)}")


if __name__ == "__main__":
    main()
