"""The command line `tacenda`."""


def main() -> None:
    """Entry point; the commands are imported only now, and their heavy parts only when they run."""
    from tacenda.cli.app import app

    app()
