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

// ErrOptions is returned if the options are invalid, or name a server in which no journal can be: a
// standby, one that is read-only or does not flush, or one that is not PostgreSQL.
var ErrOptions = errors.New("options of a journal in PostgreSQL")

// Options say where a journal is, and who this host is among those that may go on with it.
// Database, Host, Keys and Others must be set.
type Options struct {
	// Database is the address of the database as libpq takes it: a URL or "host=… dbname=…". With
	// several hosts and target_session_attrs=primary it finds the primary of the moment. Ask for
	// sslmode=verify-full wherever somebody else could come between. No error of this package has a
	// part of it in its text, because it may have a password; the cause that errors.As finds may.
	Database string
	// Schema is where the tables are; "" is "sluice". Several ledgers share them.
	Schema string
	// Host is what this host is called, other than any other host: 1 to 100 bytes.
	Host string
	// Keys are those that lie on this host, such as those in a directory
	// ([keyholder.OpenDirectory]). The caller closes them, after the journal.
	Keys keyholder.Holder
	// Others are the holders of the hosts that may claim the journal, without this one: at least
	// one.
	Others []keyholder.Holder
	// Copies is with how many of the others the key of a segment must lie before anything is
	// encrypted under it; 0 is 1.
	Copies int
	// Bases is how many other hosts, at least, must have what Trim destroys, in durable bases of
	// their own ([Journal.Folded]); 0 is 1.
	Bases int
	// Synchronous refuses to append while the database does not wait for a standby
	// (synchronous_standby_names is empty): after a failover, say, to one that has no standby yet.
	Synchronous bool
	// Timeout is how long an append, a claim, or any other request to the database may take, the
	// wait for its standbys included; 0 is a minute. What became of an append that takes longer is
	// found out, within as long again; if that fails, it is uncertain.
	Timeout time.Duration
	// AcceptLoss lets Claim go on from where the journal ends, although somebody was told more
	// ([LostError]), if that is where it ends: what was behind is lost for good, and whoever was
	// told it is not asked again. It is for a person to decide, once.
	AcceptLoss *journal.Position
	// Restore lets [For] make the journal again in a database that has lost it, or its end. If the
	// ledger's file is ahead of what is there, that is destroyed, and the journal is made under the
	// name that the file has for it, where the file ends. It is for a person to decide, once, when
	// no database has the rest. What was acknowledged and is not in the file is a [*LostError] all
	// the same, unless AcceptLoss is where the file ends.
	Restore bool
}

// settings are options that were checked.
type settings struct {
	Options
	config *pgx.ConnConfig
}

// check checks options, and fills in what is usual.
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
	for wrong, is := range map[string]bool{
		"a host needs a name of 1 to 100 bytes of text":          o.Host == "" || len(o.Host) > 100 || !isText(o.Host),
		"a schema has a name of at most 63 bytes of text":        len(o.Schema) > 63 || !isText(o.Schema),
		"there must be keys on this host, and with another":      o.Keys == nil || len(o.Others) == 0,
		"as many copies of a key as there are other hosts":       o.Copies < 1 || o.Copies > len(o.Others),
		"at least one other base must have what is to be erased": o.Bases < 1,
		"a negative timeout": o.Timeout < 0,
	} {
		if is {
			return nil, fmt.Errorf("%w: %s", ErrOptions, wrong)
		}
	}
	config, err := connection(o.Database)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return &settings{o, config}, nil
}

// isText tells whether PostgreSQL takes a text.
func isText(text string) bool {
	for _, r := range text {
		if r == 0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

// createJournal makes the journal of a ledger, which begins at a position, and the tables if there
// are none. Errors: [fs.ErrExist] if the ledger has a journal there, [ErrOptions], those of the
// database.
func createJournal(ctx context.Context, o Options, ledger [16]byte, at journal.Position) (*Journal, error) {
	return start(ctx, o, ledger, func(j *Journal, ctx context.Context) error { return j.create(ctx, at) })
}

// Open opens the journal of a ledger. It changes nothing. Errors: [fs.ErrNotExist], ErrVersion of
// package api, [ErrOptions], those of the database.
func Open(ctx context.Context, o Options, ledger [16]byte) (*Journal, error) {
	return start(ctx, o, ledger, (*Journal).find)
}

// Ledgers returns the ids of the ledgers whose journals are in the schema. It changes nothing.
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

// For returns the Journal option of a ledger whose journal is in PostgreSQL: a function that opens
// it. The function makes the journal if there is none, the ledger's file names none, and the ledger
// is no standby.
func For(o Options) func(context.Context, journal.Wanted) (journal.Journal, error) {
	return func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := openOrMake(ctx, o, w)
		if err != nil {
			return nil, err
		}
		return j, nil
	}
}

func openOrMake(ctx context.Context, o Options, w journal.Wanted) (*Journal, error) {
	if o.Restore && w.Name != "" {
		return start(ctx, o, w.Ledger, func(j *Journal, ctx context.Context) error { return j.restore(ctx, w) })
	}
	j, err := Open(ctx, o, w.Ledger)
	if !errors.Is(err, fs.ErrNotExist) || w.Name != "" || w.Standby {
		return j, err
	}
	if j, err = createJournal(ctx, o, w.Ledger, w.At); errors.Is(err, fs.ErrExist) { // made concurrently
		return Open(ctx, o, w.Ledger)
	}
	return j, err
}

// start makes a handle, and has the journal found, or made.
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

// fits tells whether the database has numbers for a position.
func fits(p journal.Position) bool { return p.Events <= math.MaxInt64 }
