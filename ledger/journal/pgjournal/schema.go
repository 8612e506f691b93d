package pgjournal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// version is the version of the tables. A change of the tables needs a new version, and a statement
// that migrates to it.
const version = 1

// tables creates the tables of this version in a schema.
const tables = `
CREATE TABLE @.version (version integer NOT NULL);
CREATE TABLE @.heads (
	ledger        uuid PRIMARY KEY,
	journal       uuid NOT NULL UNIQUE,
	term          bigint NOT NULL,
	events        bigint NOT NULL,
	root          bytea NOT NULL,
	begin_events  bigint NOT NULL,
	begin_root    bytea NOT NULL,
	erased_events bigint NOT NULL,
	erased_root   bytea NOT NULL,
	conceded      bigint NOT NULL,
	begun         bigint NOT NULL,
	host          text NOT NULL,
	claimed       timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE @.segments (
	ledger uuid NOT NULL,
	events bigint NOT NULL,
	term   bigint NOT NULL,
	number bigint NOT NULL,
	PRIMARY KEY (ledger, events)
);
CREATE TABLE @.frames (
	ledger         uuid NOT NULL,
	events         bigint NOT NULL,
	frame          integer NOT NULL,
	frames         integer NOT NULL,
	term           bigint NOT NULL,
	root           bytea NOT NULL,
	after_events   bigint NOT NULL,
	after_root     bytea NOT NULL,
	segment_term   bigint NOT NULL,
	segment_number bigint NOT NULL,
	body           bytea NOT NULL,
	PRIMARY KEY (ledger, events, frame)
);
ALTER TABLE @.frames ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE @.bases (
	ledger uuid NOT NULL,
	host   text NOT NULL,
	events bigint NOT NULL,
	root   bytea NOT NULL,
	told   timestamptz NOT NULL,
	PRIMARY KEY (ledger, host)
);
INSERT INTO @.version VALUES (1);
`

// isDurable is true if a commit of this session waits for the flush to disk, here and on the
// configured standbys. The server must also warn when it stops waiting for them. A connection pool
// can run a statement in another session, which does not have these settings.
const isDurable = `current_setting('synchronous_commit') IN ('on', 'remote_apply')
	AND current_setting('client_min_messages') = 'warning'
	AND NOT pg_is_in_recovery()`

// The begin and the end of a statement that changes one table. Together they count the changed
// rows.
const (
	with  = `WITH done AS (`
	count = ` RETURNING 1)
SELECT $1::bigint, (SELECT count(*) FROM done)`
)

// isEnd is true if a group ends at $3 (events) and $4 (root) in the journal h of the ledger $2, or
// the journal begins there.
const isEnd = `$3 >= h.begin_events AND ((h.events, h.root) = ($3, $4) OR (h.begin_events, h.begin_root) = ($3, $4)
	OR EXISTS (SELECT FROM @.frames f WHERE f.ledger = $2 AND f.events = $3 AND f.root = $4 AND f.frame = 0))`

// Parts of statements: they insert a frame, and insert or replace the base of a host.
const (
	intoFrames = `INSERT INTO @.frames (ledger, events, frame, frames, term, root, after_events, after_root,
		segment_term, segment_number, body)`
	intoBases = `INSERT INTO @.bases (ledger, host, events, root, told)`
	inPlace   = ` ON CONFLICT (ledger, host) DO UPDATE SET events = excluded.events, root = excluded.root,
		told = excluded.told`
)

