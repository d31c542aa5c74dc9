"""`python -m iada` is the command `iada`."""

from iada.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
