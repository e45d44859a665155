"""`python -m archopt` is `archopt`."""

from archopt.cli import main

if __name__ == "__main__":
    main()
