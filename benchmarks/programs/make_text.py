"""usage: make_text.py KIBIBYTES

Input for programs that read text: prose of made-up words whose frequencies fall as in a natural language (Zipf's law).
"""

import itertools
import random
import sys

VOWELS, CONSONANTS = "aeiou", "bcdfghklmnprstvw"


def words(count, generator):
    """Made-up words, all different."""
    seen = set()
    while len(seen) < count:
        syllables = generator.choice((1, 2, 2, 3, 3, 4))
        seen.add("".join(generator.choice(CONSONANTS) + generator.choice(VOWELS) for _ in range(syllables)))
    return sorted(seen)


def lines(size_bytes, generator, vocabulary_size=5000, words_per_line=12):
    """Lines of prose, at least `size_bytes` together."""
    vocabulary = words(vocabulary_size, generator)
    generator.shuffle(vocabulary)
    cumulative = list(itertools.accumulate(1 / rank for rank in range(1, vocabulary_size + 1)))
    written = 0
    while written < size_bytes:
        line = " ".join(generator.choices(vocabulary, cum_weights=cumulative, k=words_per_line)) + "\n"
        written += len(line)
        yield line


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        sys.exit(__doc__.splitlines()[0])
    sys.stdout.writelines(lines(int(sys.argv[1]) * 1024, random.Random(8)))


if __name__ == "__main__":
    main()