// The statements. In them, the sign @ means the schema ([session.in]). The first column of each
// result is the number that was sent as $1. It shows that the answer belongs to this query
// ([session.ask]). Each statement without "clear" or "sweep" in its name changes at most one row,
// and counts it.
const (
	// versionSQL reads the version of the tables.
	versionSQL = `SELECT $1::bigint, version FROM @.version`

	// ledgersSQL reads the ids of all ledgers that have a journal.
	ledgersSQL = `SELECT $1::bigint, ARRAY(SELECT ledger FROM @.heads ORDER BY ledger)`

	// createSQL creates a journal, unless the ledger has one.
	createSQL = with + `
	INSERT INTO @.heads (ledger, journal, term, events, root, begin_events, begin_root, erased_events,
		erased_root, conceded, begun, host, claimed)
	SELECT $2, $3, $7, $4, $5, $4, $5, $8, $9, $10, 0, $6, now() WHERE ` + isDurable + `
	ON CONFLICT (ledger) DO NOTHING` + count

	// viewSQL reads the view of the journal, and whether a group ends at $3 and $4.
	viewSQL = `SELECT $1::bigint, pg_is_in_recovery(), h.journal, h.term, h.events, h.root, h.begin_events,
		h.begin_root, h.erased_events, h.erased_root, h.conceded,
	h.begun, h.host, coalesce(` + isEnd + `, false),
	(SELECT json_agg(s ORDER BY events) FROM @.segments s WHERE s.ledger = $2),
	(SELECT json_agg(json_build_object('Host', host, 'Events', events, 'Seconds',
		CASE WHEN told > 'epoch' THEN extract(epoch FROM now() - told)::bigint ELSE -1 END) ORDER BY host)
		FROM @.bases b WHERE b.ledger = $2)
FROM (SELECT) one LEFT JOIN @.heads h ON h.ledger = $2`

	// claimSQL raises the term, if begun is still $9: no segment was begun since. It also records
	// the begin of the journal as the host's base, because the host has what was trimmed. The next
	// trim records how far the base really reaches.
	claimSQL = `WITH head AS (
	UPDATE @.heads SET term = greatest(term, $4) + 1, conceded = CASE WHEN $5 THEN greatest(term, $4) + 1
		ELSE conceded END, host = $6, claimed = now()
	WHERE ledger = $2 AND journal = $3 AND begun = $9 AND (NOT $5 OR (events, root) = ($7, $8)) AND ` + isDurable + `
	RETURNING *), base AS (
	` + intoBases + ` SELECT ledger, host, begin_events, begin_root, 'epoch' FROM head` + inPlace + `)
SELECT $1::bigint, head.term, head.events, head.root FROM (SELECT) one LEFT JOIN head ON true`

	// releaseSQL ends the sessions of hosts that block the session $2 and have been idle in a
	// transaction for a second. The server rolls their transactions back.
	releaseSQL = `SELECT $1::bigint, count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid = ANY(pg_blocking_pids($2)) AND usename = session_user
	AND starts_with(application_name, '` + applicationName + `')
	AND state LIKE 'idle in transaction%' AND state_change < now() - interval '1 second'`

	// raiseSQL raises the term of the handle that claimed the journal. $4 is the term that the
	// handle knows. Up to $5, it may have raised the term itself, in attempts whose answers were
	// lost.
	raiseSQL = `WITH head AS (
	UPDATE @.heads SET term = $5 + 1
	WHERE ledger = $2 AND journal = $3 AND term BETWEEN $4 AND $5 AND host = $6
		AND (NOT $7 OR current_setting('synchronous_standby_names') <> '') AND ` + isDurable + `
	RETURNING term, events, root)
SELECT $1::bigint, head.term, head.events, head.root FROM (SELECT) one LEFT JOIN head ON true`

	// appendSQL appends a group of one frame, or the first frame of a larger one.
	appendSQL = `WITH head AS (
	UPDATE @.heads SET events = $7, root = $8, begun = begun + CASE WHEN $15 THEN 1 ELSE 0 END
	WHERE ledger = $2 AND journal = $3 AND term = $13 AND events = $5 AND root = $6
		AND (NOT $14 OR current_setting('synchronous_standby_names') <> '') AND ` + isDurable + `
	RETURNING ledger), segment AS (
	INSERT INTO @.segments (ledger, events, term, number) SELECT ledger, $5, $10, $11 FROM head WHERE $15), frame AS (
	` + intoFrames + `
	SELECT ledger, $5, 0, $9, $4, $6, $7, $8, $10, $11, $12 FROM head)
SELECT $1::bigint, (SELECT count(*) FROM head)`

	// frameSQL adds another frame of a group that was appended in the same transaction.
	frameSQL = with + intoFrames + `
	SELECT ledger, $5, $14, $9, $4, $6, $7, $8, $10, $11, $12 FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $13 AND events = $7 AND root = $8` + count

	// readSQL reads frames in order, from frame $4 of the group that begins at $3. It stops after
	// $6 frames, or when they have $5 bytes together. It also reads where the journal begins and
	// ends.
	readSQL = `SELECT $1::bigint, pg_is_in_recovery(), h.journal, h.begin_events, h.begin_root, h.events, h.root,
	f.events, coalesce(f.frame, 0), coalesce(f.frames, 0), f.term, f.root, f.after_events, f.after_root, f.segment_term,
	f.segment_number, f.body
FROM (SELECT) one LEFT JOIN @.heads h ON h.ledger = $2 LEFT JOIN LATERAL (
	SELECT * FROM (
		SELECT *, sum(octet_length(body)) OVER (ORDER BY events, frame) - octet_length(body) AS ahead FROM (
			SELECT * FROM @.frames WHERE ledger = $2 AND (events, frame) >= ($3, $4)
			AND events >= h.begin_events ORDER BY events, frame LIMIT $6) following) counted
	WHERE ahead < $5) f ON true
ORDER BY f.events, f.frame`

	// lockSQL waits for a transaction that is changing the head. Later changes of the head wait
	// until this transaction ends.
	lockSQL = `SELECT $1::bigint, (SELECT count(*) FROM (SELECT FROM @.heads WHERE ledger = $2 FOR UPDATE) head)`

	// cutSQL makes the journal begin at $5, where a group begins or the journal ends. It removes
	// the segments that begin at $6.
	cutSQL = `WITH head AS (
	UPDATE @.heads SET begin_events = $5, begun = begun + 1,
		begin_root = CASE WHEN events = $5 THEN root
			ELSE (SELECT f.root FROM @.frames f WHERE f.ledger = $2 AND f.events = $5 AND f.frame = 0) END
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND begin_events <= $5 AND events >= $5
		AND ` + isDurable + ` RETURNING 1), gone AS (
	DELETE FROM @.segments WHERE ledger = $2 AND events = ANY($6) AND EXISTS (SELECT FROM head))
SELECT $1::bigint, (SELECT count(*) FROM head)`

	// splitSQL makes the rest of a segment that was cut a segment of its own.
	splitSQL = with + `
	INSERT INTO @.segments (ledger, events, term, number) SELECT ledger, $5, $6, $7 FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND begin_events = $5` + count

	// resealSQL replaces a frame by its encryption under another key.
	resealSQL = with + `
	UPDATE @.frames f SET segment_term = $7, segment_number = $8, body = $9 FROM @.heads h
	WHERE h.ledger = $2 AND h.journal = $3 AND h.term = $4 AND f.ledger = $2 AND f.events = $5 AND f.frame = $6` + count

	// sweepSQL removes up to $3 rows before the begin of the journal.
	sweepSQL = with + `
	DELETE FROM @.frames f USING (
		SELECT f.events, f.frame FROM @.frames f JOIN @.heads h ON h.ledger = f.ledger AND f.events < h.begin_events
		WHERE h.ledger = $2 ORDER BY f.events, f.frame LIMIT $3) old
	WHERE f.ledger = $2 AND f.events = old.events AND f.frame = old.frame` + count

	// straySQL counts the frames whose segment is not in the table of segments.
	straySQL = `SELECT $1::bigint, count(*) FROM @.frames f JOIN @.heads h ON h.ledger = f.ledger
		AND f.events >= h.begin_events
WHERE f.ledger = $2 AND NOT EXISTS (
	SELECT FROM @.segments s WHERE s.ledger = $2 AND s.term = f.segment_term AND s.number = f.segment_number)`

	// erasedSQL records up to where the keys are destroyed.
	erasedSQL = with + `
	UPDATE @.heads SET erased_events = $5, erased_root = $6
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND erased_events <= $5 AND begin_events >= $5
		AND ` + isDurable + count

	// settleSQL commits a message, which blocks no other transaction.
	settleSQL = `SELECT $1::bigint, (SELECT count(pg_logical_emit_message(true, 'sluice', '')) FROM @.heads
		WHERE ledger = $2 AND journal = $3 AND ` + isDurable + `)`

	// foldedSQL records how far the base of a host reaches.
	foldedSQL = with + intoBases + ` SELECT ledger, $6, $3, $4, now() FROM @.heads h
	WHERE ledger = $2 AND journal = $5 AND ` + isEnd + ` AND ` + isDurable + inPlace + count

	// leftSQL records how far the base of the host that has the journal reaches. It runs in a
	// transaction that has cut the journal at most up to there.
	leftSQL = with + intoBases + ` SELECT ledger, host, $5, $6, 'epoch' FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND $5 BETWEEN begin_events AND events` + inPlace + count

	// dropSQL removes the head of a journal that ends before event $4. It also counts 1 if the
	// ledger has no head.
	dropSQL = `WITH head AS (
	DELETE FROM @.heads WHERE ledger = $2 AND journal = $3 AND events < $4 RETURNING 1)
SELECT $1::bigint, CASE WHEN EXISTS (SELECT FROM head) OR NOT EXISTS (SELECT FROM @.heads
	WHERE ledger = $2) THEN 1 ELSE 0 END::bigint`

	// clearSQL removes the frames, segments and bases of a journal whose head was removed.
	clearSQL = `WITH frames AS (DELETE FROM @.frames WHERE ledger = $2), segments AS (DELETE FROM @.segments
		WHERE ledger = $2), bases AS (
	DELETE FROM @.bases WHERE ledger = $2)
SELECT $1::bigint, 0::bigint`

	// dismissSQL removes the base of a host.
	dismissSQL = with + `DELETE FROM @.bases WHERE ledger = $2 AND host = $3` + count
)

