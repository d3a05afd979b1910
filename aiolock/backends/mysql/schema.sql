-- Locks of aiolock, format 1, for MariaDB 10.6 and MySQL 8.0.29 or newer. Run it in the database of the locks, as its owner:
-- the procedures act with the rights of whoever has run it. Then, for each user who uses locks in a database `app`:
--   GRANT EXECUTE ON app.* TO user; and for each that looks at them: GRANT SELECT ON app.* TO user;
DELIMITER $$
SET SESSION sql_notes = 0, -- the procedures keep the mode: nothing is cut off; MySQL wants all of it together
  sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'
$$
CREATE TABLE IF NOT EXISTS aiolock_rows(
  k VARBINARY(3072) NOT NULL PRIMARY KEY,
  kind VARCHAR(8) CHARACTER SET ascii NOT NULL CHECK (kind IN ('string', 'hash', 'zset')),
  value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, expires_us BIGINT,
  version BIGINT NOT NULL CHECK (version > 0)) -- 0 means that there is none
  ENGINE = InnoDB ROW_FORMAT = DYNAMIC
$$
-- What names are divided into: those of one gate are decided one after the other. It also says for whom a name is kept for a
-- moment, as it came too late before, and how many came meanwhile.
CREATE TABLE IF NOT EXISTS aiolock_gates(gate INT NOT NULL PRIMARY KEY, tag BIGINT NOT NULL DEFAULT 0,
  manager BIGINT NOT NULL DEFAULT 0, until_us BIGINT NOT NULL DEFAULT 0, crowd INT NOT NULL DEFAULT 0,
  firm BOOL NOT NULL DEFAULT FALSE) ENGINE = InnoDB
$$
INSERT IGNORE INTO aiolock_gates(gate) SELECT a.n + 10 * b.n + 100 * c.n FROM
  JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS(n INT PATH '$')) AS a,
  JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS(n INT PATH '$')) AS b,
  JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS(n INT PATH '$')) AS c
  WHERE NOT EXISTS (SELECT 1 FROM aiolock_gates g WHERE g.gate = a.n + 10 * b.n + 100 * c.n) -- or there are 1,000 warnings
$$
-- Who listens to what. It counts as long as a session holds the lock 'aiolock ear …'.
CREATE TABLE IF NOT EXISTS aiolock_ears(channel CHAR(50) CHARACTER SET ascii NOT NULL,
  ear CHAR(32) CHARACTER SET ascii NOT NULL, PRIMARY KEY(channel, ear), KEY(ear)) ENGINE = InnoDB
$$
CREATE TABLE IF NOT EXISTS aiolock_messages(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  ear CHAR(32) CHARACTER SET ascii NOT NULL, channel CHAR(50) CHARACTER SET ascii NOT NULL,
  message LONGTEXT CHARACTER SET utf8mb4 NOT NULL, KEY ear(ear)) ENGINE = InnoDB
