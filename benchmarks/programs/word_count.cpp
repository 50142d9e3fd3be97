/* usage: word_count [WORDS [VOCABULARY]]
 *
 * Counts the words of a generated text in a hash table of strings (std::unordered_map), then sorts them by frequency.
 */
#include "program.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using Counts = std::unordered_map<std::string, uint32_t>;

static std::string made_up_word(uint64_t &state)
{
    std::string word;
    for (size_t syllables = 1 + random_below(&state, 5); syllables-- > 0;) {
        word += "bcdfghklmnprstvw"[random_below(&state, 16)];
        word += "aeiou"[random_below(&state, 5)];
    }
    return word;
}

/* Words whose frequencies fall roughly with the square root of their rank. */
KERNEL static std::string generate(size_t words, size_t vocabulary)
{
    uint64_t state = 32;
    std::vector<std::string> known(vocabulary);
    for (std::string &word : known)
        word = made_up_word(state);
    std::string text;
    for (size_t i = 0; i < words; i++) {
        double u = random_unit(&state);
        text += known[(size_t)(u * u * (double)vocabulary)];
        text += random_below(&state, 11) ? ' ' : '\n';
    }
    return text;
}

KERNEL static Counts count_words(const std::string &text)
{
    Counts counts;
    std::string word;
    for (char letter : text) {
        if (letter != ' ' && letter != '\n') {
            word += letter;
        } else if (!word.empty()) {
            counts[word]++;
            word.clear();
        }
    }
    return counts;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "word_count [WORDS [VOCABULARY]]");
    size_t words = number_argument(argc, argv, 1, 2300000, 1, 100000000);
    size_t vocabulary = number_argument(argc, argv, 2, 47000, 1, 10000000);
    std::string text = generate(words, vocabulary);
    Counts counts = count_words(text);
    std::vector<std::pair<uint32_t, std::string>> ranking;
    for (const auto &[word, count] : counts)
        ranking.emplace_back(count, word);
    std::sort(ranking.rbegin(), ranking.rend());
    uint64_t checksum = 0, total = 0;
    for (const auto &[count, word] : ranking) {
        checksum = checksum * 31 + count * word.size();
        total += count;
    }
    printf("words %zu  different %zu  most frequent %s  checksum %016" PRIx64 "\n", words, ranking.size(),
           ranking[0].second.c_str(), checksum);
    return total != words;
}
