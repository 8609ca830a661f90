-- Totals and last values that outlive processes.

-- name: count_total
INSERT INTO counters AS known (name, label, value) VALUES ($1, $2, $3)
ON CONFLICT (name, label) DO UPDATE SET value = known.value + excluded.value;

-- name: set_gauge
INSERT INTO counters (name, label, value) VALUES ($1, $2, $3)
ON CONFLICT (name, label) DO UPDATE SET value = excluded.value;

-- name: totals
SELECT name, label, value FROM counters;
