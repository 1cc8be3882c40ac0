"""The command line as `python -m faemb`."""

from faemb.cli import main

main()
