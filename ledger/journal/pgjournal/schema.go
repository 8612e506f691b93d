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

// version is that of the tables. Whoever changes them gives a new one, and a statement that leads
// to it.
const version = 1

// tables makes the tables of this version in a schema.
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

// sure holds if a commit of this session is flushed here, and by the standbys that the operator has
// named, and if it says so when it gave up waiting for them. A pool of connections that hands out
// another session would not have these settings.
const sure = `current_setting('synchronous_commit') IN ('on', 'remote_apply')
	AND current_setting('client_min_messages') = 'warning'
	AND NOT pg_is_in_recovery()`

// How a statement that changes one table begins and ends: it counts the rows that it has changed.
const (
	with  = `WITH done AS (`
	count = ` RETURNING 1)
SELECT $1::bigint, (SELECT count(*) FROM done)`
)

// isEnd holds if a group ends at $3 and $4 in the journal h of the ledger $2, or the journal begins
// there.
const isEnd = `$3 >= h.begin_events AND ((h.events, h.root) = ($3, $4) OR (h.begin_events, h.begin_root) = ($3, $4)
	OR EXISTS (SELECT FROM @.frames f WHERE f.ledger = $2 AND f.events = $3 AND f.root = $4 AND f.frame = 0))`

// How statements add a frame, and a base in place of the one that a host had.
const (
	intoFrames = `INSERT INTO @.frames (ledger, events, frame, frames, term, root, after_events, after_root,
		segment_term, segment_number, body)`
	intoBases = `INSERT INTO @.bases (ledger, host, events, root, told)`
	inPlace   = ` ON CONFLICT (ledger, host) DO UPDATE SET events = excluded.events, root = excluded.root,
		told = excluded.told`
)

