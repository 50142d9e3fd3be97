/* usage: json [RECORDS [REPETITIONS]]
 *
 * Reads JSON text (RFC 8259) into a tree of values and sums up what is in it. The text is a list of generated records
 * with numbers, strings with escapes, nested lists and objects.
 */
#include "program.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

struct Value {
    enum class Kind { Null, Boolean, Number, String, List, Object } kind = Kind::Null;
    double number = 0;
    std::string text;
    std::vector<Value> items;
    std::vector<std::string> keys; /* of an object: one for each item */
};

class Parser {
public:
    explicit Parser(const std::string &text) : next(text.data()), end(text.data() + text.size()) {}

    Value parse()
    {
        Value value = read_value();
        skip_space();
        if (next != end)
            fail("the end of the text");
        return value;
    }

private:
    const char *next, *end;

    [[noreturn]] void fail(const char *wanted)
    {
        fprintf(stderr, "JSON: %s expected, %zu characters before the end\n", wanted, (size_t)(end - next));
        exit(1);
    }

    void skip_space()
    {
        while (next < end && (*next == ' ' || *next == '\n' || *next == '\t' || *next == '\r'))
            next++;
    }

    bool take(char wanted)
    {
        skip_space();
        if (next == end || *next != wanted)
            return false;
        next++;
        return true;
    }

    Value read_value()
    {
        skip_space();
        if (next == end)
            fail("a value");
        Value value;
        switch (*next) {
        case '{': read_object(value); break;
        case '[': read_list(value); break;
        case '"': value.kind = Value::Kind::String; value.text = read_string(); break;
        case 't': read_word("true", value, Value::Kind::Boolean, 1); break;
        case 'f': read_word("false", value, Value::Kind::Boolean, 0); break;
        case 'n': read_word("null", value, Value::Kind::Null, 0); break;
        default: value.kind = Value::Kind::Number; value.number = read_number();
        }
        return value;
    }

    void read_word(const char *word, Value &value, Value::Kind kind, double number)
    {
        for (; *word; word++)
            if (next == end || *next++ != *word)
                fail("true, false or null");
        value.kind = kind;
        value.number = number;
    }

    KERNEL double read_number()
    {
        bool negative = take('-');
        if (next == end || *next < '0' || *next > '9')
            fail("a number");
        double number = 0, scale = 1;
        for (; next < end && *next >= '0' && *next <= '9'; next++)
            number = number * 10 + (*next - '0');
        if (next < end && *next == '.')
            for (next++; next < end && *next >= '0' && *next <= '9'; next++, scale *= 10)
                number = number * 10 + (*next - '0');
        return (negative ? -number : number) / scale;
    }

    KERNEL std::string read_string()
    {
        std::string text;
        next++;
        while (next < end && *next != '"') {
            if (*next != '\\') {
                text += *next++;
                continue;
            }
            if (++next == end)
                break;
            text += *next == 'n' ? '\n' : *next == 't' ? '\t' : *next;
            next++;
        }
        if (next == end)
            fail("the end of a string");
        next++;
        return text;
    }

    void read_list(Value &value)
    {
        value.kind = Value::Kind::List;
        next++;
        if (take(']'))
            return;
        do
            value.items.push_back(read_value());
        while (take(','));
        if (!take(']'))
            fail("a comma or the end of a list");
    }

    void read_object(Value &value)
    {
        value.kind = Value::Kind::Object;
        next++;
        if (take('}'))
            return;
        do {
            skip_space();
            if (next == end || *next != '"')
                fail("a key");
            value.keys.push_back(read_string());
            if (!take(':'))
                fail("a colon");
            value.items.push_back(read_value());
        } while (take(','));
        if (!take('}'))
            fail("a comma or the end of an object");
    }
};

static std::string generate(size_t records)
{
    static const char *const NAMES[] = {"amber", "birch", "cedar \\\"red\\\"", "dune", "ember", "fjord\\n", "grove"};
    std::string text = "[";
    uint64_t state = 31;
    for (size_t i = 0; i < records; i++) {
        text += (i ? ",\n {\"id\": " : "\n {\"id\": ") + std::to_string(i);
        text += std::string(", \"name\": \"") + NAMES[random_below(&state, 7)] + "\", \"active\": ";
        text += random_below(&state, 2) ? "true" : "false";
        text += ", \"place\": {\"x\": -" + std::to_string(random_unit(&state)) + ", \"y\": ";
        text += std::to_string(1000 * random_unit(&state)) + "}, \"series\": [";
        for (size_t k = random_below(&state, 9); k-- > 0;)
            text += std::to_string(random_below(&state, 100000)) + (k ? ", " : "");
        text += "], \"note\": null}";
    }
    return text + "\n]\n";
}

struct Sums {
    double numbers = 0;
    size_t values = 0, letters = 0;
};

KERNEL static void sum_up(const Value &value, Sums &sums)
{
    sums.values++;
    sums.numbers += value.number;
    sums.letters += value.text.size();
    for (const std::string &key : value.keys)
        sums.letters += key.size();
    for (const Value &item : value.items)
        sum_up(item, sums);
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "json [RECORDS [REPETITIONS]]");
    size_t records = number_argument(argc, argv, 1, 29000, 1, 10000000);
    size_t repetitions = number_argument(argc, argv, 2, 5, 1, 1000000);
    std::string text = generate(records);
    Sums sums;
    for (size_t repetition = 0; repetition < repetitions; repetition++)
        sum_up(Parser(text).parse(), sums);
    printf("bytes %zu  values %zu  letters %zu  checksum %.6f\n", text.size(), sums.values, sums.letters, sums.numbers);
    return 0;
}
