-- Locks of aiolock, format 1. Run it as the owner of the locks. Then, for each role that uses locks:
--   GRANT USAGE ON SCHEMA aiolock TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aiolock TO app;
-- and for each that looks at them: GRANT USAGE ON SCHEMA aiolock TO ops; GRANT SELECT ON ALL TABLES IN SCHEMA aiolock TO ops;
-- What a release has keeps its name and its arguments, as older processes call it. What must be another has the next number.
CREATE SCHEMA IF NOT EXISTS aiolock;
-- Half of each page stays free, and nothing but the key is indexed: so updates are HOT, and leave little to VACUUM.
CREATE TABLE IF NOT EXISTS aiolock.rows(
  key text COLLATE "C" PRIMARY KEY, kind text NOT NULL CHECK (kind IN ('string', 'hash', 'zset')), value json NOT NULL,
  expires_us bigint, version bigint NOT NULL CHECK (version > 0)) -- 0 means that there is none
  WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- For whom a name is kept for a moment, as it came too late before, and how many came meanwhile. If this is lost, nothing is.
CREATE UNLOGGED TABLE IF NOT EXISTS aiolock.turns(tag bigint PRIMARY KEY, manager bigint NOT NULL, until_us bigint NOT NULL,
  crowd int NOT NULL DEFAULT 0, firm boolean NOT NULL DEFAULT false)
  WITH (fillfactor = 50);
CREATE OR REPLACE VIEW aiolock.locks AS
  SELECT substring(key from '\{(.*)\}$') AS name, lock->>'owner' AS owner, lock->>'fence' AS fence,
    to_timestamp(CASE WHEN lock->>'expires' ~ '^[0-9]{1,15}$' THEN (lock->>'expires')::numeric / 1000 END) AS expires,
    lock->>'process' AS process
  FROM aiolock.rows, -- text has no NUL: one in the metadata of a lock would hide all locks
    LATERAL (SELECT regexp_replace(value::text, '(?<!\\)((\\\\)*)\\u0000', '\1%00', 'g')::json AS lock OFFSET 0) AS readable
  WHERE kind = 'hash' AND key ~ '^[^:]*:lock:\{.*\}$' AND lock->>'owner' IS NOT NULL
    AND expires_us > extract(epoch FROM clock_timestamp()) * 1000000;