// lockTables prevents two hosts from creating the tables concurrently.
const lockTables = `SELECT pg_advisory_xact_lock(7738141121405112431)`

// install creates the schema and the tables if they do not exist, in one transaction, and checks
// the version of the tables ([Journal.checkVersion]).
func (j *Journal) install(ctx context.Context, s *session) error {
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTables); err != nil {
			return err
		}
		var there bool
		name := pgx.Identifier{j.Schema, "version"}.Sanitize()
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&there); err != nil || there {
			return err
		}
		text := s.in(tables)
		schema := pgx.Identifier{j.Schema}.Sanitize()
		if err := tx.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, schema).Scan(&there); err != nil {
			return err
		}
		if !there { // an existing schema needs no right to create schemas
			text = `CREATE SCHEMA ` + schema + `;` + text
		}
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll()
		return err
	})
	if err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	return j.checkVersion(ctx, s)
}

// checkVersion returns an error if the tables are not of the version of this program.
// [fs.ErrNotExist]: there are no tables.
func (j *Journal) checkVersion(ctx context.Context, s *session) error {
	var found int
	err := s.ask(ctx, versionSQL, nil, &found)
	if reason, is := errors.AsType[*pgconn.PgError](err); is && (reason.Code == "42P01" || reason.Code == "3F000") {
		return fmt.Errorf("%w: there are no tables in schema %s", fs.ErrNotExist, j.Schema)
	}
	if err == nil && found != version {
		err = fmt.Errorf("%w: the tables in schema %s are of version %d, not %d", errs.ErrVersion, j.Schema, found,
			version)
	}
	return err
}

