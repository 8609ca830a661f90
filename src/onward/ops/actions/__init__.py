"""Changes that an operator makes: each says first what it touches, and is kept in the action log."""
