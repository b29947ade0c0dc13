"""Studies: each a command, each writes a report. Nothing but the command line imports them."""
