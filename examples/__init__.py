"""Examples: a mail room to watch (`make demo`), and the files of the tutorial."""
