package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// ErrOptions is returned if the options are invalid, or if the server cannot hold a journal. That
// is a standby, a server that is read-only or does not flush, or one that is not PostgreSQL.
var ErrOptions = errors.New("invalid options of a journal in PostgreSQL")

// Options describe where a journal is, and the hosts that may write it: this one and the others.
// Database, Host, Keys and Others must be set.
type Options struct {
	// Database is the address of the database in the form of libpq: a URL or "host=… dbname=…".
	// With several hosts and target_session_attrs=primary, each connection goes to the current
	// primary. Use sslmode=verify-full wherever an attacker could intercept the connection. No
	// error text of this package contains any part of the address, because it may have a password.
	// A cause found with errors.As may contain parts of it.
	Database string
	// Schema is the schema of the tables; "" is "sluice". Several ledgers can share one schema.
	Schema string
	// Host is the name of this host, different from that of every other host: 1 to 100 bytes.
	Host string
	// Keys holds the keys of this host, for example in a directory ([keyholder.OpenDirectory]). The
	// caller closes it, after the journal.
	Keys keyholder.Holder
	// Others are the key holders of the other hosts that may claim the journal: at least one.
	Others []keyholder.Holder
	// Copies is how many of the others must have stored the key of a segment before anything is
	// encrypted under it; 0 is 1.
	Copies int
	// Bases is how many other hosts, at least, must have in their own durable bases what Trim
	// destroys ([Journal.Folded]); 0 is 1.
	Bases int
	// Synchronous refuses appends while the database does not wait for a standby
	// (synchronous_standby_names is empty). That can be so after a failover to a server that has no
	// standby yet.
	Synchronous bool
	// Timeout limits an append, a claim, and any other request to the database, including the wait
	// for standbys; 0 is a minute. Append resolves the outcome of a longer append within another
	// Timeout. If that fails, the append is uncertain.
	Timeout time.Duration
	// AcceptLoss lets Claim continue from the end of the journal although a later position was
	// acknowledged ([LostError]). It must equal the position where the journal ends. The lost
	// events cannot be recovered after that, and their responses may be drawn a second time. An
	// operator must decide this, once.
	AcceptLoss *journal.Position
	// Restore lets [For] create the journal again in a database that has lost it, or its end. If
	// the ledger's file is ahead of the journal, the journal that is there is destroyed. A new one
	// begins where the file ends, under the name that the file has for it. An operator must decide
	// this, once, when no database has the missing events. Acknowledged events that are not in the
	// file are still a [*LostError], unless AcceptLoss is the position where the file ends.
	Restore bool
}

// settings are options that check has accepted, with defaults filled in.
type settings struct {
	Options
	config *pgx.ConnConfig
}

// check returns the options with the defaults filled in, and with the parsed address of the
// database. It returns an [ErrOptions] if an option is invalid. It does not connect.
func (o Options) check() (*settings, error) {
	if o.Schema == "" {
		o.Schema = "sluice"
	}
	if o.Copies == 0 {
		o.Copies = 1
	}
	if o.Bases == 0 {
		o.Bases = 1
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	for rule, isBroken := range map[string]bool{
		"Host: must be 1 to 100 bytes of text":      o.Host == "" || len(o.Host) > 100 || !isText(o.Host),
		"Schema: must be at most 63 bytes of text":  len(o.Schema) > 63 || !isText(o.Schema),
		"Keys and Others: must be set":              o.Keys == nil || len(o.Others) == 0,
		"Copies: must be 1 to the number of Others": o.Copies < 1 || o.Copies > len(o.Others),
		"Bases: must not be negative":               o.Bases < 1,
		"Timeout: must not be negative":             o.Timeout < 0,
	} {
		if isBroken {
			return nil, fmt.Errorf("%w: %s", ErrOptions, rule)
		}
	}
	config, err := connection(o.Database)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return &settings{o, config}, nil
}

// isText reports whether PostgreSQL accepts a string as text: valid UTF-8 without NUL.
func isText(text string) bool {
	for _, r := range text {
		if r == 0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

// createJournal creates the journal of a ledger, which begins at a position, and the tables if they
// do not exist. Errors: [fs.ErrExist] if the ledger has a journal in the schema, [ErrOptions],
// errors of the database.
func createJournal(ctx context.Context, o Options, ledger [16]byte, at journal.Position) (*Journal, error) {
	return start(ctx, o, ledger, func(j *Journal, ctx context.Context) error { return j.create(ctx, at) })
}

// Open opens the journal of a ledger. It changes nothing. Errors: [fs.ErrNotExist], ErrVersion of
// package api, [ErrOptions], errors of the database.
func Open(ctx context.Context, o Options, ledger [16]byte) (*Journal, error) {
	return start(ctx, o, ledger, (*Journal).find)
}

// Ledgers returns the ids of all ledgers that have a journal in the schema. It changes nothing.
func Ledgers(ctx context.Context, o Options) (all [][16]byte, err error) {
	j, err := start(ctx, o, [16]byte{}, func(j *Journal, ctx context.Context) error {
		return j.using(ctx, func(s *session) error {
			if err := j.checkVersion(ctx, s); err != nil {
				return err
			}
			return s.ask(ctx, ledgersSQL, nil, &all)
		})
	})
	if err != nil {
		return nil, err
	}
	return all, j.Close()
}

// For returns a value for the Journal option of a ledger: a function that opens the journal in
// PostgreSQL. The function creates the journal if it does not exist, the ledger's file names none,
// and the ledger is no standby.
func For(o Options) func(context.Context, journal.Wanted) (journal.Journal, error) {
	return func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := openOrCreate(ctx, o, w)
		if err != nil {
			return nil, err // not j, because a nil *Journal in the interface is not nil
		}
		return j, nil
	}
}

// openOrCreate opens the journal that a ledger wants. If the ledger has none in the database, its
// file names none, and the ledger is no standby, openOrCreate creates one. With [Options.Restore]
// it instead finds or restores the journal that the file names.
func openOrCreate(ctx context.Context, o Options, w journal.Wanted) (*Journal, error) {
	if o.Restore && w.Name != "" {
		return start(ctx, o, w.Ledger, func(j *Journal, ctx context.Context) error { return j.restore(ctx, w) })
	}
	j, err := Open(ctx, o, w.Ledger)
	if !errors.Is(err, fs.ErrNotExist) || w.Name != "" || w.Standby {
		return j, err
	}
	if j, err = createJournal(ctx, o, w.Ledger, w.At); errors.Is(err, fs.ErrExist) { // another process was faster
		return Open(ctx, o, w.Ledger)
	}
	return j, err
}

// start returns a handle for a ledger, on which it calls find. find opens, creates or restores the
// journal, and sets the id of the handle. Its context ends after [Options.Timeout]. If find fails,
// start closes the handle.
func start(ctx context.Context, o Options, ledger [16]byte, find func(*Journal, context.Context) error) (*Journal,
	error) {
	s, err := o.check()
	if err != nil {
		return nil, err
	}
	j := newJournal(s, ledger)
	ctx, cancel := j.limited(ctx)
	defer cancel()
	if err := find(j, ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the journal in PostgreSQL: %w", err), j.Close())
	}
	return j, nil
}

// fits reports whether the database can store a position: its numbers have 63 bits.
func fits(p journal.Position) bool { return p.Events <= math.MaxInt64 }
