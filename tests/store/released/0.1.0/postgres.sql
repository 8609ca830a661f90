--
-- PostgreSQL database dump
--



SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: onward; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA onward;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: actions; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.actions (
    id bigint NOT NULL,
    at double precision NOT NULL,
    who text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    about json NOT NULL,
    touched integer NOT NULL
);


--
-- Name: actions_id_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.actions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: blob_parts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.blob_parts (
    blob bigint NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY onward.blob_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;


--
-- Name: blobs; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.blobs (
    id bigint NOT NULL,
    digest text COLLATE pg_catalog."C",
    size bigint NOT NULL,
    put_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: blobs_id_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.blobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.blobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: bodies; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.bodies (
    doc bigint NOT NULL,
    body text NOT NULL
);


--
-- Name: breakers; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.breakers (
    dependency text NOT NULL,
    breaker json NOT NULL
);


--
-- Name: completed; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.completed (
    settled_at double precision NOT NULL,
    id bigint NOT NULL,
    "timestamp" double precision NOT NULL,
    due double precision NOT NULL,
    deaths integer NOT NULL,
    tries integer NOT NULL,
    not_ready integer NOT NULL,
    round integer NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    event_id text NOT NULL,
    worker text,
    source text COLLATE pg_catalog."C",
    collection text COLLATE pg_catalog."C",
    ids json NOT NULL,
    data text NOT NULL,
    reason text
)
WITH (autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_threshold='10000');


--
-- Name: counters; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.counters (
    name text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL
);


--
-- Name: documents; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.documents (
    doc bigint NOT NULL,
    check_at double precision DEFAULT 0 NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    round integer DEFAULT 0 NOT NULL,
    size integer DEFAULT 0 NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    collection text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    source text COLLATE pg_catalog."C",
    "row" bigint,
    failed_batch text COLLATE pg_catalog."C",
    retry_at double precision,
    fingerprint text COLLATE pg_catalog."C",
    dead_letter bigint,
    last_attempt_time double precision,
    created_at double precision,
    updated_at double precision,
    last_error text,
    attempts text
);


--
-- Name: documents_blocks; Type: SEQUENCE; Schema: onward; Owner: -
--

CREATE SEQUENCE onward.documents_blocks
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: failed_batches; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.failed_batches (
    id text NOT NULL COLLATE pg_catalog."C",
    service text NOT NULL,
    source text,
    errors json NOT NULL,
    retry_count integer DEFAULT 0 NOT NULL,
    retry_after double precision NOT NULL,
    created_at double precision NOT NULL
);


--
-- Name: failure_groups; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.failure_groups (
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    service text NOT NULL,
    collection text,
    error_type text NOT NULL,
    message text NOT NULL,
    place text NOT NULL,
    traceback text NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL,
    failures bigint NOT NULL,
    documents bigint NOT NULL,
    kinds json NOT NULL,
    versions json NOT NULL,
    dependencies json NOT NULL,
    context json DEFAULT '{}'::json NOT NULL,
    life json DEFAULT '{}'::json NOT NULL,
    succeeded_before json DEFAULT '{}'::json NOT NULL,
    succeeded_at_last json DEFAULT '{}'::json NOT NULL,
    library text DEFAULT ''::text NOT NULL
);


--
-- Name: foreign_events; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.foreign_events (
    event_id text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL
);


--
-- Name: gateway; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.gateway (
    one integer NOT NULL,
    store text NOT NULL,
    report json DEFAULT '{}'::json NOT NULL,
    CONSTRAINT gateway_one_check CHECK ((one = 1))
);


--
-- Name: group_rules; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.group_rules (
    id bigint NOT NULL,
    grouped text NOT NULL,
    target text NOT NULL,
    split_by text NOT NULL,
    value text NOT NULL,
    at double precision NOT NULL,
    who text NOT NULL,
    state text NOT NULL
);


--
-- Name: group_rules_id_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.group_rules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.group_rules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: keys; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.keys (
    doc bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL
);


--
-- Name: leaders; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.leaders (
    role text NOT NULL,
    holder text NOT NULL,
    until double precision NOT NULL
);


--
-- Name: ledger; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.ledger (
    id bigint NOT NULL,
    version bigint NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    "timestamp" double precision NOT NULL,
    due double precision NOT NULL,
    able double precision DEFAULT 0 NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    deaths integer DEFAULT 0 NOT NULL,
    lapses integer DEFAULT 0 NOT NULL,
    started integer DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    not_ready integer DEFAULT 0 NOT NULL,
    given_back integer DEFAULT 0 NOT NULL,
    openings integer DEFAULT 0 NOT NULL,
    round integer DEFAULT 0 NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    state text NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    event_id text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    worker text,
    settled_at double precision,
    source text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    lease double precision,
    collection text COLLATE pg_catalog."C",
    ids json DEFAULT '[]'::json NOT NULL,
    data text NOT NULL,
    trace text,
    batch integer,
    cursor text,
    errors text,
    failed_at double precision,
    failed_trace text,
    reason text,
    raw bytea,
    properties text
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: ledger_blocks; Type: SEQUENCE; Schema: onward; Owner: -
--

CREATE SEQUENCE onward.ledger_blocks
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: openings; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.openings (
    dependency text NOT NULL,
    opened_at double precision NOT NULL,
    closed_at double precision,
    reason text NOT NULL,
    remedy text NOT NULL
);


--
-- Name: operations; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.operations (
    id text NOT NULL COLLATE pg_catalog."C",
    began_at double precision NOT NULL,
    ended_at double precision,
    lease double precision NOT NULL,
    run integer DEFAULT 1 NOT NULL,
    stopping integer DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    status text NOT NULL,
    title text NOT NULL,
    action text NOT NULL,
    parameters json NOT NULL,
    who text NOT NULL,
    via text NOT NULL,
    back text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    problem text DEFAULT ''::text NOT NULL,
    cursor json DEFAULT 'null'::json NOT NULL
);


--
-- Name: outbox; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.outbox (
    id bigint NOT NULL,
    at double precision NOT NULL,
    due double precision,
    refused integer DEFAULT 0 NOT NULL,
    event_id text NOT NULL,
    routing_key text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL
);


--
-- Name: outbox_id_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: postings; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.postings (
    space integer NOT NULL,
    block integer NOT NULL,
    part integer NOT NULL,
    texts integer NOT NULL,
    term text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
ALTER TABLE ONLY onward.postings ALTER COLUMN data SET STORAGE EXTERNAL;


--
-- Name: removed_texts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.removed_texts (
    space integer NOT NULL,
    number integer NOT NULL
);


--
-- Name: removed_vectors; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.removed_vectors (
    doc bigint NOT NULL,
    model text NOT NULL
);


--
-- Name: rollup_parts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.rollup_parts (
    bucket bigint NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    events bigint NOT NULL,
    documents bigint NOT NULL,
    failures bigint NOT NULL,
    retries bigint NOT NULL,
    dead_letters bigint NOT NULL,
    seconds double precision NOT NULL,
    latencies text NOT NULL,
    waiting bigint
);


--
-- Name: rollups; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.rollups (
    step bigint NOT NULL,
    bucket bigint NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    events bigint NOT NULL,
    documents bigint NOT NULL,
    failures bigint NOT NULL,
    retries bigint NOT NULL,
    dead_letters bigint NOT NULL,
    seconds double precision NOT NULL,
    latencies text NOT NULL,
    waiting bigint
);


--
-- Name: schema_version; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.schema_version (
    version integer NOT NULL,
    serves integer NOT NULL
);


--
-- Name: sources; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.sources (
    source text NOT NULL COLLATE pg_catalog."C",
    generation integer NOT NULL
);


--
-- Name: status_counts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.status_counts (
    source text NOT NULL COLLATE pg_catalog."C",
    collection text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    shard integer NOT NULL,
    n bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');


--
-- Name: subscriptions; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.subscriptions (
    service text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    finishes text,
    ids_field text,
    naming json NOT NULL,
    needs json NOT NULL,
    failed_queue text NOT NULL,
    version integer NOT NULL,
    was json DEFAULT '[]'::json NOT NULL,
    last_served double precision
);


--
-- Name: successes; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.successes (
    service text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    shard integer NOT NULL,
    n bigint NOT NULL,
    first double precision NOT NULL,
    last double precision NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');


--
-- Name: text_blocks; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.text_blocks (
    space integer NOT NULL,
    block integer NOT NULL,
    texts integer NOT NULL,
    live integer NOT NULL,
    words double precision NOT NULL,
    parts integer NOT NULL,
    stale integer NOT NULL,
    version integer NOT NULL,
    merged text COLLATE pg_catalog."C"
);


--
-- Name: text_columns; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.text_columns (
    space integer NOT NULL,
    block integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
ALTER TABLE ONLY onward.text_columns ALTER COLUMN data SET STORAGE EXTERNAL;


--
-- Name: text_labels; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.text_labels (
    label integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: text_labels_label_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.text_labels ALTER COLUMN label ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.text_labels_label_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: text_numbers; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.text_numbers (
    doc bigint NOT NULL,
    space integer NOT NULL,
    number integer NOT NULL
);


--
-- Name: texts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.texts (
    doc bigint NOT NULL,
    title text NOT NULL,
    text text NOT NULL,
    quoted text NOT NULL
);


--
-- Name: vector_blocks; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.vector_blocks (
    space integer NOT NULL,
    block integer NOT NULL,
    vectors integer NOT NULL,
    version integer NOT NULL,
    docs bytea NOT NULL,
    texts bytea NOT NULL,
    codes bytea NOT NULL,
    scales bytea NOT NULL
);
ALTER TABLE ONLY onward.vector_blocks ALTER COLUMN docs SET STORAGE EXTERNAL;
ALTER TABLE ONLY onward.vector_blocks ALTER COLUMN texts SET STORAGE EXTERNAL;
ALTER TABLE ONLY onward.vector_blocks ALTER COLUMN codes SET STORAGE EXTERNAL;
ALTER TABLE ONLY onward.vector_blocks ALTER COLUMN scales SET STORAGE EXTERNAL;


--
-- Name: vector_spaces; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.vector_spaces (
    space integer NOT NULL,
    model text NOT NULL COLLATE pg_catalog."C",
    collection text NOT NULL COLLATE pg_catalog."C",
    bytes integer NOT NULL,
    texts integer NOT NULL,
    mean bytea NOT NULL
);


--
-- Name: vector_spaces_space_seq; Type: SEQUENCE; Schema: onward; Owner: -
--

ALTER TABLE onward.vector_spaces ALTER COLUMN space ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME onward.vector_spaces_space_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: vectors; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.vectors (
    doc bigint NOT NULL,
    model text NOT NULL,
    vector bytea NOT NULL
);


--
-- Name: versions; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.versions (
    version text NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL
);


--
-- Name: waiting_texts; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.waiting_texts (
    doc bigint NOT NULL,
    collection text NOT NULL COLLATE pg_catalog."C",
    terms bytea,
    weights bytea,
    length integer NOT NULL,
    date double precision,
    facets text NOT NULL
);


--
-- Name: waiting_vectors; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.waiting_vectors (
    doc bigint NOT NULL,
    model text NOT NULL
);


--
-- Name: workers; Type: TABLE; Schema: onward; Owner: -
--

CREATE TABLE onward.workers (
    worker text NOT NULL,
    about json NOT NULL,
    last_seen double precision NOT NULL
);


--
-- Data for Name: actions; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.actions OVERRIDING SYSTEM VALUE VALUES (1, 1800043330.0000038, 'ana', 'cli', 'retry', '{"collection": "crates"}', 3);


--
-- Data for Name: blob_parts; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.blob_parts VALUES (1, 0, '\x746865206d616e6966657374206f6620736869702d310a');


--
-- Data for Name: blobs; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.blobs OVERRIDING SYSTEM VALUE VALUES (1, '35c3de57699c0324452d10373b72460d7da02c3f0639dad8774eb7ec9520d152', 23, '2026-11-18 05:57:41.797207+00');


--
-- Data for Name: bodies; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.bodies VALUES (1024, '{"id":"early-0","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1025, '{"id":"early-1","owner":"Bert","weight":1.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1026, '{"id":"early-2","owner":"Ada","weight":2.0,"fault":"transient"}');
INSERT INTO onward.bodies VALUES (1027, '{"id":"early-3","owner":"Bert","weight":3.0,"fault":"permanent"}');
INSERT INTO onward.bodies VALUES (1028, '{"id":"early-4","owner":"Ada","weight":4.0,"fault":"half"}');
INSERT INTO onward.bodies VALUES (1030, '{"id":"unloaded early-0 07e424d75f8d"}');
INSERT INTO onward.bodies VALUES (1031, '{"id":"unloaded early-1 9213cd4bbf59"}');
INSERT INTO onward.bodies VALUES (1032, '{"id":"opened early-4 67431bf35283"}');
INSERT INTO onward.bodies VALUES (1034, '{"id":"opened early-4 230bb5a0d329"}');
INSERT INTO onward.bodies VALUES (1035, '{"id":"opened early-4 9f54ef131c60"}');
INSERT INTO onward.bodies VALUES (1036, '{"id":"opened early-4 c88ceaae43d9"}');
INSERT INTO onward.bodies VALUES (1037, '{"id":"opened early-4 e8eb2876e614"}');
INSERT INTO onward.bodies VALUES (1038, '{"id":"later-0","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1039, '{"id":"later-1","owner":"Bert","weight":1.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1040, '{"id":"later-2","owner":"Ada","weight":2.0,"fault":"transient"}');
INSERT INTO onward.bodies VALUES (1041, '{"id":"later-3","owner":"Bert","weight":3.0,"fault":"permanent"}');
INSERT INTO onward.bodies VALUES (1042, '{"id":"later-4","owner":"Ada","weight":4.0,"fault":"half"}');
INSERT INTO onward.bodies VALUES (1043, '{"id":"part-0","fault":""}');
INSERT INTO onward.bodies VALUES (1044, '{"id":"part-1","fault":""}');
INSERT INTO onward.bodies VALUES (1045, '{"id":"part-2","fault":"aside"}');
INSERT INTO onward.bodies VALUES (1046, '{"id":"part-3","fault":""}');
INSERT INTO onward.bodies VALUES (1047, '{"id":"part-4","fault":""}');
INSERT INTO onward.bodies VALUES (1048, '{"id":"part-5","fault":"aside"}');
INSERT INTO onward.bodies VALUES (1049, '{"id":"part-6","fault":""}');
INSERT INTO onward.bodies VALUES (1050, '{"id":"part-7","fault":""}');
INSERT INTO onward.bodies VALUES (1051, '{"id":"unloaded later-0 7fffd15d8e6f"}');
INSERT INTO onward.bodies VALUES (1052, '{"id":"packed part-0 60101261e50b"}');
INSERT INTO onward.bodies VALUES (1053, '{"id":"packed part-1 830d50a6de94"}');
INSERT INTO onward.bodies VALUES (1054, '{"id":"packed part-3 8a76d90cca1b"}');
INSERT INTO onward.bodies VALUES (1055, '{"id":"packed part-4 ebd197ea2b9a"}');
INSERT INTO onward.bodies VALUES (1056, '{"id":"packed part-6 233cc7a67a1f"}');
INSERT INTO onward.bodies VALUES (1057, '{"id":"packed part-7 321b33d19697"}');
INSERT INTO onward.bodies VALUES (1058, '{"id":"unloaded later-1 c45eb6b5b8fa"}');
INSERT INTO onward.bodies VALUES (1059, '{"id":"opened later-4 7a3898cc2227"}');
INSERT INTO onward.bodies VALUES (1060, '{"id":"stamp-0"}');
INSERT INTO onward.bodies VALUES (1061, '{"id":"stamp-1"}');
INSERT INTO onward.bodies VALUES (1062, '{"id":"stamp-2"}');
INSERT INTO onward.bodies VALUES (1063, '{"id":"stamp-3"}');
INSERT INTO onward.bodies VALUES (1064, '{"id":"stamp-4"}');
INSERT INTO onward.bodies VALUES (1065, '{"id":"stamp-5"}');
INSERT INTO onward.bodies VALUES (1066, '{"id":"stamp-6"}');
INSERT INTO onward.bodies VALUES (1067, '{"id":"stamp-7"}');
INSERT INTO onward.bodies VALUES (1068, '{"id":"discarded","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1069, '{"id":"claimed-0","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1070, '{"id":"claimed-1","owner":"Bert","weight":1.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1071, '{"id":"claimed-2","owner":"Ada","weight":2.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1072, '{"id":"claimed-3","owner":"Bert","weight":3.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1073, '{"id":"foreign-0","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1074, '{"id":"waiting-0","owner":"Ada","weight":0.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1075, '{"id":"waiting-1","owner":"Bert","weight":1.0,"fault":""}');
INSERT INTO onward.bodies VALUES (1076, '{"id":"waiting-2","owner":"Ada","weight":2.0,"fault":""}');


--
-- Data for Name: breakers; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.breakers VALUES ('customs', '{"dependency": "customs", "open": true, "strikes": [], "opened_at": 1800043260.000001, "reason": "Unavailable: customs: simulated outage", "remedy": "", "by_hand": false, "next_probe": 1800043410.0000038, "probe_delay": 80.0, "probe_row": 1051, "probes": 3, "document_turn": false, "limit": null, "paused_until": null, "episode_began_at": 1800043260.000001, "openings": 1, "closed_at": null, "worked": false, "health_doubted": false, "unreached_since": null}');


--
-- Data for Name: completed; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.completed VALUES (1800043200, 1038, 1800043200, 1800043200, 0, 0, 0, 1, 'unloading', 'CratesLanded', '01a1ed3b78f4de58c5ad23f5a92690b1', 'simulation', 'ship-2', 'crates', '[["later-0", 1]]', '{"crate_ids":["later-0"]}', NULL);
INSERT INTO onward.completed VALUES (1800043200, 1043, 1800043200, 1800043200, 0, 0, 0, 1, 'packing', 'PartsFound', '01a1ed3b79224d831809fe770f3a9c7e', 'simulation', 'ship-2', 'parts', '[["part-0", 1], ["part-1", 1], ["part-2", 1], ["part-3", 1], ["part-4", 1], ["part-5", 1], ["part-6", 1], ["part-7", 1]]', '{"part_ids":["part-0","part-1","part-2","part-3","part-4","part-5","part-6","part-7"]}', NULL);
INSERT INTO onward.completed VALUES (1800043200, 1039, 1800043200, 1800043200, 0, 0, 0, 1, 'unloading', 'CratesLanded', '01a1ed3b78fc9a09b5b7e36878c9990b', 'simulation', 'ship-2', 'crates', '[["later-1", 1]]', '{"crate_ids":["later-1"]}', NULL);
INSERT INTO onward.completed VALUES (1800043260.000001, 1044, 1800043260.000001, 1800043260.000001, 0, 0, 0, 2, 'packing', 'PartsFound', '01a1ed3b7b075eb659c1689823f833a0', 'simulation', 'ship-2', 'parts', '[["part-2", 2], ["part-5", 2]]', '{"part_ids":["part-2","part-5"]}', NULL);


--
-- Data for Name: counters; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.counters VALUES ('retry_job_duration_seconds', 'le:0.05', 2);
INSERT INTO onward.counters VALUES ('retry_job_documents_requeued_total', 'crates', 8);
INSERT INTO onward.counters VALUES ('retry_job_duration_seconds', 'le:0.025', 2);
INSERT INTO onward.counters VALUES ('retry_job_documents_max_retries_exceeded_total', 'crates', 2);
INSERT INTO onward.counters VALUES ('retry_job_checked_up_to', '', 1037);
INSERT INTO onward.counters VALUES ('retry_job_stuck_documents', 'crates', 0);
INSERT INTO onward.counters VALUES ('retry_job_failed_documents', 'crates', 2);
INSERT INTO onward.counters VALUES ('retry_job_stuck_documents', 'slips', 0);
INSERT INTO onward.counters VALUES ('retry_job_failed_documents', 'slips', 0);
INSERT INTO onward.counters VALUES ('retry_job_runs_total', 'success', 5);
INSERT INTO onward.counters VALUES ('retry_job_duration_seconds', 'le:0.01', 1);
INSERT INTO onward.counters VALUES ('retry_job_duration_seconds', 'sum', 0.1082026780002252);
INSERT INTO onward.counters VALUES ('retry_job_duration_seconds', 'count', 5);
INSERT INTO onward.counters VALUES ('retry_job_last_success_timestamp_seconds', '', 1800043200);
INSERT INTO onward.counters VALUES ('failed_batches_retried_total', 'packing', 1);
INSERT INTO onward.counters VALUES ('failure_group_regressions_total', 'unloading', 0);
INSERT INTO onward.counters VALUES ('made_up_total', 'crates', 5);


--
-- Data for Name: documents; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.documents VALUES (1030, 0, 0, 0, 1, 0, 38, 'processed', 'slips', 'unloaded early-0 07e424d75f8d', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800000000, 1800000000, NULL, NULL);
INSERT INTO onward.documents VALUES (1024, 0, 1, 0, 1, 1, 54, 'processed', 'crates', 'early-0', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, 1800000000, 1800000000, 1800000000, NULL, '{"total": 1, "first": {"at": 1800000000.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1031, 0, 0, 0, 1, 0, 38, 'processed', 'slips', 'unloaded early-1 9213cd4bbf59', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800000000, 1800000000, NULL, NULL);
INSERT INTO onward.documents VALUES (1025, 0, 1, 0, 1, 1, 55, 'processed', 'crates', 'early-1', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, 1800000000, 1800000000, 1800000000, NULL, '{"total": 1, "first": {"at": 1800000000.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1027, 0, 1, 0, 1, 1, 64, 'failed', 'crates', 'early-3', NULL, 'ship-1', NULL, NULL, NULL, '19dfee51ecbf4723', 1027, 1800000000, 1800000000, 1800000000, '{"at": 1800000000.0, "error_type": "Permanent", "message": "early-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 1, "succeeded": 2}', '{"total": 1, "first": {"at": 1800000000.0, "error_type": "Permanent", "message": "early-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 1, "succeeded": 2}, "last": []}');
INSERT INTO onward.documents VALUES (1032, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened early-4 67431bf35283', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800000000, 1800000000, NULL, NULL);
INSERT INTO onward.documents VALUES (1044, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-1', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1047, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-4', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1058, 0, 0, 0, 1, 0, 38, 'processed', 'slips', 'unloaded later-1 c45eb6b5b8fa', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1059, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened later-4 7a3898cc2227', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1040, 1800043515.000002, 1, 0, 1, 1, 63, 'pending', 'crates', 'later-2', NULL, 'ship-2', NULL, NULL, NULL, '405d2c6a9d272009', 1040, 1800043215.000002, 1800043200, 1800043215.000002, '{"at": 1800043215.000002, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 5}', '{"total": 3, "first": {"at": 1800043200.0, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 1, "succeeded": 5}, "last": [{"at": 1800043205.000001, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 2, "succeeded": 5}, {"at": 1800043215.000002, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 5}]}');
INSERT INTO onward.documents VALUES (1034, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened early-4 230bb5a0d329', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800000315.0000029, 1800000315.0000029, NULL, NULL);
INSERT INTO onward.documents VALUES (1035, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened early-4 9f54ef131c60', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800000930.0000057, 1800000930.0000057, NULL, NULL);
INSERT INTO onward.documents VALUES (1036, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened early-4 c88ceaae43d9', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800002145.0000086, 1800002145.0000086, NULL, NULL);
INSERT INTO onward.documents VALUES (1026, 1800005400, 5, 0, 1, 5, 63, 'failed_max_retries', 'crates', 'early-2', NULL, 'ship-1', NULL, NULL, NULL, '405d2c6a9d272009', 1026, 1800004575.0000134, 1800000000, 1800004575.0000134, '{"at": 1800004575.0000134, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 5, "try": 3, "succeeded": 3}', '{"total": 16, "first": {"at": 1800000000.0, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 1, "succeeded": 2}, "last": [{"at": 1800000005.000001, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 2, "succeeded": 3}, {"at": 1800000015.000002, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 3}, {"at": 1800000315.0000029, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 2, "try": 1, "succeeded": 3}, {"at": 1800000320.0000038, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 2, "try": 2, "succeeded": 3}, {"at": 1800000330.0000048, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 2, "try": 3, "succeeded": 3}, {"at": 1800000930.0000057, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 3, "try": 1, "succeeded": 3}, {"at": 1800000935.0000067, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 3, "try": 2, "succeeded": 3}, {"at": 1800000945.0000076, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 3, "try": 3, "succeeded": 3}, {"at": 1800002145.0000086, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 4, "try": 1, "succeeded": 3}, {"at": 1800002150.0000095, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 4, "try": 2, "succeeded": 3}, {"at": 1800002160.0000105, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 4, "try": 3, "succeeded": 3}, {"at": 1800004560.0000114, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 5, "try": 1, "succeeded": 3}, {"at": 1800004565.0000124, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 5, "try": 2, "succeeded": 3}, {"at": 1800004575.0000134, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 5, "try": 3, "succeeded": 3}, {"at": 1800004575.0000134, "outcome": "gave_up_for_good", "round": 5}]}');
INSERT INTO onward.documents VALUES (1037, 0, 0, 0, 1, 0, 36, 'processed', 'slips', 'opened early-4 e8eb2876e614', NULL, 'ship-1', NULL, NULL, NULL, NULL, NULL, NULL, 1800004560.0000114, 1800004560.0000114, NULL, NULL);
INSERT INTO onward.documents VALUES (1028, 1800005400, 5, 0, 1, 5, 58, 'failed_max_retries', 'crates', 'early-4', NULL, 'ship-1', NULL, NULL, NULL, '405d2c6a9d272009', 1028, 1800004575.0000134, 1800000000, 1800004575.0000134, '{"at": 1800004575.0000134, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 5, "try": 3, "succeeded": 3}', '{"total": 16, "first": {"at": 1800000000.0, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 1, "succeeded": 2}, "last": [{"at": 1800000005.000001, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 2, "succeeded": 3}, {"at": 1800000015.000002, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 3}, {"at": 1800000315.0000029, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 2, "try": 1, "succeeded": 3}, {"at": 1800000320.0000038, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 2, "try": 2, "succeeded": 3}, {"at": 1800000330.0000048, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 2, "try": 3, "succeeded": 3}, {"at": 1800000930.0000057, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 3, "try": 1, "succeeded": 3}, {"at": 1800000935.0000067, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 3, "try": 2, "succeeded": 3}, {"at": 1800000945.0000076, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 3, "try": 3, "succeeded": 3}, {"at": 1800002145.0000086, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 4, "try": 1, "succeeded": 3}, {"at": 1800002150.0000095, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 4, "try": 2, "succeeded": 3}, {"at": 1800002160.0000105, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 4, "try": 3, "succeeded": 3}, {"at": 1800004560.0000114, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 5, "try": 1, "succeeded": 3}, {"at": 1800004565.0000124, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 5, "try": 2, "succeeded": 3}, {"at": 1800004575.0000134, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 5, "try": 3, "succeeded": 3}, {"at": 1800004575.0000134, "outcome": "gave_up_for_good", "round": 5}]}');
INSERT INTO onward.documents VALUES (1051, 0, 0, 0, 1, 0, 38, 'processed', 'slips', 'unloaded later-0 7fffd15d8e6f', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1038, 0, 1, 0, 1, 1, 54, 'processed', 'crates', 'later-0', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1052, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-0 60101261e50b', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1053, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-1 830d50a6de94', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1054, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-3 8a76d90cca1b', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1055, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-4 ebd197ea2b9a', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1056, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-6 233cc7a67a1f', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1057, 0, 0, 0, 1, 0, 35, 'processed', 'slips', 'packed part-7 321b33d19697', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, NULL, NULL);
INSERT INTO onward.documents VALUES (1049, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-6', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1043, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-0', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1050, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-7', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1046, 0, 1, 0, 1, 1, 26, 'processed', 'parts', 'part-3', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1039, 0, 1, 0, 1, 1, 55, 'processed', 'crates', 'later-1', NULL, 'ship-2', NULL, NULL, NULL, NULL, NULL, 1800043200, 1800043200, 1800043200, NULL, '{"total": 1, "first": {"at": 1800043200.0, "outcome": "processed", "worker": "simulation", "version": "1.0", "round": 1}, "last": []}');
INSERT INTO onward.documents VALUES (1041, 0, 1, 0, 1, 1, 64, 'failed', 'crates', 'later-3', NULL, 'ship-2', NULL, NULL, NULL, '19dfee51ecbf4723', 1041, 1800043200, 1800043200, 1800043200, '{"at": 1800043200.0, "error_type": "Permanent", "message": "later-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 1, "succeeded": 5}', '{"total": 1, "first": {"at": 1800043200.0, "error_type": "Permanent", "message": "later-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 1, "succeeded": 5}, "last": []}');
INSERT INTO onward.documents VALUES (1045, 0, 2, 0, 1, 2, 31, 'pending', 'parts', 'part-2', NULL, 'ship-2', NULL, '8c565d65924872abf0c662c50b5989a9', NULL, '12d372b3ec372044', NULL, 1800043260.000001, 1800043200, 1800043260.000001, '{"at": 1800043260.000001, "error_type": "ValueError", "message": "part-2 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 2, "try": 1, "succeeded": 6}', '{"total": 2, "first": {"at": 1800043200.0, "error_type": "ValueError", "message": "part-2 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 1, "try": 1, "succeeded": 6}, "last": [{"at": 1800043260.000001, "error_type": "ValueError", "message": "part-2 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 2, "try": 1, "succeeded": 6}]}');
INSERT INTO onward.documents VALUES (1048, 0, 2, 0, 1, 2, 31, 'pending', 'parts', 'part-5', NULL, 'ship-2', NULL, '8c565d65924872abf0c662c50b5989a9', NULL, '12d372b3ec372044', NULL, 1800043260.000001, 1800043200, 1800043260.000001, '{"at": 1800043260.000001, "error_type": "ValueError", "message": "part-5 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 2, "try": 1, "succeeded": 6}', '{"total": 2, "first": {"at": 1800043200.0, "error_type": "ValueError", "message": "part-5 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 1, "try": 1, "succeeded": 6}, "last": [{"at": 1800043260.000001, "error_type": "ValueError", "message": "part-5 does not fit", "fingerprint": "12d372b3ec372044", "worker": "simulation", "version": "1.0", "kind": "transient", "outcome": "set_aside", "round": 2, "try": 1, "succeeded": 6}]}');
INSERT INTO onward.documents VALUES (1042, 1800043515.000002, 1, 0, 1, 1, 58, 'pending', 'crates', 'later-4', NULL, 'ship-2', NULL, NULL, NULL, '405d2c6a9d272009', 1042, 1800043215.000002, 1800043200, 1800043215.000002, '{"at": 1800043215.000002, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 5}', '{"total": 3, "first": {"at": 1800043200.0, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 1, "succeeded": 5}, "last": [{"at": 1800043205.000001, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "retried", "round": 1, "try": 2, "succeeded": 5}, {"at": 1800043215.000002, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload", "outcome": "gave_up", "round": 1, "try": 3, "succeeded": 5}]}');
INSERT INTO onward.documents VALUES (1060, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-0', NULL, NULL, 1045, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043260.000001, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1061, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-1', NULL, NULL, 1046, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043260.000001, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1062, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-2', NULL, NULL, 1047, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043260.000001, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1063, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-3', NULL, NULL, 1048, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043260.000001, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1064, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-4', NULL, NULL, 1049, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043260.000001, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1067, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-7', NULL, NULL, 1052, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043270.000002, NULL, '{"total": 1, "first": {"at": 1800043270.000002, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1065, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-5', NULL, NULL, 1050, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043290.0000029, NULL, '{"total": 1, "first": {"at": 1800043290.0000029, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1066, 0, 1, 0, 1, 1, 16, 'pending', 'stamps', 'stamp-6', NULL, NULL, 1051, NULL, NULL, NULL, NULL, 1800043260.000001, 1800043260.000001, 1800043330.0000038, NULL, '{"total": 1, "first": {"at": 1800043330.0000038, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "dependency": "customs", "kind": "unavailable", "outcome": "given_back", "round": 1, "try": 0}, "last": []}');
INSERT INTO onward.documents VALUES (1068, 0, 0, 0, 1, 1, 56, 'discarded', 'crates', 'discarded', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1069, 0, 1, 0, 1, 1, 56, 'pending', 'crates', 'claimed-0', NULL, 'ship-3', 1053, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1070, 0, 1, 0, 1, 1, 57, 'pending', 'crates', 'claimed-1', NULL, 'ship-3', 1054, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1071, 0, 1, 0, 1, 1, 56, 'pending', 'crates', 'claimed-2', NULL, 'ship-3', 1055, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1072, 0, 1, 0, 1, 1, 57, 'pending', 'crates', 'claimed-3', NULL, 'ship-3', 1056, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1073, 0, 1, 0, 1, 1, 56, 'pending', 'crates', 'foreign-0', NULL, 'ship-3', 1059, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1074, 0, 1, 0, 1, 1, 56, 'pending', 'crates', 'waiting-0', NULL, 'ship-3', 1060, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1075, 0, 1, 0, 1, 1, 57, 'pending', 'crates', 'waiting-1', NULL, 'ship-3', 1061, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);
INSERT INTO onward.documents VALUES (1076, 0, 1, 0, 1, 1, 56, 'pending', 'crates', 'waiting-2', NULL, 'ship-3', 1062, NULL, NULL, NULL, NULL, 1800043330.0000038, 1800043330.0000038, 1800043330.0000038, NULL, NULL);


--
-- Data for Name: failed_batches; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.failed_batches VALUES ('8c565d65924872abf0c662c50b5989a9', 'packing', 'ship-2', '{"total": 4, "first": {"timestamp": 1800043200.0, "error": "ValueError: part-2 does not fit"}, "last": [{"timestamp": 1800043200.0, "error": "ValueError: part-5 does not fit"}, {"timestamp": 1800043260.000001, "error": "ValueError: part-2 does not fit"}, {"timestamp": 1800043260.000001, "error": "ValueError: part-5 does not fit"}]}', 1, 1800043560.000001, 1800043200);


--
-- Data for Name: failure_groups; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.failure_groups VALUES ('12d372b3ec372044', 'packing', 'parts', 'ValueError', 'part-5 does not fit', '', '', 1800043200, 1800043260.000001, 4, 2, '{"transient": 4}', '{"1.0": 4}', '{}', '{}', '{}', '{"1.0": 6}', '{"1.0": 6}', '');
INSERT INTO onward.failure_groups VALUES ('405d2c6a9d272009', 'unloading', 'crates', 'OSError', 'later-4 is stuck', 'tests.store.released.harbour:harbour.<locals>.unload', 'Traceback (most recent call last):
  File "src/onward/runtime/handler_call.py", line 197, in _run
    return self._succeeded(self.service.handler(argument, work))
                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/testing.py", line 283, in handle
    return service.handler(argument, work)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "tests/store/released/harbour.py", line 78, in unload
    raise (
OSError: later-4 is stuck
', 1800000000, 1800043215.000002, 36, 4, '{"transient": 36}', '{"1.0": 36}', '{}', '{}', '{"closing": null, "regressed_at": null, "regressed_in": "", "regressions": 0, "owner": "ana", "notes": [{"at": 1800043330.0000038, "who": "ana", "text": "the lid is nailed"}]}', '{"1.0": 2}', '{"1.0": 5}', '');
INSERT INTO onward.failure_groups VALUES ('19dfee51ecbf4723', 'unloading', 'crates', 'Permanent', 'later-3 is empty', 'tests.store.released.harbour:harbour.<locals>.unload', 'Traceback (most recent call last):
  File "src/onward/runtime/handler_call.py", line 197, in _run
    return self._succeeded(self.service.handler(argument, work))
                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/testing.py", line 283, in handle
    return service.handler(argument, work)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "tests/store/released/harbour.py", line 78, in unload
    raise (
onward.retry.errors.Permanent: later-3 is empty
', 1800000000, 1800043200, 2, 2, '{"permanent": 2}', '{"1.0": 2}', '{}', '{}', '{"closing": {"at": 1800043330.0000038, "who": "ana", "version": "2.0", "uncertain": 0}, "regressed_at": null, "regressed_in": "", "regressions": 0, "owner": "", "notes": []}', '{"1.0": 2}', '{"1.0": 5}', '');
INSERT INTO onward.failure_groups VALUES ('6b5e711eac20cc8e', 'unloading', NULL, 'Malformed', 'CratesLanded fails its schema: crate_ids: Input should be a valid array', '', 'Traceback (most recent call last):
  File "src/onward/model/events.py", line 335, in read_event
    return _read_known_fields(cls, data)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/model/events.py", line 351, in _read_known_fields
    return cls.model_validate_json(data)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File ".venv/lib/python3.11/site-packages/pydantic/main.py", line 847, in model_validate_json
    return cls.__pydantic_validator__.validate_json(
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
pydantic_core._pydantic_core.ValidationError: 1 validation error for CratesLanded
crate_ids
  Input should be a valid array [type=list_type]
    For further information visit https://errors.pydantic.dev/2.14/v/list_type

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "src/onward/runtime/publisher.py", line 159, in _read_or_reason
    return read_foreign_event(kinds, message, now)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/runtime/publisher.py", line 196, in read_foreign_event
    data, is_same = _with_unknown_fields(envelope.get("data", {}), storable_data(read_event(kind, data)))
                                                                                 ^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/model/events.py", line 341, in read_event
    raise Malformed(f"{cls.event_type} fails its schema: {wrong}") from error
onward.retry.errors.Malformed: CratesLanded fails its schema: crate_ids: Input should be a valid array
', 1800043330.0000038, 1800043330.0000038, 1, 1, '{"malformed": 1}', '{}', '{}', '{}', '{}', '{"1.0": 5}', '{"1.0": 5}', 'pydantic_core');
INSERT INTO onward.failure_groups VALUES ('c932a31698d17034', 'stamping', 'stamps', 'Unavailable', 'customs: simulated outage', '', 'Traceback (most recent call last):
  File "src/onward/runtime/handler_call.py", line 197, in _run
    return self._succeeded(self.service.handler(argument, work))
                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "src/onward/testing.py", line 282, in handle
    begin()
  File "src/onward/testing.py", line 279, in begin
    raise Unavailable(down, "simulated outage")
onward.retry.errors.Unavailable: customs: simulated outage
', 1800043260.000001, 1800043330.0000038, 8, 8, '{"unavailable": 8}', '{"1.0": 8}', '{"customs": 8}', '{}', '{}', '{}', '{}', '');


--
-- Data for Name: foreign_events; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.foreign_events VALUES ('f-1', 1800043330.0000038);


--
-- Data for Name: gateway; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.gateway VALUES (1, '01a1ed3b7e119faf7e7ce56d4f73a3b7', '{"holder": "lost-machine-1", "at": 1800043330.0000038, "trouble": "the broker is away", "emptied_at": 0.0, "process": {}}');


--
-- Data for Name: group_rules; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.group_rules OVERRIDING SYSTEM VALUE VALUES (1, '405d2c6a9d272009', '8c601bbbcf60cd72', 'version', '1.0', 1800043330.0000038, 'ana', 'adding');


--
-- Data for Name: keys; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.keys VALUES (1024, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1024, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1025, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1025, 'weight', '1.0');
INSERT INTO onward.keys VALUES (1026, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1026, 'weight', '2.0');
INSERT INTO onward.keys VALUES (1027, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1027, 'weight', '3.0');
INSERT INTO onward.keys VALUES (1028, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1028, 'weight', '4.0');
INSERT INTO onward.keys VALUES (1038, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1038, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1039, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1039, 'weight', '1.0');
INSERT INTO onward.keys VALUES (1040, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1040, 'weight', '2.0');
INSERT INTO onward.keys VALUES (1041, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1041, 'weight', '3.0');
INSERT INTO onward.keys VALUES (1042, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1042, 'weight', '4.0');
INSERT INTO onward.keys VALUES (1068, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1068, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1069, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1069, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1070, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1070, 'weight', '1.0');
INSERT INTO onward.keys VALUES (1071, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1071, 'weight', '2.0');
INSERT INTO onward.keys VALUES (1072, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1072, 'weight', '3.0');
INSERT INTO onward.keys VALUES (1073, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1073, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1074, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1074, 'weight', '0.0');
INSERT INTO onward.keys VALUES (1075, 'owner', '"Bert"');
INSERT INTO onward.keys VALUES (1075, 'weight', '1.0');
INSERT INTO onward.keys VALUES (1076, 'owner', '"Ada"');
INSERT INTO onward.keys VALUES (1076, 'weight', '2.0');


--
-- Data for Name: leaders; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.leaders VALUES ('retry_job', 'lost-machine-1', 1800043360.0000038);


--
-- Data for Name: ledger; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.ledger VALUES (1027, 1, 1, 1800000000, 1800000000, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b7062499d364f97bc00aa57f0', 'b99609f43ad42f800900f52e7cc96c65', 'simulation', 1800000000, 'ship-1', '19dfee51ecbf4723', NULL, 'crates', '[["early-3", 1]]', '{"crate_ids":["early-3"]}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800000000.0, "error_type": "Permanent", "message": "early-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nonward.retry.errors.Permanent: early-3 is empty\n", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": []}', 1800000000, NULL, 'non_retryable', NULL, NULL);
INSERT INTO onward.ledger VALUES (1028, 1, 3, 1800000000, 1800000015.000001, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b7071326bc0e4c3a1126343e1', 'fb8eff1afddd241907eef2c16ff9e857', 'simulation', 1800004575.0000134, 'ship-1', '405d2c6a9d272009', NULL, 'crates', '[["early-4", 5]]', '{"crate_ids":["early-4"]}', NULL, NULL, '{"early-4": {"opened": true}}', '{"total": 15, "first": {"at": 1800000000.0, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": [{"at": 1800000005.000001, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000015.000002, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000315.0000029, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000320.0000038, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000330.0000048, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000930.0000057, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000935.0000067, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000945.0000076, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002145.0000086, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002150.0000095, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002160.0000105, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004560.0000114, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004565.0000124, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004575.0000134, "error_type": "OSError", "message": "early-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nOSError: early-4 is stuck\n", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}]}', 1800000000, NULL, 'max_attempts_exceeded', NULL, NULL);
INSERT INTO onward.ledger VALUES (1026, 1, 3, 1800000000, 1800000015.000001, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b704b6913427dc4db77ff9c69', '1e6c152bb7c96e99f00232554a0c3237', 'simulation', 1800004575.0000134, 'ship-1', '405d2c6a9d272009', NULL, 'crates', '[["early-2", 5]]', '{"crate_ids":["early-2"]}', NULL, NULL, NULL, '{"total": 15, "first": {"at": 1800000000.0, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": [{"at": 1800000005.000001, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000015.000002, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000315.0000029, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000320.0000038, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000330.0000048, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000930.0000057, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000935.0000067, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800000945.0000076, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002145.0000086, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002150.0000095, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800002160.0000105, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004560.0000114, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004565.0000124, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800004575.0000134, "error_type": "OSError", "message": "early-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nOSError: early-2 is stuck\n", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}]}', 1800000000, NULL, 'max_attempts_exceeded', NULL, NULL);
INSERT INTO onward.ledger VALUES (1045, 1, 1, 1800043260.000001, 1800043270.000001, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b65312c7fb818c4e2261b2d', '18096085df232624caad8c6e29a0d3b8', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-0", 1]]', '{"stamp_id":"stamp-0"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043260.000001, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1046, 1, 1, 1800043260.000001, 1800043270.000001, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b72d54e6fac9b5cbb721a53', '42f90d2ad37fe4b4f219217a00e633fe', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-1", 1]]', '{"stamp_id":"stamp-1"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043260.000001, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1047, 1, 1, 1800043260.000001, 1800043270.000001, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b81c0732af2cdc8dfce0079', '4c4d0f7887c6c9909216ebbde75c83f9', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-2", 1]]', '{"stamp_id":"stamp-2"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043260.000001, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1048, 1, 1, 1800043260.000001, 1800043270.000001, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b857a5ba1f59d4222f7d29d', 'e3294cdd6f4c61853707b8b1d82f39eb', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-3", 1]]', '{"stamp_id":"stamp-3"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043260.000001, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1049, 1, 1, 1800043260.000001, 1800043260.000001, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b877550b6ee3e324524a248', '933c4b81e7c73f09fe70ce1b3f12c71f', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-4", 1]]', '{"stamp_id":"stamp-4"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043260.000001, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043260.000001, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1052, 1, 1, 1800043260.000001, 1800043291.000002, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7baa269b01554d993fc8f77b', '9a9d4d745a939f85bbed64dddac4cf4f', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-7", 1]]', '{"stamp_id":"stamp-7"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043270.000002, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043270.000002, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1050, 1, 1, 1800043260.000001, 1800043331.0000029, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b96ec2f200adc8fe076316c', '6fc2d2055f3f2b20ae90f6b767a7e331', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-5", 1]]', '{"stamp_id":"stamp-5"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043290.0000029, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043290.0000029, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1041, 1, 1, 1800043200, 1800043200, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b791687480666f3fe51648d1a', '9e990d0449f80e6814ff5cc3ff70f221', 'simulation', 1800043200, 'ship-2', '19dfee51ecbf4723', NULL, 'crates', '[["later-3", 1]]', '{"crate_ids":["later-3"]}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043200.0, "error_type": "Permanent", "message": "later-3 is empty", "fingerprint": "19dfee51ecbf4723", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nonward.retry.errors.Permanent: later-3 is empty\n", "kind": "permanent", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": []}', 1800043200, NULL, 'non_retryable', NULL, NULL);
INSERT INTO onward.ledger VALUES (1040, 1, 3, 1800043200, 1800043215.000001, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b790c0662c163c60df6db696a', '1eb8bf363fa47ca15ff83f1985e9fe79', 'simulation', 1800043215.000002, 'ship-2', '405d2c6a9d272009', NULL, 'crates', '[["later-2", 1]]', '{"crate_ids":["later-2"]}', NULL, NULL, NULL, '{"total": 3, "first": {"at": 1800043200.0, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": [{"at": 1800043205.000001, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800043215.000002, "error_type": "OSError", "message": "later-2 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nOSError: later-2 is stuck\n", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}]}', 1800043200, NULL, 'max_attempts_exceeded', NULL, NULL);
INSERT INTO onward.ledger VALUES (1042, 1, 3, 1800043200, 1800043215.000001, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 'dead', 'unloading', 'CratesLanded', '01a1ed3b791ff1f19669e1df4de9c934', '8174be9f7dcc55339a30cdb4c17a3142', 'simulation', 1800043215.000002, 'ship-2', '405d2c6a9d272009', NULL, 'crates', '[["later-4", 1]]', '{"crate_ids":["later-4"]}', NULL, NULL, '{"later-4": {"opened": true}}', '{"total": 3, "first": {"at": 1800043200.0, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, "last": [{"at": 1800043205.000001, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}, {"at": 1800043215.000002, "error_type": "OSError", "message": "later-4 is stuck", "fingerprint": "405d2c6a9d272009", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 283, in handle\n    return service.handler(argument, work)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"tests/store/released/harbour.py\", line 78, in unload\n    raise (\nOSError: later-4 is stuck\n", "kind": "transient", "place": "tests.store.released.harbour:harbour.<locals>.unload"}]}', 1800043200, NULL, 'max_attempts_exceeded', NULL, NULL);
INSERT INTO onward.ledger VALUES (1051, 1, 1, 1800043260.000001, 1800043411.0000038, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 'waiting', 'stamping', 'StampWanted', '01a1ed3b7b9b8eb65dc519be17baa670', '855c9f789b707c7b89ff060b7e3fa76f', 'simulation', NULL, NULL, NULL, NULL, 'stamps', '[["stamp-6", 1]]', '{"stamp_id":"stamp-6"}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043330.0000038, "error_type": "Unavailable", "message": "customs: simulated outage", "fingerprint": "c932a31698d17034", "worker": "simulation", "version": "1.0", "traceback": "Traceback (most recent call last):\n  File \"src/onward/runtime/handler_call.py\", line 197, in _run\n    return self._succeeded(self.service.handler(argument, work))\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/testing.py\", line 282, in handle\n    begin()\n  File \"src/onward/testing.py\", line 279, in begin\n    raise Unavailable(down, \"simulated outage\")\nonward.retry.errors.Unavailable: customs: simulated outage\n", "dependency": "customs", "kind": "unavailable"}, "last": []}', 1800043330.0000038, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1056, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7e47885d3825d8f803d4a213', 'e7eff9daf351ee814a0ec098bed9fddf', NULL, NULL, 'ship-3', NULL, NULL, 'crates', '[["claimed-3", 1]]', '{"crate_ids":["claimed-3"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1053, 1, 2, 1800043330.0000038, 1800043330.0000038, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7e20f851f2150188d3f30ea2', '29551ab54412557208d9d51816de6cdb', 'lost-machine-1', NULL, 'ship-3', NULL, NULL, 'crates', '[["claimed-0", 1]]', '{"crate_ids":["claimed-0"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1054, 1, 2, 1800043330.0000038, 1800043330.0000038, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7e25f4ffad14477b9dd90977', '2e6644eb5efb6362a3d5de14160c2890', 'lost-machine-1', NULL, 'ship-3', NULL, NULL, 'crates', '[["claimed-1", 1]]', '{"crate_ids":["claimed-1"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1055, 1, 1, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'claimed', 'unloading', 'CratesLanded', '01a1ed3b7e341233145fff571ff28477', '5d13604d684c89afa6f8ed0acd181f6f', 'lost-machine-1', NULL, 'ship-3', NULL, 1800043390.0000038, 'crates', '[["claimed-2", 1]]', '{"crate_ids":["claimed-2"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1057, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'unrouted', '', 'ShipSeen', '01a1ed3b7e8aec264e3cd5df8827c5c2', '01a1ed3b7e8aec264e3cd5df8827c5c2', NULL, NULL, NULL, NULL, NULL, NULL, '[]', '{"name":"Hope"}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1058, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'dead', 'unloading', 'CratesLanded', 'm-1', 'm-1', NULL, 1800043330.0000038, NULL, '6b5e711eac20cc8e', NULL, NULL, '[]', '{}', NULL, NULL, NULL, '{"total": 1, "first": {"at": 1800043330.0000038, "error_type": "Malformed", "message": "CratesLanded fails its schema: crate_ids: Input should be a valid array", "fingerprint": "6b5e711eac20cc8e", "traceback": "Traceback (most recent call last):\n  File \"src/onward/model/events.py\", line 335, in read_event\n    return _read_known_fields(cls, data)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/model/events.py\", line 351, in _read_known_fields\n    return cls.model_validate_json(data)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \".venv/lib/python3.11/site-packages/pydantic/main.py\", line 847, in model_validate_json\n    return cls.__pydantic_validator__.validate_json(\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\npydantic_core._pydantic_core.ValidationError: 1 validation error for CratesLanded\ncrate_ids\n  Input should be a valid array [type=list_type]\n    For further information visit https://errors.pydantic.dev/2.14/v/list_type\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"src/onward/runtime/publisher.py\", line 159, in _read_or_reason\n    return read_foreign_event(kinds, message, now)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/runtime/publisher.py\", line 196, in read_foreign_event\n    data, is_same = _with_unknown_fields(envelope.get(\"data\", {}), storable_data(read_event(kind, data)))\n                                                                                 ^^^^^^^^^^^^^^^^^^^^^^\n  File \"src/onward/model/events.py\", line 341, in read_event\n    raise Malformed(f\"{cls.event_type} fails its schema: {wrong}\") from error\nonward.retry.errors.Malformed: CratesLanded fails its schema: crate_ids: Input should be a valid array\n", "kind": "malformed", "library": "pydantic_core"}, "last": []}', NULL, NULL, 'malformed', '\x7b226576656e745f74797065223a20224372617465734c616e646564222c20226576656e745f6964223a20226d2d31222c202264617461223a207b2263726174655f696473223a20357d7d', NULL);
INSERT INTO onward.ledger VALUES (1059, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', 'f-1', '9bf5e9c9bc92e519017b2f325ae9eed5', NULL, NULL, 'ship-3', NULL, NULL, 'crates', '[["foreign-0", 1]]', '{"crate_ids":["foreign-0"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1060, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7ebfa2005517ed3903d42749', '6437444d0fdc62475b3e21e6705eef9c', NULL, NULL, 'ship-3', NULL, NULL, 'crates', '[["waiting-0", 1]]', '{"crate_ids":["waiting-0"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1061, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7ecadc7fb7cc2ef2d8d794eb', '33b1ca3f03c5a8fb635c252dd1a57eb3', NULL, NULL, 'ship-3', NULL, NULL, 'crates', '[["waiting-1", 1]]', '{"crate_ids":["waiting-1"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1062, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7ede932c33c2eec3b74e9c79', '8bffebfe2e79a2f6039d06bb96604995', NULL, NULL, 'ship-3', NULL, NULL, 'crates', '[["waiting-2", 1]]', '{"crate_ids":["waiting-2"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO onward.ledger VALUES (1063, 1, 0, 1800043330.0000038, 1800043330.0000038, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'waiting', 'unloading', 'CratesLanded', '01a1ed3b7eee8cf2e82b731bbd799cbc', '3a8cd0967f7b1ba10de06b11164ffbb1', NULL, NULL, NULL, NULL, NULL, 'crates', '[["not-landed-yet", 0]]', '{"crate_ids":["not-landed-yet"]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);


--
-- Data for Name: openings; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.openings VALUES ('customs', 1800043260.000001, NULL, 'Unavailable: customs: simulated outage', '');


--
-- Data for Name: operations; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.operations VALUES ('01a1ed3b7df4307d4ea658e80e369aff', 1800043330.0000038, 1800043330.0000038, 1800043360.0000038, 1, 0, 3, 3, 'done', 'Retry', 'RetryDocuments', '{"keys": []}', 'ana', 'cli', '', '3 put back.', '', 'null');
INSERT INTO onward.operations VALUES ('01a1ed3b7dfabc582bc71293728fef89', 1800043330.0000038, NULL, 1800043360.0000038, 1, 0, 0, 0, 'running', 'Discard', 'DiscardDocuments', '{"keys": []}', 'bert', 'console', '', '', '', 'null');


--
-- Data for Name: outbox; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.outbox OVERRIDING SYSTEM VALUE VALUES (1, 1800043330.0000038, 1800043330.0000038, 0, '01a1ed3b7ebfa2005517ed3903d42749', 'crates.landed', '{"event_type":"CratesLanded","event_id":"01a1ed3b7ebfa2005517ed3903d42749","timestamp":"2027-01-15T20:02:10.000004Z","version":"1.0","round":1,"attempt":1,"idempotency_key":"6437444d0fdc62475b3e21e6705eef9c","data":{"crate_ids":["waiting-0"]}}');
INSERT INTO onward.outbox OVERRIDING SYSTEM VALUE VALUES (2, 1800043330.0000038, 1800043330.0000038, 0, '01a1ed3b7ecadc7fb7cc2ef2d8d794eb', 'crates.landed', '{"event_type":"CratesLanded","event_id":"01a1ed3b7ecadc7fb7cc2ef2d8d794eb","timestamp":"2027-01-15T20:02:10.000004Z","version":"1.0","round":1,"attempt":1,"idempotency_key":"33b1ca3f03c5a8fb635c252dd1a57eb3","data":{"crate_ids":["waiting-1"]}}');
INSERT INTO onward.outbox OVERRIDING SYSTEM VALUE VALUES (3, 1800043330.0000038, 1800043330.0000038, 0, '01a1ed3b7ede932c33c2eec3b74e9c79', 'crates.landed', '{"event_type":"CratesLanded","event_id":"01a1ed3b7ede932c33c2eec3b74e9c79","timestamp":"2027-01-15T20:02:10.000004Z","version":"1.0","round":1,"attempt":1,"idempotency_key":"8bffebfe2e79a2f6039d06bb96604995","data":{"crate_ids":["waiting-2"]}}');


--
-- Data for Name: postings; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.postings VALUES (1, 0, 0, 1, '0', '\x00001e39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, '1', '\x01001e39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, ':title:0', '\x00000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, ':title:1', '\x01000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 2, ':title:earli', '\x000001000a0a3939');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, ':title:early0', '\x00000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, ':title:early1', '\x01000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, 'ada', '\x00000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, 'bert', '\x01000a39');
INSERT INTO onward.postings VALUES (1, 0, 0, 2, 'crate', '\x000001000a0a3939');
INSERT INTO onward.postings VALUES (1, 0, 0, 2, 'earli', '\x000001001e1e3939');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, 'early0', '\x00001e39');
INSERT INTO onward.postings VALUES (1, 0, 0, 1, 'early1', '\x01001e39');


--
-- Data for Name: removed_texts; Type: TABLE DATA; Schema: onward; Owner: -
--



--
-- Data for Name: removed_vectors; Type: TABLE DATA; Schema: onward; Owner: -
--



--
-- Data for Name: rollup_parts; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.rollup_parts VALUES (1800043320, 'unloading', 5, 7, 0, 0, 0, 0.1, '[0,0,5]', NULL);


--
-- Data for Name: rollups; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.rollups VALUES (60, 1800000000, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800000000, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800000000, 'unloading', 3, 3, 7, 4, 3, 0, '[10]', 5);
INSERT INTO onward.rollups VALUES (60, 1800000300, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800000300, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800004200, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (600, 1800000000, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800000000, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800000300, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (60, 1800000900, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800000900, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800000000, 'unloading', 3, 3, 13, 8, 5, 0, '[16]', 5);
INSERT INTO onward.rollups VALUES (600, 1800000600, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800000600, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800003600, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (60, 1800000900, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (60, 1800002100, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800002100, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800000600, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (60, 1800043200, 'unloading', 2, 2, 7, 4, 3, 0, '[9]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043200, 'packing', 0, 6, 2, 0, 0, 0, '[1]', 0);
INSERT INTO onward.rollups VALUES (60, 1800002100, 'unloading', 0, 0, 4, 4, 0, 0, '[4]', 2);
INSERT INTO onward.rollups VALUES (60, 1800002160, 'unloading', 0, 0, 2, 0, 2, 0, '[2]', 1);
INSERT INTO onward.rollups VALUES (60, 1800002160, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800002160, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800004560, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800004560, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800001800, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (600, 1800001800, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800001800, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800004200, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (600, 1800004200, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800000000, 'unloading', 3, 3, 25, 16, 9, 0, '[28]', 5);
INSERT INTO onward.rollups VALUES (3600, 1800000000, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800000000, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800003600, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800003600, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800004560, 'unloading', 0, 0, 6, 4, 2, 0, '[6]', 2);
INSERT INTO onward.rollups VALUES (60, 1800043200, 'stamping', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043260, 'unloading', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043260, 'packing', 0, 0, 2, 0, 0, 0, '[1]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043260, 'stamping', 0, 0, 7, 7, 0, 0, '[7]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043320, 'unloading', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043320, 'packing', 0, 0, 0, 0, 0, 0, '[]', 0);
INSERT INTO onward.rollups VALUES (60, 1800043320, 'stamping', 0, 0, 1, 1, 0, 0, '[1]', 8);
INSERT INTO onward.rollups VALUES (600, 1800043200, 'unloading', 2, 2, 7, 4, 3, 0, '[9]', 0);
INSERT INTO onward.rollups VALUES (600, 1800043200, 'packing', 0, 6, 4, 0, 0, 0, '[2]', 0);
INSERT INTO onward.rollups VALUES (600, 1800043200, 'stamping', 0, 0, 8, 8, 0, 0, '[8]', 8);
INSERT INTO onward.rollups VALUES (3600, 1800043200, 'unloading', 2, 2, 7, 4, 3, 0, '[9]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800043200, 'packing', 0, 6, 4, 0, 0, 0, '[2]', 0);
INSERT INTO onward.rollups VALUES (3600, 1800043200, 'stamping', 0, 0, 8, 8, 0, 0, '[8]', 8);


--
-- Data for Name: schema_version; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.schema_version VALUES (11, 11);


--
-- Data for Name: sources; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.sources VALUES ('ship-0', 1);


--
-- Data for Name: status_counts; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.status_counts VALUES ('ship-2', 'parts', 'pending', 36, 2);
INSERT INTO onward.status_counts VALUES ('ship-2', 'parts', 'processed', 36, 6);
INSERT INTO onward.status_counts VALUES ('ship-2', 'crates', 'processed', 36, 2);
INSERT INTO onward.status_counts VALUES ('ship-2', 'crates', 'failed', 36, 1);
INSERT INTO onward.status_counts VALUES ('ship-2', 'crates', 'pending', 36, 2);
INSERT INTO onward.status_counts VALUES ('ship-2', 'slips', 'processed', 36, 9);
INSERT INTO onward.status_counts VALUES ('', 'stamps', 'pending', 36, 8);
INSERT INTO onward.status_counts VALUES ('ship-1', 'crates', 'failed', 36, 1);
INSERT INTO onward.status_counts VALUES ('ship-1', 'crates', 'failed_max_retries', 36, 2);
INSERT INTO onward.status_counts VALUES ('ship-1', 'crates', 'processed', 36, 2);
INSERT INTO onward.status_counts VALUES ('ship-1', 'slips', 'processed', 36, 7);
INSERT INTO onward.status_counts VALUES ('', 'crates', 'discarded', 36, 1);
INSERT INTO onward.status_counts VALUES ('', 'crates', 'pending', 36, 0);
INSERT INTO onward.status_counts VALUES ('ship-3', 'crates', 'pending', 36, 8);


--
-- Data for Name: subscriptions; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.subscriptions VALUES ('packing', 'PartsFound', 'parts', 'part_ids', '["part_ids"]', '[]', 'packing.failed', 1, '[]', 1800043330.0000038);
INSERT INTO onward.subscriptions VALUES ('stamping', 'StampWanted', 'stamps', 'stamp_id', '["stamp_id"]', '["customs"]', 'stamping.failed', 1, '[]', 1800043330.0000038);
INSERT INTO onward.subscriptions VALUES ('unloading', 'CratesLanded', 'crates', 'crate_ids', '["crate_ids"]', '[]', 'unloading.failed', 1, '[]', 1800043330.0000038);


--
-- Data for Name: successes; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.successes VALUES ('packing', '1.0', 36, 6, 1800043200, 1800043200);
INSERT INTO onward.successes VALUES ('packing/slips', '1.0', 36, 6, 1800043200, 1800043200);
INSERT INTO onward.successes VALUES ('unloading', '1.0', 36, 5, 1800000000, 1800043200);
INSERT INTO onward.successes VALUES ('unloading/slips', '1.0', 36, 11, 1800000000, 1800043200);


--
-- Data for Name: text_blocks; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.text_blocks VALUES (1, 0, 2, 2, 21.62921833503199, 1, 0, 1, NULL);


--
-- Data for Name: text_columns; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.text_columns VALUES (1, 0, 'owner', '\x0200000003000000');
INSERT INTO onward.text_columns VALUES (1, 0, 'date', '\x0000000000000000000000000000f03f');
INSERT INTO onward.text_columns VALUES (1, 0, 'live', '\x0101');
INSERT INTO onward.text_columns VALUES (1, 0, 'source', '\x0400000004000000');


--
-- Data for Name: text_labels; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.text_labels OVERRIDING SYSTEM VALUE VALUES (1, 'collection', 'crates');
INSERT INTO onward.text_labels OVERRIDING SYSTEM VALUE VALUES (2, 'owner', 'Ada');
INSERT INTO onward.text_labels OVERRIDING SYSTEM VALUE VALUES (3, 'owner', 'Bert');
INSERT INTO onward.text_labels OVERRIDING SYSTEM VALUE VALUES (4, 'source', 'ship-1');


--
-- Data for Name: text_numbers; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.text_numbers VALUES (1024, 1, 0);
INSERT INTO onward.text_numbers VALUES (1025, 1, 1);


--
-- Data for Name: texts; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.texts VALUES (1024, 'early-0', 'a crate of Ada', '');
INSERT INTO onward.texts VALUES (1025, 'early-1', 'a crate of Bert', '');
INSERT INTO onward.texts VALUES (1038, 'later-0', 'a crate of Ada', '');
INSERT INTO onward.texts VALUES (1039, 'later-1', 'a crate of Bert', '');


--
-- Data for Name: vector_blocks; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.vector_blocks VALUES (1, 0, 2, 1, '\x00040000000000000104000000000000', '\xffffffffffffffff', '\x00000000000000000100000000000000', '\x00380038');


--
-- Data for Name: vector_spaces; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.vector_spaces OVERRIDING SYSTEM VALUE VALUES (1, 'made-up-2', 'crates', 8, 0, '\x0000003f0000803f');


--
-- Data for Name: vectors; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.vectors VALUES (1024, 'made-up-2', '\x000000000000803f');
INSERT INTO onward.vectors VALUES (1025, 'made-up-2', '\x0000803f0000803f');
INSERT INTO onward.vectors VALUES (1038, 'made-up-2', '\x000000000000803f');
INSERT INTO onward.vectors VALUES (1039, 'made-up-2', '\x0000803f0000803f');


--
-- Data for Name: versions; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.versions VALUES ('1.0', 1800000000, 1800043330.0000038);


--
-- Data for Name: waiting_texts; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.waiting_texts VALUES (1038, 'crates', '\x0a300a3a7469746c653a300a3a7469746c653a6c617465720a3a7469746c653a6c61746572300a6164610a63726174650a6c617465720a6c61746572300a', '\x1e0a0a0a0a0a1e1e', 57, 0, '{"owner": "Ada"}');
INSERT INTO onward.waiting_texts VALUES (1039, 'crates', '\x0a310a3a7469746c653a310a3a7469746c653a6c617465720a3a7469746c653a6c61746572310a626572740a63726174650a6c617465720a6c61746572310a', '\x1e0a0a0a0a0a1e1e', 57, 1, '{"owner": "Bert"}');


--
-- Data for Name: waiting_vectors; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.waiting_vectors VALUES (1038, 'made-up-2');
INSERT INTO onward.waiting_vectors VALUES (1039, 'made-up-2');


--
-- Data for Name: workers; Type: TABLE DATA; Schema: onward; Owner: -
--

INSERT INTO onward.workers VALUES ('lost-machine-1', '{"worker": "lost-machine-1", "host": "lost", "pid": 1, "version": "1.0"}', 1800043330.0000038);


--
-- Name: actions_id_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.actions_id_seq', 1, true);


--
-- Name: blobs_id_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.blobs_id_seq', 1, true);


--
-- Name: documents_blocks; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.documents_blocks', 1, true);


--
-- Name: group_rules_id_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.group_rules_id_seq', 1, true);


--
-- Name: ledger_blocks; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.ledger_blocks', 1, true);


--
-- Name: outbox_id_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.outbox_id_seq', 3, true);


--
-- Name: text_labels_label_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.text_labels_label_seq', 4, true);


--
-- Name: vector_spaces_space_seq; Type: SEQUENCE SET; Schema: onward; Owner: -
--

SELECT pg_catalog.setval('onward.vector_spaces_space_seq', 1, true);


--
-- Name: actions actions_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.actions
    ADD CONSTRAINT actions_pkey PRIMARY KEY (id);


--
-- Name: blob_parts blob_parts_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.blob_parts
    ADD CONSTRAINT blob_parts_pkey PRIMARY KEY (blob, part);


--
-- Name: blobs blobs_digest_key; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.blobs
    ADD CONSTRAINT blobs_digest_key UNIQUE (digest);


--
-- Name: blobs blobs_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (id);


--
-- Name: bodies bodies_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.bodies
    ADD CONSTRAINT bodies_pkey PRIMARY KEY (doc);


--
-- Name: breakers breakers_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.breakers
    ADD CONSTRAINT breakers_pkey PRIMARY KEY (dependency);


--
-- Name: counters counters_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name, label);


--
-- Name: documents documents_collection_id_key; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.documents
    ADD CONSTRAINT documents_collection_id_key UNIQUE (collection, id);


--
-- Name: documents documents_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (doc);


--
-- Name: failed_batches failed_batches_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.failed_batches
    ADD CONSTRAINT failed_batches_pkey PRIMARY KEY (id);


--
-- Name: failure_groups failure_groups_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.failure_groups
    ADD CONSTRAINT failure_groups_pkey PRIMARY KEY (fingerprint);


--
-- Name: foreign_events foreign_events_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.foreign_events
    ADD CONSTRAINT foreign_events_pkey PRIMARY KEY (event_id);


--
-- Name: gateway gateway_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.gateway
    ADD CONSTRAINT gateway_pkey PRIMARY KEY (one);


--
-- Name: group_rules group_rules_grouped_split_by_value_key; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.group_rules
    ADD CONSTRAINT group_rules_grouped_split_by_value_key UNIQUE (grouped, split_by, value);


--
-- Name: group_rules group_rules_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.group_rules
    ADD CONSTRAINT group_rules_pkey PRIMARY KEY (id);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (doc, name, value);


--
-- Name: leaders leaders_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.leaders
    ADD CONSTRAINT leaders_pkey PRIMARY KEY (role);


--
-- Name: ledger ledger_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (id);


--
-- Name: operations operations_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (id);


--
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);


--
-- Name: removed_texts removed_texts_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.removed_texts
    ADD CONSTRAINT removed_texts_pkey PRIMARY KEY (space, number);


--
-- Name: removed_vectors removed_vectors_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.removed_vectors
    ADD CONSTRAINT removed_vectors_pkey PRIMARY KEY (doc, model);


--
-- Name: rollups rollups_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (step, bucket, service);


--
-- Name: sources sources_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.sources
    ADD CONSTRAINT sources_pkey PRIMARY KEY (source);


--
-- Name: status_counts status_counts_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.status_counts
    ADD CONSTRAINT status_counts_pkey PRIMARY KEY (source, collection, status, shard);


--
-- Name: subscriptions subscriptions_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (service);


--
-- Name: successes successes_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.successes
    ADD CONSTRAINT successes_pkey PRIMARY KEY (service, version, shard);


--
-- Name: text_blocks text_blocks_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.text_blocks
    ADD CONSTRAINT text_blocks_pkey PRIMARY KEY (space, block);


--
-- Name: text_columns text_columns_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.text_columns
    ADD CONSTRAINT text_columns_pkey PRIMARY KEY (space, block, name);


--
-- Name: text_labels text_labels_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.text_labels
    ADD CONSTRAINT text_labels_pkey PRIMARY KEY (label);


--
-- Name: text_numbers text_numbers_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.text_numbers
    ADD CONSTRAINT text_numbers_pkey PRIMARY KEY (doc);


--
-- Name: texts texts_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.texts
    ADD CONSTRAINT texts_pkey PRIMARY KEY (doc);


--
-- Name: vector_blocks vector_blocks_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.vector_blocks
    ADD CONSTRAINT vector_blocks_pkey PRIMARY KEY (space, block);


--
-- Name: vector_spaces vector_spaces_model_collection_bytes_texts_key; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.vector_spaces
    ADD CONSTRAINT vector_spaces_model_collection_bytes_texts_key UNIQUE (model, collection, bytes, texts);


--
-- Name: vector_spaces vector_spaces_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.vector_spaces
    ADD CONSTRAINT vector_spaces_pkey PRIMARY KEY (space);


--
-- Name: vectors vectors_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.vectors
    ADD CONSTRAINT vectors_pkey PRIMARY KEY (doc, model);


--
-- Name: versions versions_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (version);


--
-- Name: waiting_texts waiting_texts_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.waiting_texts
    ADD CONSTRAINT waiting_texts_pkey PRIMARY KEY (doc);


--
-- Name: waiting_vectors waiting_vectors_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.waiting_vectors
    ADD CONSTRAINT waiting_vectors_pkey PRIMARY KEY (doc, model);


--
-- Name: workers workers_pkey; Type: CONSTRAINT; Schema: onward; Owner: -
--

ALTER TABLE ONLY onward.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker);


--
-- Name: actions_at; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX actions_at ON onward.actions USING btree (at, id);


--
-- Name: blobs_unnamed; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX blobs_unnamed ON onward.blobs USING btree (id) WHERE (digest IS NULL);


--
-- Name: documents_batch; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_batch ON onward.documents USING btree (failed_batch, doc) WHERE (failed_batch IS NOT NULL);


--
-- Name: documents_changed; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_changed ON onward.documents USING btree (collection, status, COALESCE(updated_at, (0)::double precision), doc);


--
-- Name: documents_check; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_check ON onward.documents USING btree (check_at, collection, attempt_count) WHERE ((status <> ALL (ARRAY['processed'::text, 'failed'::text, 'failed_max_retries'::text, 'discarded'::text])) AND ("row" IS NULL) AND (failed_batch IS NULL));


--
-- Name: documents_fingerprint; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_fingerprint ON onward.documents USING btree (fingerprint, collection, id) WHERE (fingerprint IS NOT NULL);


--
-- Name: documents_given_up; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_given_up ON onward.documents USING btree (collection, status, id) WHERE (status = ANY (ARRAY['failed'::text, 'failed_max_retries'::text, 'discarded'::text]));


--
-- Name: documents_parent; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_parent ON onward.documents USING btree (parent) WHERE (parent IS NOT NULL);


--
-- Name: documents_scheduled; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_scheduled ON onward.documents USING btree (retry_at) WHERE (retry_at IS NOT NULL);


--
-- Name: documents_source; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_source ON onward.documents USING btree (source) WHERE (source IS NOT NULL);


--
-- Name: documents_unfinished; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX documents_unfinished ON onward.documents USING btree (collection, id) WHERE ((status <> ALL (ARRAY['processed'::text, 'failed'::text, 'failed_max_retries'::text, 'discarded'::text])) AND (doc > 0));


--
-- Name: failed_batches_due; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX failed_batches_due ON onward.failed_batches USING btree (retry_after);


--
-- Name: failure_groups_seen; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX failure_groups_seen ON onward.failure_groups USING btree (last_seen);


--
-- Name: foreign_events_at; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX foreign_events_at ON onward.foreign_events USING btree (at);


--
-- Name: keys_title; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX keys_title ON onward.keys USING btree (((value #>> '{}'::text[])) COLLATE "C", doc) WHERE (name = 'title'::text);


--
-- Name: keys_value; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX keys_value ON onward.keys USING btree (name, value, doc);


--
-- Name: ledger_archived; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_archived ON onward.ledger USING btree (id) WHERE (state = 'archived'::text);


--
-- Name: ledger_claimed; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_claimed ON onward.ledger USING btree (worker) WHERE (state = 'claimed'::text);


--
-- Name: ledger_dead; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_dead ON onward.ledger USING btree (id) WHERE (state = 'dead'::text);


--
-- Name: ledger_dead_group; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_dead_group ON onward.ledger USING btree (fingerprint, id) WHERE (state = 'dead'::text);


--
-- Name: ledger_dead_queue; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_dead_queue ON onward.ledger USING btree (service, fingerprint, settled_at, id) WHERE (state = 'dead'::text);


--
-- Name: ledger_dead_service; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_dead_service ON onward.ledger USING btree (service, id) WHERE (state = 'dead'::text);


--
-- Name: ledger_done; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_done ON onward.completed USING btree (settled_at);


--
-- Name: ledger_due; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_due ON onward.ledger USING btree (service, priority, due, id) WHERE ((state = 'waiting'::text) AND (deaths < 2));


--
-- Name: ledger_event; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_event ON onward.ledger USING btree (event_id) WHERE (state = 'dead'::text);


--
-- Name: ledger_key; Type: INDEX; Schema: onward; Owner: -
--

CREATE UNIQUE INDEX ledger_key ON onward.ledger USING btree (key, service) WHERE (state = 'waiting'::text);


--
-- Name: ledger_source; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_source ON onward.ledger USING btree (source) WHERE (source IS NOT NULL);


--
-- Name: ledger_suspect; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_suspect ON onward.ledger USING btree (service, due, id) WHERE ((state = 'waiting'::text) AND (deaths >= 2));


--
-- Name: ledger_unrouted; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_unrouted ON onward.ledger USING btree (event_type) WHERE (state = 'unrouted'::text);


--
-- Name: ledger_unrouted_due; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX ledger_unrouted_due ON onward.ledger USING btree (due) WHERE (state = 'unrouted'::text);


--
-- Name: openings_opened; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX openings_opened ON onward.openings USING btree (dependency, opened_at);


--
-- Name: operations_began; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX operations_began ON onward.operations USING btree (began_at, id);


--
-- Name: outbox_due; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX outbox_due ON onward.outbox USING btree (due) WHERE (due IS NOT NULL);


--
-- Name: outbox_oldest; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX outbox_oldest ON onward.outbox USING btree (at) WHERE (due IS NOT NULL);


--
-- Name: outbox_unroutable; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX outbox_unroutable ON onward.outbox USING btree (routing_key, id) WHERE (due IS NULL);


--
-- Name: postings_term; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX postings_term ON onward.postings USING btree (space, block, term, part) INCLUDE (texts);


--
-- Name: rollup_parts_bucket; Type: INDEX; Schema: onward; Owner: -
--

CREATE INDEX rollup_parts_bucket ON onward.rollup_parts USING btree (bucket);


--
-- Name: text_labels_value; Type: INDEX; Schema: onward; Owner: -
--

CREATE UNIQUE INDEX text_labels_value ON onward.text_labels USING btree (name, md5(value));


--
-- Name: text_numbers_number; Type: INDEX; Schema: onward; Owner: -
--

CREATE UNIQUE INDEX text_numbers_number ON onward.text_numbers USING btree (space, number);


--
-- PostgreSQL database dump complete
--


