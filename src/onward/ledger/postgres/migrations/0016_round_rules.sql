-- What a service's collection declares about the rounds of its documents, as JSON; empty: nothing.
ALTER TABLE subscriptions ADD COLUMN round_rules text NOT NULL DEFAULT '';
