"""usage: ledger.py [ACCOUNTS]

Records written as JSON and read again, then summed up in text: json, string methods, formatting and a regular
expression of Python.
"""

import json
import re
import sys

TOWNS = ("Aldford", "Brackley", "Crewe", "Dunmow", "Ely", "Frome", "Goole")
AMOUNT = re.compile(r"(-?\d+)\.(\d\d) (EUR|USD)")


def make_accounts(count):
    """Accounts with entries, from a linear congruential generator (constants of POSIX's drand48)."""
    state, accounts = 54, []
    for number in range(count):
        entries = []
        for _ in range(3 + (state >> 22) % 5):
            state = (state * 25214903917 + 11) % (1 << 48)
            amount = (state >> 18) % 2000003 - 1000001
            entries.append({"day": (state >> 24) % 365, "amount": amount / 100, "note": f"no. {state % 9973}"})
        town = TOWNS[(state >> 30) % len(TOWNS)]
        accounts.append(
            {"owner": f"{town.lower()}-{number:06d}", "town": town, "open": state % 3 > 0, "entries": entries}
        )
    return accounts


def statement(account):
    """An account as a line of text for each entry."""
    lines = [f"{account['owner']:<20}{'open' if account['open'] else 'closed':>8}"]
    for entry in sorted(account["entries"], key=lambda entry: entry["day"]):
        currency = "EUR" if entry["day"] % 2 else "USD"
        lines.append(f"  {entry['day']:3d} {entry['note']:<12} {entry['amount']:.2f} {currency}")
    return "\n".join(lines)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 9001
    text = "\n".join(json.dumps(account) for account in make_accounts(count))
    statements = [statement(json.loads(line)) for line in text.split("\n")]
    sums = dict.fromkeys(("EUR", "USD"), 0)
    for whole, part, currency in AMOUNT.findall("\n".join(statements)):
        sums[currency] += int(whole + part)
    words = {
        word.strip(".,").title() for line in statements for word in line.replace("-", " ").split() if word.isalpha()
    }
    print(f"accounts {count}  characters {len(text)}  words {len(words)}  checksum {sums['EUR'] - sums['USD']}")


if __name__ == "__main__":
    main()
