"""The paper's experiments and case studies, each a command that writes a report.

Nothing but the command line imports them.
"""
