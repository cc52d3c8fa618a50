"""`python -m jpr`."""

from jpr.cli import main

if __name__ == "__main__":
    main()