-- Carries out what was decided at the time `used`, group by group, if its rows are as they were then. Returns lists: first the
-- time, as [-1, …, now], then each group that was not carried out: with its rows and the channels of which it was told wrong;
-- or, if a name of it is kept for another manager, with its place among those that came meanwhile.
--   used, lag: microseconds: the decision's time, and by how much it may be late.
--   ver, who: the version of what is written; the manager.
--   tags: [[number of a name, group], …], ascending; NULL to look whether the server can be used.
--   kept: [[key, version or 0, group], …]: what was read; without a version: what may be another.
--   written: [[key, kind, value, expires, group], …], or NULL.
--   more: {"gone": [[key, group], …]: what is deleted,
--     "late": groups that keep their names for a moment if they come too late again, as '0,2', "keep": for how long,
--     "firm": those of them that keep them from the urgent ones, too,
--     "urgent": groups from which no name is kept, as others wait for them, as '1',
--     "lazy": 1 if a crash may forget what is done: nobody waits for the disk; whatever is committed later brings it there,
--     "tell": [[group, channel, payload], …], "ears": [[group, number, shared, heard], …]}, or NULL; without what is empty.
CREATE OR REPLACE FUNCTION aiolock.exchange_1(used bigint, lag bigint, ver bigint, who bigint, tags jsonb, kept jsonb,
  written jsonb, more jsonb) RETURNS json
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE one jsonb; now_us bigint; stale int[]; barred int[] := '{}'; crowds json; misheard jsonb[]; deaf boolean; turns boolean;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'aiolock needs READ COMMITTED, not %', current_setting('transaction_isolation');
  END IF;
  PERFORM pg_advisory_xact_lock((x->>0)::bigint) FROM jsonb_array_elements(tags) AS x;
  now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  IF used > now_us OR used < now_us - lag THEN
    SELECT coalesce(array_agg((x->>1)::int), '{}') INTO stale FROM jsonb_array_elements(tags) AS x;
  ELSE
    SELECT coalesce(array_agg((x->>2)::int), '{}') INTO stale FROM jsonb_array_elements(kept) AS x
      LEFT JOIN aiolock.rows r ON r.key = x->>0 WHERE coalesce(r.version, 0) <> (x->>1)::bigint;
  END IF;
  turns := EXISTS (SELECT FROM aiolock.turns);
  IF turns THEN -- one that is far ahead was written by a clock that was set back since
    SELECT coalesce(array_agg(y.g), '{}'), json_agg(json_build_array(y.g, y.place)) INTO barred, crowds
      FROM (SELECT (x->>1)::int AS g, max(o.crowd) + 1 AS place FROM jsonb_array_elements(tags) AS x
        JOIN aiolock.turns o ON o.tag = (x->>0)::bigint
        WHERE o.manager <> who AND o.until_us > now_us AND o.until_us < now_us + 1000000
          AND (o.firm OR x->>1 <> ALL(coalesce(string_to_array(more->>'urgent', ','), '{}'))) GROUP BY 1) AS y;
    IF cardinality(barred) > 0 THEN
      UPDATE aiolock.turns o SET crowd = o.crowd + 1 FROM jsonb_array_elements(tags) AS x
        WHERE o.tag = (x->>0)::bigint AND (x->>1)::int = ANY(barred)
          AND o.manager <> who AND o.until_us > now_us AND o.until_us < now_us + 1000000;
    END IF;
    stale := stale || barred;
  END IF;
  IF more->'ears' IS NOT NULL THEN -- who listens holds a lock of its session: so it is gone with that
    FOR one IN SELECT * FROM jsonb_array_elements(more->'ears') LOOP
      IF (one->>2)::boolean THEN deaf := pg_try_advisory_xact_lock((one->>1)::bigint);
      ELSE deaf := pg_try_advisory_xact_lock_shared((one->>1)::bigint); END IF;
      IF deaf = (one->>3)::boolean THEN
        stale := stale || (one->>0)::int;
        misheard := misheard || one;
      END IF;
    END LOOP;
  END IF;
  IF more->'lazy' IS NOT NULL THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  IF more->'gone' IS NOT NULL THEN
    DELETE FROM aiolock.rows r USING jsonb_array_elements(more->'gone') AS x WHERE r.key = x->>0 AND (x->>1)::int <> ALL(stale);
  END IF;
  IF written IS NOT NULL THEN
    INSERT INTO aiolock.rows AS r SELECT x->>0, x->>1, (x->>2)::json, (x->>3)::bigint, ver
      FROM jsonb_array_elements(written) AS x WHERE (x->>4)::int <> ALL(stale)
      ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, value = excluded.value, expires_us = excluded.expires_us,
        version = excluded.version;
  END IF;
  IF more->'tell' IS NOT NULL THEN
    PERFORM pg_notify(m->>1, m->>2) FROM jsonb_array_elements(more->'tell') AS m WHERE (m->>0)::int <> ALL(stale);
  END IF;
  IF turns THEN
    DELETE FROM aiolock.turns o USING jsonb_array_elements(tags) AS x
      WHERE o.tag = (x->>0)::bigint AND o.manager = who AND (x->>1)::int <> ALL(stale);
  END IF;
  IF cardinality(stale) = 0 THEN
    RETURN json_build_array(json_build_array(-1, NULL, NULL, NULL, NULL, now_us));
  END IF;
  IF more->'late' IS NOT NULL THEN -- all names of a group or none: two that each keep a part would wait for each other
    INSERT INTO aiolock.turns AS o SELECT DISTINCT (x->>0)::bigint, who, now_us + (more->>'keep')::bigint, 0,
        x->>1 = ANY(coalesce(string_to_array(more->>'firm', ','), '{}'))
      FROM jsonb_array_elements(tags) AS x WHERE (x->>1)::int = ANY(stale) AND (x->>1)::int <> ALL(barred)
        AND x->>1 = ANY(string_to_array(more->>'late', ','))
      ON CONFLICT (tag) DO UPDATE SET manager = excluded.manager, until_us = excluded.until_us, crowd = 0,
        firm = excluded.firm
      WHERE o.manager = who OR o.until_us <= now_us OR o.until_us >= now_us + 1000000 OR excluded.firm AND NOT o.firm;
  END IF;
  RETURN (SELECT json_agg(json_build_array(a.g, a.k, a.t, a.v, a.e, a.n))
    FROM (SELECT -1 AS g, NULL::text AS k, NULL::text AS t, NULL::text AS v, NULL::bigint AS e, now_us AS n
      UNION ALL SELECT (x->>0)::int, x->>1, '!', NULL, NULL, NULL FROM unnest(misheard) AS x
      UNION ALL SELECT (x->>0)::int, NULL, '~', NULL, NULL, (x->>1)::bigint FROM json_array_elements(crowds) AS x
      UNION ALL SELECT DISTINCT x, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint FROM unnest(stale) AS x
      UNION ALL SELECT (x->>2)::int, x->>0, r.kind, r.value::text, r.expires_us, r.version
        FROM jsonb_array_elements(kept) AS x JOIN aiolock.rows r ON r.key = x->>0
        WHERE (x->>2)::int = ANY(stale) AND (x->>2)::int <> ALL(barred)) AS a);
