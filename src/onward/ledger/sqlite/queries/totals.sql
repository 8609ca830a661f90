-- Totals and last values that outlive processes.

-- name: count_total
INSERT INTO counters (name, label, value) VALUES (?, ?, ?)
ON CONFLICT (name, label) DO UPDATE SET value = value + excluded.value;

-- name: set_gauge
INSERT INTO counters (name, label, value) VALUES (?, ?, ?)
ON CONFLICT (name, label) DO UPDATE SET value = excluded.value;

-- name: totals
SELECT json_group_array(json_array(name, label, value)) FROM counters;
