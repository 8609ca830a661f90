"""A sample archive to try Onward on: the mailing list of a society that looks after a lighthouse."""