END $$;

-- Forgets what has expired, one session at a time. In a large table it looks at some 20,000 rows, at random: so no more than a
-- tenth of it is such rows, if each manager calls this whenever it has written 2,000.
CREATE OR REPLACE FUNCTION aiolock.sweep_1() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now_us bigint; part real; found bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7540368307163768548) THEN RETURN 0; END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  part := (SELECT least(100, 2000000 / greatest(reltuples, 1)) FROM pg_class WHERE oid = 'aiolock.rows'::regclass);
  DELETE FROM aiolock.rows WHERE ctid = ANY(ARRAY(SELECT ctid FROM aiolock.rows TABLESAMPLE SYSTEM (part)
    WHERE expires_us < now_us - 5000000 LIMIT 10000 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS found = ROW_COUNT;
  DELETE FROM aiolock.turns WHERE tag IN (SELECT tag FROM aiolock.turns WHERE until_us < now_us - 1000000
    FOR UPDATE SKIP LOCKED);
  RETURN found;
END $$;

-- For how many ms somebody holds a lock by a lease, as lock/state.lua says it; 0 if nobody does, -2 if it cannot be read.
CREATE OR REPLACE FUNCTION aiolock.left_1(lock text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now_us bigint; ends bigint; own text;
BEGIN
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, r.expires_us,
    CASE WHEN r.value->>'owner' IS NULL THEN '' WHEN r.value->>'expires' ~ '^[0-9]{1,16}$' THEN r.value->>'expires' END
    INTO now_us, ends, own
    FROM (SELECT expires_us, regexp_replace(value::text, '(?<!\\)((\\\\)*)\\u0000', '\1%00', 'g')::json AS value -- as above
      FROM aiolock.rows WHERE key = lock) AS r;
  IF NOT FOUND OR own = '' THEN RETURN 0; ELSIF own IS NULL THEN RETURN -2; END IF;
  RETURN greatest(0, own::bigint - now_us / 1000, (ends - now_us - 86400000000 + 999) / 1000); -- NULL does not count
END $$;

-- Takes a lock for the rest of the transaction of whoever calls it. What takes it beside that, and other transactions, tries
-- or has the lock `number`: so whoever gets that sees in the row who has got the lock before.
--   wait: milliseconds to wait for another transaction; NULL for as long as it takes.
-- Returns 0 if it is taken; for how many ms somebody else has it, or 1 if a transaction has; -1: the isolation level is
-- another than READ COMMITTED, where the row would be an old one; -2: the row cannot be read. Then nothing was taken.
CREATE OR REPLACE FUNCTION aiolock.hold_1(lock text, number bigint, wait bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE ms bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN RETURN -1; END IF;
  ms := aiolock.left_1(lock);
  IF ms <> 0 THEN RETURN ms; END IF;
  BEGIN -- what is locked here is unlocked if this ends with an error
    IF wait = 0 THEN
      IF NOT pg_try_advisory_xact_lock(number) THEN RETURN 1; END IF;
    ELSE
      PERFORM set_config('lock_timeout', coalesce(wait, 0)::text, true);
      PERFORM pg_advisory_xact_lock(number);
    END IF;
    ms := aiolock.left_1(lock);
    IF ms <> 0 THEN RAISE EXCEPTION 'somebody was faster'; END IF;
    RETURN 0;
  EXCEPTION
    WHEN lock_not_available THEN RETURN 1;
    WHEN raise_exception THEN RETURN ms;
  END;
END $$;
REVOKE ALL ON FUNCTION aiolock.exchange_1, aiolock.sweep_1, aiolock.left_1, aiolock.hold_1 FROM public;
