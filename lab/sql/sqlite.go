package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// sqliteObject has a plus before its parameter, because SQLite 3.54 in C would otherwise plan it
// again for each execution, which takes four times as long as the query.
const sqliteObject = selectObject + `WHERE o.name = +? ORDER BY l.epsilon`

const sqliteSchema = `
	CREATE TABLE counters (id INTEGER PRIMARY KEY, events INTEGER NOT NULL, objects INTEGER NOT NULL, last INTEGER NOT NULL);
	CREATE TABLE objects (
		id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cap INTEGER NOT NULL, spent INTEGER NOT NULL,
		latest INTEGER NOT NULL, events INTEGER NOT NULL, settled INTEGER NOT NULL, settles INTEGER NOT NULL);
	CREATE TABLE chains (
		question INTEGER NOT NULL, object INTEGER NOT NULL, ceiling INTEGER NOT NULL,
		PRIMARY KEY (question, object)) WITHOUT ROWID;
	CREATE TABLE levels (
		question INTEGER NOT NULL, object INTEGER NOT NULL, epsilon INTEGER NOT NULL, response INTEGER NOT NULL,
		event INTEGER NOT NULL, PRIMARY KEY (question, object, epsilon)) WITHOUT ROWID;
	CREATE TABLE tallies (
		question INTEGER NOT NULL, epsilon INTEGER NOT NULL, response INTEGER NOT NULL, recorded INTEGER NOT NULL,
		current INTEGER NOT NULL, PRIMARY KEY (question, epsilon, response)) WITHOUT ROWID;
	CREATE TABLE requests (
		key TEXT PRIMARY KEY, digest BLOB NOT NULL, done INTEGER NOT NULL, settled INTEGER NOT NULL, drawn INTEGER NOT NULL,
		cursor TEXT NOT NULL, parts INTEGER NOT NULL) WITHOUT ROWID;
	CREATE TABLE events (
		number INTEGER PRIMARY KEY, previous INTEGER NOT NULL, public BLOB NOT NULL, hidden BLOB NOT NULL, hashes BLOB NOT NULL);
	INSERT INTO counters VALUES (1, 0, 0, 0);`

// sqlite is a database in a file. One connection writes, and another reads.
type sqlite struct {
	path           string
	writer, reader *sql.DB

	begins, commits, rollbacks, counters, hashesOf, names, overs *sql.Stmt
	addObject, addChain, addLevel, addEvent, addTally            *sql.Stmt
	request, setObject, setRequest, setCounters                  *sql.Stmt
	object, readObject                                           *sql.Stmt
}

// openSQLite opens or creates a database with a driver. A commit is on disk when it returns.
func openSQLite(driver, path string) (_ *sqlite, err error) {
	d := &sqlite{path: path}
	defer func() {
		if err != nil {
			_ = d.close()
		}
	}()
	if d.writer, err = openPool(driver, path); err != nil {
		return nil, err
	}
	var tables int
	if err := d.writer.QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return nil, err
	}
	if tables == 0 {
		if _, err := d.writer.Exec(`BEGIN;` + sqliteSchema + `COMMIT;`); err != nil {
			return nil, err
		}
	}
	if d.reader, err = openPool(driver, path); err != nil {
		return nil, err
	}
	return d, d.prepare()
}

