"""The command line: parse, make one call, print. No algorithm is here.

Modules of this folder import nothing heavy before a command runs, so that `faemb --help` is there at once.
"""

from faemb.cli.main import main

__all__ = ["main"]