$$
CREATE OR REPLACE VIEW aiolock_locks AS SELECT SUBSTRING(k, LOCATE('{', k) + 1, CHAR_LENGTH(k) - LOCATE('{', k) - 1) AS name,
    owner, fence, FROM_UNIXTIME(CASE WHEN expires REGEXP '^[0-9]{1,13}$' THEN expires / 1000 END) AS expires, process
  FROM (SELECT CONVERT(k USING utf8mb4) AS k, JSON_UNQUOTE(JSON_EXTRACT(lock_, '$.owner')) AS owner,
      JSON_UNQUOTE(JSON_EXTRACT(lock_, '$.fence')) AS fence, JSON_UNQUOTE(JSON_EXTRACT(lock_, '$.expires')) AS expires,
      JSON_UNQUOTE(JSON_EXTRACT(lock_, '$.process')) AS process
    FROM (SELECT k, CASE WHEN JSON_VALID(value) THEN value END AS lock_ FROM aiolock_rows WHERE kind = 'hash' AND
      k LIKE '%:lock:{%}' AND expires_us > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AS r) AS s
  WHERE owner IS NOT NULL AND k NOT LIKE '%:%:lock:{%'
$$
-- Carries out what was decided at the time `used`, group by group, if its rows are as they were then. Returns first the time, as
-- (-1, …, now), then each group that was not carried out: with its rows and the channels of which it was told wrong; or, if a
-- name of it is kept for another manager, with its place among those that came meanwhile.
--   used, behind: microseconds: the decision's time, and by how much it may be late.
--   ver, who: the version of what is written; the manager.
--   tags: [[gate, number of a name, group], …], gates ascending; NULL to look whether the server can be used.
--   kept: [[key, version or 0, group], …]: what was read; without a version: what may be another.
--   written: [[key, kind, value, expires, group], …], or NULL.
--   more: {"gone": [[key, group], …]: what is deleted,
--     "late": groups that keep their names for a moment if they come too late again, as '0,2', "keep": for how long,
--     "firm": those of them that keep them from the urgent ones, too,
--     "urgent": groups from which no name is kept, as others wait for them, as '1',
--     "tell": [[group, channel, message], …], "ears": [[group, channel, heard], …]}, or NULL; without what is empty: each
--     JSON_TABLE takes as long as all that it is for.
CREATE PROCEDURE IF NOT EXISTS aiolock_exchange_1(IN used BIGINT, IN behind BIGINT, IN ver BIGINT, IN who BIGINT,
  IN tags LONGTEXT CHARACTER SET utf8mb4, IN kept LONGTEXT CHARACTER SET utf8mb4,
  IN written LONGTEXT CHARACTER SET utf8mb4, IN more LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE now_us, target BIGINT;
  DECLARE gates, turns INT DEFAULT 0;
  DECLARE stale, barred, misheard, rings, late, firms LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE crowds LONGTEXT CHARACTER SET ascii;
  SET SESSION group_concat_max_len = 1048576; -- no list is cut off
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED; -- refused in a transaction of another
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF @@GLOBAL.read_only NOT IN ('0', 'OFF') THEN -- those with all rights may write nevertheless
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
    END IF;
    START TRANSACTION READ WRITE;
    IF tags IS NOT NULL THEN
      SELECT COUNT(*), COUNT(NULLIF(a.manager, 0)) INTO gates, turns
        FROM (SELECT x.b FROM JSON_TABLE(tags, '$[*]' COLUMNS(b INT PATH '$[0]')) AS x) AS y -- MySQL locks no JSON_TABLE
        STRAIGHT_JOIN aiolock_gates a ON a.gate = y.b FOR UPDATE;
      IF gates <> JSON_LENGTH(tags) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'aiolock_gates lacks rows: run schema.sql again';
      END IF;
    END IF;
    SET now_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF used > now_us OR used < now_us - behind THEN
      SELECT COALESCE(GROUP_CONCAT(DISTINCT x.g), '') INTO stale FROM JSON_TABLE(tags, '$[*]' COLUMNS(g INT PATH '$[2]')) AS x;
    ELSEIF kept IS NOT NULL THEN
      SELECT COALESCE(GROUP_CONCAT(DISTINCT x.g), '') INTO stale
        FROM JSON_TABLE(kept, '$[*]' COLUMNS(k VARCHAR(3072) CHARACTER SET utf8mb4 PATH '$[0]', v BIGINT PATH '$[1]', g INT PATH '$[2]'))
        AS x LEFT JOIN aiolock_rows r ON r.k = CONVERT(x.k USING binary) WHERE COALESCE(r.version, 0) <> x.v;
    END IF;
    IF turns > 0 THEN -- a turn that is far ahead was written by a clock that was set back since
      SELECT COALESCE(GROUP_CONCAT(y.g), ''), CONCAT('[', GROUP_CONCAT(CONCAT('[', y.g, ',', y.place, ']')), ']') INTO barred, crowds
        FROM (SELECT x.g, MAX(a.crowd) + 1 AS place
          FROM JSON_TABLE(tags, '$[*]' COLUMNS(b INT PATH '$[0]', t BIGINT PATH '$[1]', g INT PATH '$[2]')) AS x
          JOIN aiolock_gates a ON a.gate = x.b AND a.tag = x.t
          WHERE a.manager NOT IN (0, who) AND a.until_us > now_us AND a.until_us < now_us + 1000000
            AND (a.firm OR NOT FIND_IN_SET(x.g, COALESCE(JSON_UNQUOTE(JSON_EXTRACT(more, '$.urgent')), ''))) GROUP BY x.g) AS y;
      IF barred <> '' THEN
        UPDATE JSON_TABLE(tags, '$[*]' COLUMNS(b INT PATH '$[0]', t BIGINT PATH '$[1]', g INT PATH '$[2]')) AS x
          STRAIGHT_JOIN aiolock_gates a ON a.gate = x.b AND a.tag = x.t SET a.crowd = a.crowd + 1
          WHERE FIND_IN_SET(x.g, barred) AND a.manager NOT IN (0, who) AND a.until_us > now_us AND a.until_us < now_us + 1000000;
      END IF;
      SET stale = CONCAT_WS(',', NULLIF(stale, ''), NULLIF(barred, ''));
    END IF;
    IF JSON_CONTAINS_PATH(more, 'one', '$.ears') THEN -- who listens holds a lock of its session: so it is gone with that
      SELECT COALESCE(GROUP_CONCAT(y.i), ''), CONCAT_WS(',', NULLIF(stale, ''), GROUP_CONCAT(y.g)) INTO misheard, stale FROM (
        SELECT x.i, x.g, x.heard, EXISTS(SELECT 1 FROM aiolock_ears l
          WHERE l.channel = x.c AND IS_USED_LOCK(CONCAT('aiolock ear ', l.ear)) IS NOT NULL) AS hears
        FROM JSON_TABLE(more, '$.ears[*]' COLUMNS(i FOR ORDINALITY, g INT PATH '$[0]', c CHAR(50) CHARACTER SET ascii PATH '$[1]',
          heard INT PATH '$[2]')) AS x) AS y WHERE y.hears <> y.heard;
    END IF;
    IF JSON_CONTAINS_PATH(more, 'one', '$.gone') THEN
      DELETE r FROM JSON_TABLE(more, '$.gone[*]' COLUMNS(k VARCHAR(3072) CHARACTER SET utf8mb4 PATH '$[0]', g INT PATH '$[1]')) AS x
        STRAIGHT_JOIN aiolock_rows r ON r.k = CONVERT(x.k USING binary) WHERE NOT FIND_IN_SET(x.g, stale);
    END IF;
    IF written IS NOT NULL THEN
      INSERT INTO aiolock_rows(k, kind, value, expires_us, version) SELECT CONVERT(x.k USING binary), x.c, x.v, x.e, ver
        FROM JSON_TABLE(written, '$[*]' COLUMNS(k VARCHAR(3072) CHARACTER SET utf8mb4 PATH '$[0]',
          c VARCHAR(8) CHARACTER SET ascii PATH '$[1]', v LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', e BIGINT PATH '$[3]',
          g INT PATH '$[4]')) AS x WHERE NOT FIND_IN_SET(x.g, stale)
        ON DUPLICATE KEY UPDATE kind = x.c, value = x.v, expires_us = x.e, version = ver;
    END IF;
    IF JSON_CONTAINS_PATH(more, 'one', '$.tell') THEN
      SELECT COALESCE(GROUP_CONCAT(DISTINCT IS_USED_LOCK(CONCAT('aiolock ear ', l.ear))), '') INTO rings
        FROM JSON_TABLE(more, '$.tell[*]' COLUMNS(g INT PATH '$[0]', c CHAR(50) CHARACTER SET ascii PATH '$[1]')) AS x
        JOIN aiolock_ears l ON l.channel = x.c WHERE NOT FIND_IN_SET(x.g, stale);
      IF rings <> '' THEN
        INSERT INTO aiolock_messages(ear, channel, message) SELECT l.ear, x.c, x.m
          FROM JSON_TABLE(more, '$.tell[*]' COLUMNS(i FOR ORDINALITY, g INT PATH '$[0]', c CHAR(50) CHARACTER SET ascii PATH '$[1]',
            m LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]')) AS x JOIN aiolock_ears l ON l.channel = x.c
          WHERE NOT FIND_IN_SET(x.g, stale) AND FIND_IN_SET(IS_USED_LOCK(CONCAT('aiolock ear ', l.ear)), rings) ORDER BY x.i;
      END IF;
    END IF;
    IF turns > 0 THEN
      UPDATE JSON_TABLE(tags, '$[*]' COLUMNS(b INT PATH '$[0]', t BIGINT PATH '$[1]', g INT PATH '$[2]')) AS x
        STRAIGHT_JOIN aiolock_gates a ON a.gate = x.b AND a.tag = x.t SET a.tag = 0, a.manager = 0, a.until_us = 0, a.firm = FALSE
        WHERE a.manager = who AND NOT FIND_IN_SET(x.g, stale);
    END IF;
    IF stale <> '' AND JSON_CONTAINS_PATH(more, 'one', '$.late') THEN
      -- All names of a group or none: two that each keep a part would wait for each other.
      SET late = JSON_UNQUOTE(JSON_EXTRACT(more, '$.late')), firms = COALESCE(JSON_UNQUOTE(JSON_EXTRACT(more, '$.firm')), '');
      UPDATE JSON_TABLE(tags, '$[*]' COLUMNS(b INT PATH '$[0]', t BIGINT PATH '$[1]', g INT PATH '$[2]')) AS x
        STRAIGHT_JOIN aiolock_gates a ON a.gate = x.b
        SET a.tag = x.t, a.manager = who, a.until_us = now_us + JSON_EXTRACT(more, '$.keep'), a.crowd = 0,
          a.firm = FIND_IN_SET(x.g, firms) > 0
        WHERE FIND_IN_SET(x.g, stale) AND NOT FIND_IN_SET(x.g, barred) AND FIND_IN_SET(x.g, late)
          AND (a.manager IN (0, who) OR a.until_us <= now_us OR a.until_us >= now_us + 1000000
            OR NOT a.firm AND FIND_IN_SET(x.g, firms));
    END IF;
    COMMIT;
  END;
  WHILE rings <> '' DO -- a session that hears waits for what never comes: see aiolock_hear_1
    SET target = SUBSTRING_INDEX(rings, ',', 1), rings = SUBSTRING(rings, 2 + LENGTH(SUBSTRING_INDEX(rings, ',', 1)));
    BEGIN
      DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
      KILL QUERY target;
    END;
  END WHILE;
  IF stale = '' THEN
    SELECT -1 AS g, NULL AS k, NULL AS t, NULL AS v, NULL AS e, now_us AS n;
  ELSE
    SELECT -1 AS g, NULL AS k, NULL AS t, NULL AS v, NULL AS e, now_us AS n
    UNION ALL SELECT x.g, x.c, '!', NULL, NULL, NULL
      FROM JSON_TABLE(more, '$.ears[*]' COLUMNS(i FOR ORDINALITY, g INT PATH '$[0]', c CHAR(50) CHARACTER SET ascii PATH '$[1]')) AS x
      WHERE FIND_IN_SET(x.i, misheard)
    UNION ALL SELECT x.g, NULL, '~', NULL, NULL, x.place
      FROM JSON_TABLE(crowds, '$[*]' COLUMNS(g INT PATH '$[0]', place INT PATH '$[1]')) AS x
    UNION ALL SELECT DISTINCT x.g, NULL, NULL, NULL, NULL, NULL
      FROM JSON_TABLE(tags, '$[*]' COLUMNS(g INT PATH '$[2]')) AS x WHERE FIND_IN_SET(x.g, stale)
    UNION ALL SELECT x.g, x.k, CONVERT(r.kind USING utf8mb4), r.value, r.expires_us, r.version
      FROM JSON_TABLE(kept, '$[*]' COLUMNS(k VARCHAR(3072) CHARACTER SET utf8mb4 PATH '$[0]', g INT PATH '$[2]')) AS x
      JOIN aiolock_rows r ON r.k = CONVERT(x.k USING binary) WHERE FIND_IN_SET(x.g, stale)
        AND NOT FIND_IN_SET(x.g, barred);
  END IF;
END
$$
-- Who listens: `me` hears the channels of the list `added`, and no more those of `removed`. Both are JSON.
CREATE PROCEDURE IF NOT EXISTS aiolock_listen_1(IN me CHAR(32) CHARACTER SET ascii, IN added LONGTEXT CHARACTER SET ascii,
  IN removed LONGTEXT CHARACTER SET ascii)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  INSERT IGNORE INTO aiolock_ears(channel, ear)
    SELECT x.c, me FROM JSON_TABLE(added, '$[*]' COLUMNS(c CHAR(50) CHARACTER SET ascii PATH '$')) AS x;
  DELETE l FROM JSON_TABLE(removed, '$[*]' COLUMNS(c CHAR(50) CHARACTER SET ascii PATH '$')) AS x
    JOIN aiolock_ears l ON l.channel = x.c AND l.ear = me;
END
$$
-- Returns (got, id, channel, message) of what was sent to `me`, or waits for it: for a lock that the manager's other session
-- holds, until whoever sends ends this. One statement looks and waits, so nothing is missed: what is committed before is seen,
-- and what is committed later ends it. Not SLEEP(): in MariaDB the end of one may take 2 s, and so do all others of the server.
--   got: 1 if the lock was not held, 0 if nothing came in `seconds`, NULL if there was something at once.
--   heard: numbers of what is not wanted again, as '7,8'.
CREATE PROCEDURE IF NOT EXISTS aiolock_hear_1(IN me CHAR(32) CHARACTER SET ascii, IN bell VARCHAR(64), IN seconds INT,
  IN heard LONGTEXT CHARACTER SET ascii)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE got INT;
  IF heard <> '' THEN
    DELETE FROM aiolock_messages WHERE ear = me AND FIND_IN_SET(id, heard);
  END IF;
  SELECT GET_LOCK(bell, seconds) INTO got FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM aiolock_messages WHERE ear = me);
  IF got = 1 THEN DO RELEASE_LOCK(bell); END IF;
  IF EXISTS (SELECT 1 FROM aiolock_messages WHERE ear = me) THEN -- a join would make a table on the disk
    SELECT got, id, channel, message FROM aiolock_messages FORCE INDEX (ear) WHERE ear = me ORDER BY id LIMIT 1000;
  ELSE
    SELECT got, NULL AS id, NULL AS channel, NULL AS message;
  END IF;
END
$$
-- Forgets what has expired, and those who listen no more: one session at a time, until it ends. It waits for nobody, and
-- nobody for long.
CREATE PROCEDURE IF NOT EXISTS aiolock_sweep_1()
SQL SECURITY DEFINER MODIFIES SQL DATA
sweep: BEGIN
  DECLARE found, seen INT DEFAULT 0;
  DECLARE expired VARBINARY(3072);
  DECLARE until_us BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 5000000;
  DECLARE rows_ CURSOR FOR SELECT k FROM aiolock_rows WHERE expires_us < until_us LIMIT 10000;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET found = 0;
  IF NOT GET_LOCK(LEFT(CONCAT('aiolock sweep ', DATABASE()), 64), 0) THEN LEAVE sweep; END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  DELETE FROM aiolock_ears WHERE IS_USED_LOCK(CONCAT('aiolock ear ', ear)) IS NULL;
  DELETE FROM aiolock_messages WHERE IS_USED_LOCK(CONCAT('aiolock ear ', ear)) IS NULL;
  OPEN rows_;
  SET found = 1;
  FETCH rows_ INTO expired;
  WHILE found DO
    IF seen % 100 = 0 THEN COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; END IF;
    SET seen = seen + 1;
    IF EXISTS(SELECT 1 FROM aiolock_rows WHERE k = expired AND expires_us < until_us FOR UPDATE SKIP LOCKED) THEN
      DELETE FROM aiolock_rows WHERE k = expired;
    END IF;
    SET found = 1;
    FETCH rows_ INTO expired;
  END WHILE;
  COMMIT;
END
$$
