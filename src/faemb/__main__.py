"""python -m faemb: the command line, where its script is not on the path."""

from faemb.cli import main

main()
