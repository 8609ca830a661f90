"""`python -m onward` is the command `onward`."""

from onward.cli import main

if __name__ == "__main__":
    main(prog_name="onward")