// openPool opens one connection. Its caches are far above the defaults, for speed.
func openPool(driver, path string) (*sql.DB, error) {
	db, err := sql.Open(driver, path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // the settings apply to one connection only
	for _, setting := range []string{
		"journal_mode = WAL", "synchronous = FULL", "cache_size = -262144", "mmap_size = 1073741824", "busy_timeout = 10000",
	} {
		if _, err := db.Exec("PRAGMA " + setting); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

func (d *sqlite) prepare() (err error) {
	for to, text := range map[**sql.Stmt]string{
		&d.begins:    `BEGIN IMMEDIATE`,
		&d.commits:   `COMMIT`,
		&d.rollbacks: `ROLLBACK`,
		&d.counters:  `SELECT events, objects, last FROM counters`,
		&d.hashesOf:  `SELECT hashes FROM events WHERE number = ?`,
		&d.names:     `SELECT name FROM objects WHERE name > ? ORDER BY name LIMIT ?`,
		&d.overs:     selectOver,
		&d.request:   `SELECT digest, done, settled, drawn, cursor, parts FROM requests WHERE key = ?`,
		&d.object:    sqliteObject,
		&d.addObject: `INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		&d.addChain:  `INSERT INTO chains VALUES (1, ?, ?)`,
		&d.addLevel:  `INSERT INTO levels VALUES (1, ?, ?, ?, ?)`,
		&d.addEvent:  `INSERT INTO events VALUES (?, ?, ?, ?, ?)`,
		&d.setObject: `UPDATE objects SET spent = ?, latest = ?, events = ?, settled = ?, settles = ? WHERE id = ?`,
		&d.addTally: `INSERT INTO tallies VALUES (1, ?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET recorded = recorded + excluded.recorded, current = current + excluded.current`,
		&d.setRequest: `INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET done = excluded.done,
			settled = excluded.settled, drawn = excluded.drawn, cursor = excluded.cursor, parts = excluded.parts`,
		&d.setCounters: `UPDATE counters SET events = ?, objects = ?, last = ?`,
	} {
		if *to, err = d.writer.Prepare(text); err != nil {
			return err
		}
	}
	d.readObject, err = d.reader.Prepare(sqliteObject)
	return err
}

func (d *sqlite) close() error {
	var errs []error
	for _, db := range []*sql.DB{d.reader, d.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func (d *sqlite) version() (text string) {
	if err := d.writer.QueryRow(`SELECT sqlite_version()`).Scan(&text); err != nil {
		return err.Error()
	}
	return text
}

func (d *sqlite) end() (events uint64, objects int64, last time.Time, err error) {
	var nanos int64
	err = d.counters.QueryRow().Scan(&events, &objects, &nanos)
	return events, objects, unix(nanos), err
}

func (d *sqlite) hashes(event uint64) (stored []byte, err error) {
	err = d.hashesOf.QueryRow(event).Scan(&stored)
	return stored, err
}

// Calls of prepared statements have no context that can end, because one of the drivers starts a
// goroutine for each call with such a context.

func (d *sqlite) begin(p *page) error {
	if _, err := d.begins.Exec(); err != nil {
		return err
	}
	for _, key := range p.keys {
		r := &request{key: key}
		digest := []byte{}
		switch err := d.request.QueryRow(key).Scan(&digest, &r.done, &r.settled, &r.drawn, &r.cursor, &r.parts); {
		case err == nil:
			copy(r.digest[:], digest)
			p.requests[key] = r
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	for _, name := range p.names {
		if p.objects[name] != nil {
			continue
		}
		o, err := findObject(d.object, name)
		if err != nil {
			return err
		}
		if o != nil {
			p.objects[name] = o
		}
	}
	return nil
}

// findObject returns the object with a name, or nil if it does not exist.
func findObject(query *sql.Stmt, name string) (*object, error) {
	rows, err := query.Query(name)
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

func (d *sqlite) rollback() error {
	_, err := d.rollbacks.Exec()
	return err
}

func (d *sqlite) save(p *page) error {
	err := d.write(p)
	if err == nil {
		_, err = d.commits.Exec()
	}
	if err != nil {
		return errors.Join(err, d.rollback())
	}
	return nil
}

func (d *sqlite) write(p *page) error {
	for _, o := range p.touched {
		if err := d.saveObject(o); err != nil {
			return err
		}
	}
	// A second writing process fails here, because the numbers of events are unique.
	for _, e := range p.events {
		if _, err := d.addEvent.Exec(e.number, e.previous, e.public, e.hidden, e.hashes); err != nil {
			return err
		}
	}
	for _, r := range p.settled {
		if _, err := d.setRequest.Exec(r.key, r.digest[:], r.done, r.settled, r.drawn, r.cursor, r.parts); err != nil {
			return err
		}
	}
	for k, t := range p.tallies {
		if _, err := d.addTally.Exec(k.epsilon.Nano(), k.response, t.recorded, t.current); err != nil {
			return err
		}
	}
	_, err := d.setCounters.Exec(p.log.size, p.total, p.now.UnixNano())
	return err
}

func (d *sqlite) saveObject(o *object) (err error) {
	if o.added {
		_, err = d.addObject.Exec(o.id, o.name, o.cap.Nano(), o.spent.Nano(), o.latest, o.events, o.settled, o.settles)
		if err == nil {
			_, err = d.addChain.Exec(o.id, o.ceiling.Nano())
		}
	} else {
		_, err = d.setObject.Exec(o.spent.Nano(), o.latest, o.events, o.settled, o.settles, o.id)
	}
	if err != nil {
		return err
	}
	for _, l := range o.fresh {
		if _, err := d.addLevel.Exec(o.id, l.Epsilon.Nano(), l.Response, l.event); err != nil {
			return err
		}
	}
	return nil
}

func (d *sqlite) after(name string, limit int) (found []string, err error) {
	rows, err := d.names.Query(name, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

func (d *sqlite) over(name string, epsilon privacy.Epsilon) (n int, err error) {
	err = d.overs.QueryRow(name, epsilon.Nano()).Scan(&n)
	return n, err
}

func (d *sqlite) read(name string) (*object, error) { return findObject(d.readObject, name) }

// size returns the size of the file with its log, after a checkpoint.
func (d *sqlite) size(ctx context.Context) (written, compact int64, err error) {
	if _, err := d.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		return 0, 0, err
	}
	if written, err = bytesIn(d.path, d.path+"-wal"); err != nil {
		return 0, 0, err
	}
	copied := filepath.Join(filepath.Dir(d.path), "compact")
	defer os.Remove(copied)
	if _, err := d.writer.ExecContext(ctx, `VACUUM INTO ?`, copied); err != nil {
		return 0, 0, fmt.Errorf("compacting: %w", err)
	}
	small, err := os.Stat(copied)
	if err != nil {
		return 0, 0, err
	}
	return written, small.Size(), nil
}
