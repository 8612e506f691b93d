package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicedp/sluice/privacy"
)

const postgresSchema = `
	CREATE TABLE counters (id bigint PRIMARY KEY, events bigint NOT NULL, objects bigint NOT NULL, last bigint NOT NULL);
	CREATE TABLE objects (
		id bigint PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE, cap bigint NOT NULL, spent bigint NOT NULL,
		latest bigint NOT NULL, events bigint NOT NULL, settled bigint NOT NULL, settles bigint NOT NULL);
	CREATE TABLE chains (
		question int NOT NULL, object bigint NOT NULL, ceiling bigint NOT NULL, PRIMARY KEY (question, object));
	CREATE TABLE levels (
		question int NOT NULL, object bigint NOT NULL, epsilon bigint NOT NULL, response int NOT NULL,
		event bigint NOT NULL, PRIMARY KEY (question, object, epsilon));
	CREATE TABLE tallies (
		question int NOT NULL, epsilon bigint NOT NULL, response int NOT NULL, recorded bigint NOT NULL,
		current bigint NOT NULL, PRIMARY KEY (question, epsilon, response));
	CREATE TABLE requests (
		key text COLLATE "C" PRIMARY KEY, digest bytea NOT NULL, done bool NOT NULL, settled bigint NOT NULL,
		drawn bigint NOT NULL, cursor text NOT NULL, parts bigint NOT NULL);
	CREATE TABLE events (
		number bigint PRIMARY KEY, previous bigint NOT NULL, public bytea NOT NULL, hidden bytea NOT NULL, hashes bytea NOT NULL);
	INSERT INTO counters VALUES (1, 0, 0, 0);`

const (
	pgRequests = `SELECT key, digest, done, settled, drawn, cursor, parts FROM requests WHERE key = ANY($1)`
	pgObjects  = selectObject + `WHERE o.name = ANY($1::text[]) ORDER BY o.id, l.epsilon`
	pgObject   = selectObject + `WHERE o.name = $1 ORDER BY l.epsilon`

	pgAddObjects = `INSERT INTO objects
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
			$7::bigint[], $8::bigint[])`
	pgAddChains  = `INSERT INTO chains SELECT 1, * FROM unnest($1::bigint[], $2::bigint[])`
	pgAddLevels  = `INSERT INTO levels SELECT 1, * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])`
	pgAddEvents  = `INSERT INTO events SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[])`
	pgSetObjects = `UPDATE objects o
		SET spent = n.spent, latest = n.latest, events = n.events, settled = n.settled, settles = n.settles
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
			AS n (id, spent, latest, events, settled, settles)
		WHERE o.id = n.id`
	pgAddTallies = `INSERT INTO tallies AS t SELECT 1, * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
		ON CONFLICT (question, epsilon, response)
		DO UPDATE SET recorded = t.recorded + excluded.recorded, current = t.current + excluded.current`
	pgSetRequests = `INSERT INTO requests
		SELECT * FROM unnest($1::text[], $2::bytea[], $3::bool[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])
		ON CONFLICT (key) DO UPDATE SET done = excluded.done, settled = excluded.settled, drawn = excluded.drawn,
			cursor = excluded.cursor, parts = excluded.parts`
)

// postgres is a database of a server. One connection writes, and another reads. A transaction takes
// two round trips: one for all reads, and one for all writes and the commit.
type postgres struct {
	writer, reader *pgx.Conn
}

// openPostgres connects to a server, and creates the tables if they do not exist.
func openPostgres(ctx context.Context, address string) (_ *postgres, err error) {
	d := &postgres{}
	defer func() {
		if err != nil {
			_ = d.close()
		}
	}()
	if d.writer, err = pgx.Connect(ctx, address); err != nil {
		return nil, err
	}
	var exists bool
	if err := d.writer.QueryRow(ctx, `SELECT to_regclass('counters') IS NOT NULL`).Scan(&exists); err != nil {
		return nil, err
	}
	if !exists {
		if _, err := d.writer.Exec(ctx, postgresSchema); err != nil { // as one transaction
			return nil, err
		}
	}
	d.reader, err = pgx.Connect(ctx, address)
	return d, err
}

func (d *postgres) close() error {
	var errs []error
	for _, c := range []*pgx.Conn{d.reader, d.writer} {
		if c != nil {
			errs = append(errs, c.Close(context.Background()))
		}
	}
	return errors.Join(errs...)
}

func (d *postgres) version() (text string) {
	if err := d.writer.QueryRow(context.Background(), `SHOW server_version`).Scan(&text); err != nil {
		return err.Error()
	}
	return text
}

func (d *postgres) end() (events uint64, objects int64, last time.Time, err error) {
	var nanos int64
	err = d.writer.QueryRow(context.Background(), `SELECT events, objects, last FROM counters`).Scan(&events, &objects, &nanos)
	return events, objects, unix(nanos), err
}

func (d *postgres) hashes(event uint64) (stored []byte, err error) {
	err = d.writer.QueryRow(context.Background(), `SELECT hashes FROM events WHERE number = $1`, event).Scan(&stored)
	return stored, err
}

// send sends statements together, and reads their results.
func (d *postgres) send(batch *pgx.Batch) error {
	return d.writer.SendBatch(context.Background(), batch).Close()
}

