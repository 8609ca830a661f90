"""`onward doctor`: checks of the installation."""

from onward.cli.doctor.command import doctor

__all__ = ["doctor"]
