"""`python -m steersman` is the `steersman` command."""

from steersman.cli import main

main()
