"""usage: word_index.py [LINES]

An index of a generated text: on which lines each word is, and which words follow each other most often. Strings,
dictionaries, sets and sorting of Python.
"""

import sys
from collections import defaultdict

SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu"]


def make_lines(count):
    """Lines of eleven words from a linear congruential generator (constants of POSIX's drand48)."""
    state = 52
    for _ in range(count):
        words = []
        for _ in range(11):
            state = (state * 25214903917 + 11) % (1 << 48)
            number = (state >> 16) % 4001 * ((state >> 30) % 1009) // 1009  # small numbers are more frequent
            word = ""
            while number:
                word += SYLLABLES[number % 15]
                number //= 15
            words.append(word.capitalize() if not words else word or "a")
        yield " ".join(words) + "."


def index_lines(lines):
    """Word -> numbers of its lines, and (word, next word) -> how often."""
    places, pairs = defaultdict(list), defaultdict(int)
    for number, line in enumerate(lines, 1):
        before = ""
        for word in line.rstrip(".").lower().split():
            if not places[word] or places[word][-1] != number:
                places[word].append(number)
            if before:
                pairs[before, word] += 1
            before = word
    return places, pairs


def main():
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 13001
    places, pairs = index_lines(make_lines(lines))
    common = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:3]
    checksum = sum(len(word) * sum(numbers) for word, numbers in sorted(places.items()))
    print(f"lines {lines}  words {len(places)}  pairs {[' '.join(pair) for pair, _ in common]}  checksum {checksum}")


if __name__ == "__main__":
    main()
