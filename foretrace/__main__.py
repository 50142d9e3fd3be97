"""`python -m foretrace`."""

from foretrace.cli import main

if __name__ == "__main__":
    main()
