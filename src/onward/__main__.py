"""The command `onward`, also as `python -m onward`."""


def main() -> None:
    """Run the command."""
    # Not at the top: the worker processes of a command import this module, too.
    from onward.cli import main

    main(prog_name="onward")


if __name__ == "__main__":
    main()
