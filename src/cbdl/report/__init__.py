"""Reports: one HTML file that needs nothing else, no network and no folder beside it."""

from cbdl.report.page import Block, Code, Figure, Page, Section, Table, Warn, html, write
from cbdl.report.reproduce import reproduction

__all__ = ["Block", "Code", "Figure", "Page", "Section", "Table", "Warn", "html", "reproduction", "write"]