// The statements, with @ for the schema ([session.in]). Each answers with the number that it was
// sent with, so that an answer to something else is not taken for its own. Those without "clear" or
// "sweep" in their names change at most one row, which they count.
const (
	// which version the tables are of
	versionSQL = `SELECT $1::bigint, version FROM @.version`

	// whose journals there are
	ledgersSQL = `SELECT $1::bigint, ARRAY(SELECT ledger FROM @.heads ORDER BY ledger)`

	// a journal is made, unless the ledger has one
	createSQL = with + `
	INSERT INTO @.heads (ledger, journal, term, events, root, begin_events, begin_root, erased_events,
		erased_root, conceded, begun, host, claimed)
	SELECT $2, $3, $7, $4, $5, $4, $5, $8, $9, $10, 0, $6, now() WHERE ` + sure + `
	ON CONFLICT (ledger) DO NOTHING` + count

	// what is known of the journal, and whether a group ends at $3 and $4
	lookSQL = `SELECT $1::bigint, pg_is_in_recovery(), h.journal, h.term, h.events, h.root, h.begin_events,
		h.begin_root, h.erased_events, h.erased_root, h.conceded,
	h.begun, h.host, coalesce(` + isEnd + `, false),
	(SELECT json_agg(s ORDER BY events) FROM @.segments s WHERE s.ledger = $2),
	(SELECT json_agg(json_build_object('Host', host, 'Events', events, 'Seconds',
		CASE WHEN told > 'epoch' THEN extract(epoch FROM now() - told)::bigint ELSE -1 END) ORDER BY host)
		FROM @.bases b WHERE b.ledger = $2)
FROM (SELECT) one LEFT JOIN @.heads h ON h.ledger = $2`

	// the term is raised, if no segment was begun since $9 were. The base of the host has what was
	// trimmed; what else, the next trim says
	claimSQL = `WITH head AS (
	UPDATE @.heads SET term = greatest(term, $4) + 1, conceded = CASE WHEN $5 THEN greatest(term, $4) + 1
		ELSE conceded END, host = $6, claimed = now()
	WHERE ledger = $2 AND journal = $3 AND begun = $9 AND (NOT $5 OR (events, root) = ($7, $8)) AND ` + sure + `
	RETURNING *), base AS (
	` + intoBases + ` SELECT ledger, host, begin_events, begin_root, 'epoch' FROM head` + inPlace + `)
SELECT $1::bigint, head.term, head.events, head.root FROM (SELECT) one LEFT JOIN head ON true`

	// sessions of hosts that block $2, and have done nothing in their transaction for a second, are
	// ended: it is rolled back then
	releaseSQL = `SELECT $1::bigint, count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid = ANY(pg_blocking_pids($2)) AND usename = session_user
	AND starts_with(application_name, '` + applicationName + `')
	AND state LIKE 'idle in transaction%' AND state_change < now() - interval '1 second'`

	// the term is raised by the handle that claimed it: from $4, or from what its lost attempts up
	// to $5 have made of it
	raiseSQL = `WITH head AS (
	UPDATE @.heads SET term = $5 + 1
	WHERE ledger = $2 AND journal = $3 AND term BETWEEN $4 AND $5 AND host = $6
		AND (NOT $7 OR current_setting('synchronous_standby_names') <> '') AND ` + sure + `
	RETURNING term, events, root)
SELECT $1::bigint, head.term, head.events, head.root FROM (SELECT) one LEFT JOIN head ON true`

	// a group is appended, or the first frame of it
	appendSQL = `WITH head AS (
	UPDATE @.heads SET events = $7, root = $8, begun = begun + CASE WHEN $15 THEN 1 ELSE 0 END
	WHERE ledger = $2 AND journal = $3 AND term = $13 AND events = $5 AND root = $6
		AND (NOT $14 OR current_setting('synchronous_standby_names') <> '') AND ` + sure + `
	RETURNING ledger), segment AS (
	INSERT INTO @.segments (ledger, events, term, number) SELECT ledger, $5, $10, $11 FROM head WHERE $15), frame AS (
	` + intoFrames + `
	SELECT ledger, $5, 0, $9, $4, $6, $7, $8, $10, $11, $12 FROM head)
SELECT $1::bigint, (SELECT count(*) FROM head)`

	// another frame of a group that was appended in the same transaction
	frameSQL = with + intoFrames + `
	SELECT ledger, $5, $14, $9, $4, $6, $7, $8, $10, $11, $12 FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $13 AND events = $7 AND root = $8` + count

	// frames from one of a group on, as many as have some bytes together, and where the journal
	// begins and ends
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

	// whatever changes the head waits until this transaction ends, which waits for what is changing
	// it
	lockSQL = `SELECT $1::bigint, (SELECT count(*) FROM (SELECT FROM @.heads WHERE ledger = $2 FOR UPDATE) head)`

	// the journal begins elsewhere, where a group begins or the journal ends, without some segments,
	// and maybe with another one
	cutSQL = `WITH head AS (
	UPDATE @.heads SET begin_events = $5, begun = begun + 1,
		begin_root = CASE WHEN events = $5 THEN root
			ELSE (SELECT f.root FROM @.frames f WHERE f.ledger = $2 AND f.events = $5 AND f.frame = 0) END
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND begin_events <= $5 AND events >= $5
		AND ` + sure + ` RETURNING 1), gone AS (
	DELETE FROM @.segments WHERE ledger = $2 AND events = ANY($6) AND EXISTS (SELECT FROM head))
SELECT $1::bigint, (SELECT count(*) FROM head)`

	// what is left of a segment is one of its own
	splitSQL = with + `
	INSERT INTO @.segments (ledger, events, term, number) SELECT ledger, $5, $6, $7 FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND begin_events = $5` + count

	// a frame is encrypted anew
	resealSQL = with + `
	UPDATE @.frames f SET segment_term = $7, segment_number = $8, body = $9 FROM @.heads h
	WHERE h.ledger = $2 AND h.journal = $3 AND h.term = $4 AND f.ledger = $2 AND f.events = $5 AND f.frame = $6` + count

	// rows before the begin of the journal are removed
	sweepSQL = with + `
	DELETE FROM @.frames f USING (
		SELECT f.events, f.frame FROM @.frames f JOIN @.heads h ON h.ledger = f.ledger AND f.events < h.begin_events
		WHERE h.ledger = $2 ORDER BY f.events, f.frame LIMIT $3) old
	WHERE f.ledger = $2 AND f.events = old.events AND f.frame = old.frame` + count

	// how many frames are of segments that are not in the table of these
	straySQL = `SELECT $1::bigint, count(*) FROM @.frames f JOIN @.heads h ON h.ledger = f.ledger
		AND f.events >= h.begin_events
WHERE f.ledger = $2 AND NOT EXISTS (
	SELECT FROM @.segments s WHERE s.ledger = $2 AND s.term = f.segment_term AND s.number = f.segment_number)`

	// up to where the keys are destroyed
	erasedSQL = with + `
	UPDATE @.heads SET erased_events = $5, erased_root = $6
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND erased_events <= $5 AND begin_events >= $5 AND ` + sure + count

	// something is committed, which stands in nobody's way
	settleSQL = `SELECT $1::bigint, (SELECT count(pg_logical_emit_message(true, 'sluice', '')) FROM @.heads
		WHERE ledger = $2 AND journal = $3 AND ` + sure + `)`

	// a host has a base of its own
	foldedSQL = with + intoBases + ` SELECT ledger, $6, $3, $4, now() FROM @.heads h
	WHERE ledger = $2 AND journal = $5 AND ` + isEnd + ` AND ` + sure + inPlace + count

	// the host that has the journal has a base of its own, in a transaction that has cut the
	// journal up to there at most
	leftSQL = with + intoBases + ` SELECT ledger, host, $5, $6, 'epoch' FROM @.heads
	WHERE ledger = $2 AND journal = $3 AND term = $4 AND $5 BETWEEN begin_events AND events` + inPlace + count

	// a journal that ends before an event is none any more. There may be none: then it counts as
	// one, too
	dropSQL = `WITH head AS (
	DELETE FROM @.heads WHERE ledger = $2 AND journal = $3 AND events < $4 RETURNING 1)
SELECT $1::bigint, CASE WHEN EXISTS (SELECT FROM head) OR NOT EXISTS (SELECT FROM @.heads
	WHERE ledger = $2) THEN 1 ELSE 0 END::bigint`

	// what a journal that is none any more has left
	clearSQL = `WITH frames AS (DELETE FROM @.frames WHERE ledger = $2), segments AS (DELETE FROM @.segments
		WHERE ledger = $2), bases AS (
	DELETE FROM @.bases WHERE ledger = $2)
SELECT $1::bigint, 0::bigint`

	// it has none any more
	dismissSQL = with + `DELETE FROM @.bases WHERE ledger = $2 AND host = $3` + count
)