// create creates the tables if they do not exist, and the journal of the ledger, which begins at a
// position. It sets j.id. It returns [fs.ErrExist] if the ledger has a journal.
func (j *Journal) create(ctx context.Context, at journal.Position) error {
	if !fits(at) {
		return fmt.Errorf("%w: a journal cannot begin at event %d", ErrOptions, at.Events)
	}
	if err := j.using(ctx, func(s *session) error {
		if err := j.install(ctx, s); err != nil {
			return err
		}
		var id [16]byte
		_, _ = rand.Read(id[:])
		// The term is 0 before the first claim. Nothing before the position needs to be erased, and
		// no loss was accepted.
		made, err := s.change(ctx, createSQL, j.ledger, id, at.Events, at.Root[:], j.Host, 0, at.Events, at.Root[:], 0)
		if err == nil && made != 1 {
			err = fmt.Errorf("%w: the ledger already has a journal", fs.ErrExist)
		}
		return err
	}); err != nil {
		return err
	}
	return j.find(ctx) // reads the id from the database
}

// find finds the journal of the ledger, and sets j.id. It returns [fs.ErrNotExist] if there are no
// tables, or if the ledger has no journal.
func (j *Journal) find(ctx context.Context) error {
	return j.using(ctx, func(s *session) error {
		if err := j.checkVersion(ctx, s); err != nil {
			return err
		}
		v, err := j.readViewBy(ctx, s, journal.Position{})
		if err == nil {
			j.id = v.id
		}
		return err
	})
}
