"""Studies: each a command, each writes a report. Nothing but the command line imports them.

`study` says what one is, `part` what it is made of, `report` how it is written down.
"""
