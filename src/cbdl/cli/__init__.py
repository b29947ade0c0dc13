"""The command line. Results go to stdout, everything else to stderr; 0 success, 1 failure, 2 usage error."""

from cbdl.cli.app import app, main

__all__ = ["app", "main"]
