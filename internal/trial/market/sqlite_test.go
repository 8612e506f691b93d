package market

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"; no C compiler is needed
)

// openSQLite opens a database, or makes it. What it has committed survives a power cut: in WAL mode
// every commit is an fsync of the log if synchronous is FULL, and none is if it is NORMAL, as many a
// tutorial has it. (With a rollback journal, FULL might lose the last commit, and EXTRA is needed.)
func openSQLite(ctx context.Context, path, schema string) (*sql.DB, error) {
	settings := url.Values{
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		// A transaction that reads first and then wants to write could find that it is too late, at
		// once and whatever the timeout; so transactions begin as writers.
		"_txlock": {"immediate"},
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4) // one writes at a time; more would only queue up in SQLite
	db.SetMaxIdleConns(4)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}
