"""Comparisons with other libraries: ratios within one run on one machine, never absolute promises."""
