"""Examples: a tour of the pipeline (`make demo`), a mail room (`make mailroom`), the files of the tutorial."""
