"""`python -m cbdl`: the command line."""

from cbdl.cli import main

if __name__ == "__main__":
    main()