// lockTables keeps two hosts from making the tables at once.
const lockTables = `SELECT pg_advisory_xact_lock(7738141121405112431)`

// install makes the tables, if there are none, and checks their version.
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
		if !there { // else whoever made it need not let this one make others
			text = `CREATE SCHEMA ` + schema + `;` + text
		}
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll()
		return err
	})
	if err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return j.checkVersion(ctx, s)
}

// checkVersion says whether the tables are those that this program knows. [fs.ErrNotExist]: there
// are none.
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

// create makes the journal.
func (j *Journal) create(ctx context.Context, at journal.Position) error {
	if !fits(at) {
		return fmt.Errorf("%w: it cannot begin at event %d", ErrOptions, at.Events)
	}
	if err := j.using(ctx, func(s *session) error {
		if err := j.install(ctx, s); err != nil {
			return err
		}
		var id [16]byte
		_, _ = rand.Read(id[:])
		made, err := s.change(ctx, createSQL, j.ledger, id, at.Events, at.Root[:], j.Host, 0, at.Events, at.Root[:], 0)
		if err == nil && made != 1 {
			err = fmt.Errorf("%w: the ledger has a journal", fs.ErrExist)
		}
		return err
	}); err != nil {
		return err
	}
	return j.find(ctx)
}

// find finds the journal of the ledger.
func (j *Journal) find(ctx context.Context) error {
	return j.using(ctx, func(s *session) error {
		if err := j.checkVersion(ctx, s); err != nil {
			return err
		}
		v, err := j.lookBy(ctx, s, journal.Position{})
		if err == nil {
			j.id = v.id
		}
		return err
	})
}