func (d *postgres) begin(p *page) error {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN`)
	if len(p.keys) > 0 {
		batch.Queue(pgRequests, p.keys).Query(p.takeRequests)
	}
	if len(p.names) > 0 {
		batch.Queue(pgObjects, p.names).Query(p.takeObjects)
	}
	return d.send(batch)
}

func (p *page) takeRequests(rows pgx.Rows) error {
	for rows.Next() {
		r := &request{}
		digest := []byte{}
		if err := rows.Scan(&r.key, &digest, &r.done, &r.settled, &r.drawn, &r.cursor, &r.parts); err != nil {
			return err
		}
		copy(r.digest[:], digest)
		p.requests[r.key] = r
	}
	return rows.Err()
}

func (p *page) takeObjects(rows pgx.Rows) error {
	found, err := collectObjects(rows)
	for _, o := range found {
		p.objects[o.name] = o
	}
	return err
}

func (d *postgres) rollback() error {
	_, err := d.writer.Exec(context.Background(), `ROLLBACK`)
	return err
}

func (d *postgres) save(p *page) error {
	batch := &pgx.Batch{}
	queueObjects(batch, p)
	// A second writing process fails here, because the numbers of events are unique.
	batch.Queue(pgAddEvents,
		column(p.events, func(e event) int64 { return int64(e.number) }),
		column(p.events, func(e event) int64 { return int64(e.previous) }),
		column(p.events, func(e event) []byte { return e.public }),
		column(p.events, func(e event) []byte { return e.hidden }),
		column(p.events, func(e event) []byte { return e.hashes }))
	queueTallies(batch, p.tallies)
	batch.Queue(pgSetRequests,
		column(p.settled, func(r *request) string { return r.key }),
		column(p.settled, func(r *request) []byte { return r.digest[:] }),
		column(p.settled, func(r *request) bool { return r.done }),
		column(p.settled, func(r *request) int64 { return int64(r.settled) }),
		column(p.settled, func(r *request) int64 { return int64(r.drawn) }),
		column(p.settled, func(r *request) string { return r.cursor }),
		column(p.settled, func(r *request) int64 { return int64(r.parts) }))
	batch.Queue(`UPDATE counters SET events = $1, objects = $2, last = $3`, p.log.size, p.total, p.now.UnixNano())
	batch.Queue(`COMMIT`)
	if err := d.send(batch); err != nil {
		return errors.Join(err, d.rollback())
	}
	return nil
}

// column returns one column of rows.
func column[R, C any](rows []R, of func(R) C) []C {
	values := make([]C, len(rows))
	for i, row := range rows {
		values[i] = of(row)
	}
	return values
}

func queueObjects(batch *pgx.Batch, p *page) {
	var added, changed []*object
	var owners []int64
	var levels []level
	for _, o := range p.touched {
		if o.added {
			added = append(added, o)
		} else {
			changed = append(changed, o)
		}
		for _, l := range o.fresh {
			owners, levels = append(owners, o.id), append(levels, l)
		}
	}
	id := func(o *object) int64 { return o.id }
	spent := func(o *object) int64 { return o.spent.Nano() }
	latest := func(o *object) int64 { return int64(o.latest) }
	events := func(o *object) int64 { return int64(o.events) }
	settled := func(o *object) int64 { return int64(o.settled) }
	settles := func(o *object) int64 { return int64(o.settles) }
	if len(added) > 0 {
		batch.Queue(pgAddObjects,
			column(added, id), column(added, func(o *object) string { return o.name }),
			column(added, func(o *object) int64 { return o.cap.Nano() }), column(added, spent),
			column(added, latest), column(added, events), column(added, settled), column(added, settles))
		batch.Queue(pgAddChains, column(added, id), column(added, func(o *object) int64 { return o.ceiling.Nano() }))
	}
	if len(changed) > 0 {
		batch.Queue(pgSetObjects,
			column(changed, id), column(changed, spent), column(changed, latest), column(changed, events),
			column(changed, settled), column(changed, settles))
	}
	if len(levels) > 0 {
		batch.Queue(pgAddLevels, owners,
			column(levels, func(l level) int64 { return l.Epsilon.Nano() }),
			column(levels, func(l level) int64 { return int64(l.Response) }),
			column(levels, func(l level) int64 { return int64(l.event) }))
	}
}

func queueTallies(batch *pgx.Batch, tallies map[tallyKey]*tally) {
	if len(tallies) == 0 {
		return
	}
	var epsilons, responses, recorded, current []int64
	for k, t := range tallies {
		epsilons, responses = append(epsilons, k.epsilon.Nano()), append(responses, int64(k.response))
		recorded, current = append(recorded, t.recorded), append(current, t.current)
	}
	batch.Queue(pgAddTallies, epsilons, responses, recorded, current)
}

func (d *postgres) after(name string, limit int) ([]string, error) {
	const query = `SELECT name FROM objects WHERE name > $1 ORDER BY name LIMIT $2`
	rows, err := d.writer.Query(context.Background(), query, name, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (d *postgres) over(name string, epsilon privacy.Epsilon) (n int, err error) {
	err = d.writer.QueryRow(context.Background(), selectOver, name, epsilon.Nano()).Scan(&n)
	return n, err
}

func (d *postgres) read(name string) (*object, error) {
	rows, err := d.reader.Query(context.Background(), pgObject, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found, err := collectObjects(rows)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

const pgTables = `ARRAY['counters', 'objects', 'chains', 'levels', 'tallies', 'requests', 'events']`

func (d *postgres) size(ctx context.Context) (written, compact int64, err error) {
	const all = `SELECT sum(pg_total_relation_size(t::regclass))::bigint FROM unnest(` + pgTables + `) AS t`
	if err := d.writer.QueryRow(ctx, all).Scan(&written); err != nil {
		return 0, 0, err
	}
	if _, err := d.writer.Exec(ctx, `VACUUM FULL`); err != nil {
		return 0, 0, err
	}
	err = d.writer.QueryRow(ctx, all).Scan(&compact)
	return written, compact, err
}
