"""The command line: each command parses its options, makes one call and prints the result.

Heavy modules are imported only when a command runs, so that `faemb --help` starts fast.
"""

from faemb.cli.main import main

__all__ = ["main"]
