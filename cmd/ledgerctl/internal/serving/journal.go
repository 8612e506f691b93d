package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
)

// journalFlag is the flag for the file with the settings of a journal.
type journalFlag struct {
	Journal string `flag:"journal,required,reads"`
}

// restore runs the command journal restore, which creates the journal of a ledger again in a
// database that has lost it. The new journal begins where the ledger's file ends.
func (h *Host) restore(cmd *cobra.Command, _ []string, f *journalFlag) error {
	return h.reopened(cmd, f.Journal, "the journal continues after the events of the file",
		func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
			return h.Open(ctx, ledger.Options{Journal: j.Restore})
		})
}

type acceptLossFlags struct {
	journalFlag
	Events uint64 `flag:"events"`
}

// acceptLoss runs the command journal accept-loss, which opens a ledger although its journal lacks
// acknowledged events.
func (h *Host) acceptLoss(cmd *cobra.Command, _ []string, f *acceptLossFlags) error {
	return h.reopened(cmd, f.Journal, "the loss is accepted",
		func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
			return h.openWithLoss(ctx, j, f.Events)
		})
}

// openWithLoss opens the ledger although events are lost. events is the confirmation of the user:
// the number of events that are left. If it is another number, the error reports the right one. If
// no event is lost, that is an error, too.
func (h *Host) openWithLoss(ctx context.Context, j *sharedJournal, events uint64) (*ledger.Ledger, error) {
	l, err := h.Open(ctx, ledger.Options{Journal: j.Restore})
	if err == nil {
		return nil, errors.Join(output.InputError("", "no event is lost: there is nothing to accept"), l.Close())
	}
	lost, isLost := errors.AsType[*pgjournal.LostError](err)
	switch {
	case !isLost:
		return nil, err
	case lost.End.Events != events:
		return nil, &output.Error{Kind: "journal", Code: output.ExitIntegrity,
			Hint: fmt.Sprintf("to accept the loss, give --events %d", lost.End.Events), Err: err}
	}
	j.options.AcceptLoss = &lost.End // allows a ledger that ends here, without later acknowledged events
	return h.Open(ctx, ledger.Options{Journal: j.Restore})
}

// reopened opens the ledger by a function that changes its journal, closes it, and prints how many
// events the log has. path is the file of --journal, and done describes the change.
func (h *Host) reopened(cmd *cobra.Command, path, done string,
	open func(context.Context, *sharedJournal) (*ledger.Ledger, error)) (err error) {
	if err := h.Check(cmd); err != nil {
		return err
	}
	j, err := openJournal(cmd.Context(), h.Files, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	l, err := open(cmd.Context(), j)
	if err != nil {
		return err
	}
	stats, err := l.Stats(cmd.Context())
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	return h.PrintDone(done, "", journalEnd(stats.Events))
}

type dismissFlags struct {
	journalFlag
	Ledger string `flag:"ledger"`
}

// dismiss runs the command journal dismiss, after which the journal is trimmed without waiting for
// a host.
func (h *Host) dismiss(cmd *cobra.Command, args []string, f *dismissFlags) error {
	head, err := dismissHost(cmd.Context(), h.Files, f.Journal, f.Ledger, args[0])
	if err != nil {
		return err
	}
	out := journalEnd(head.End.Events)
	out.Add("host", "dismissed", args[0])
	return h.PrintDone(fmt.Sprintf("host %q is dismissed", args[0]), "", out)
}

// journalEnd returns the current end of a journal as it is printed.
func journalEnd(events uint64) (out output.Fields) {
	out.Add("events", "events", events)
	out.Add("time", "time", time.Now().UTC())
	return out
}

// settings are the settings of a journal in the file of --journal. "ledgerctl serve --help"
// explains them.
type settings struct {
	Database    string            `json:"database"`
	Schema      string            `json:"schema"`
	Synchronous bool              `json:"synchronous"`
	Host        string            `json:"host"`
	Keys        string            `json:"keys"`
	Listen      string            `json:"listen"`
	Others      map[string]string `json:"others"`
	Cert        string            `json:"cert"`
	Key         string            `json:"key"`
	Authority   string            `json:"authority"`
}

// mostSettings is larger than any file of settings, in bytes.
const mostSettings = 1 << 20

// readSettings reads a file of settings. Relative paths in it are relative to its directory.
func readSettings(ctx context.Context, f *input.Files, path string) (s settings, err error) {
	text, err := f.TextOrFile(ctx, "@"+path, mostSettings)
	if err != nil {
		return s, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&s); err != nil {
		return s, output.InputError(`"ledgerctl serve --help" shows the format`,
			"--journal: %q is not a JSON file of a journal's settings: %s", path, jsonReason(err))
	}
	input.WarnExposed(f.Out, path)
	for _, must := range []struct{ name, value string }{
		{"database", s.Database}, {"host", s.Host}, {"keys", s.Keys}, {"listen", s.Listen}, {"cert", s.Cert},
		{"key", s.Key}, {"authority", s.Authority},
	} {
		if must.value == "" {
			return s, output.InputError("", "--journal %q: %q is missing", path, must.name)
		}
	}
	if len(s.Others) == 0 {
		return s, output.InputError("", `--journal %q: "others" is missing: at least two hosts share a journal`, path)
	}
	for _, at := range []*string{&s.Keys, &s.Cert, &s.Key, &s.Authority} {
		if !filepath.IsAbs(*at) {
			*at = filepath.Join(filepath.Dir(path), *at)
		}
	}
	return s, nil
}

// jsonReason describes what is wrong with the file, without its values, because one of them has a
// password.
func jsonReason(err error) string {
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		return fmt.Sprintf("a syntax error at byte %d", syntax.Offset)
	}
	if kind, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Sprintf("%q is not a %v", kind.Field, kind.Type)
	}
	return err.Error() // an unknown field, or the end of the file
}

// sharedJournal is a journal that this host shares with others.
type sharedJournal struct {
	Host    string // the name of this host
	Address string // at which its keys are served
	options pgjournal.Options
	own     keyholder.Holder                  // the keys of this host
	server  *http.Server                      // of the keys
	ended   chan error                        // receives the error of server
	now     atomic.Pointer[pgjournal.Journal] // the journal that Find has opened last
}

// openJournal reads the file of settings, and serves the keys of this host until Close. The ledger
// must be closed first. The journal itself is opened with the ledger.
func openJournal(ctx context.Context, f *input.Files, path string) (*sharedJournal, error) {
	s, err := readSettings(ctx, f, path)
	if err != nil {
		return nil, err
	}
	config, err := mutual(ctx, f, s)
	if err != nil {
		return nil, err
	}
	j := &sharedJournal{Host: s.Host, ended: make(chan error, 1)}
	if j.options, err = s.options(config, path); err != nil {
		return nil, err
	}
	if j.own, err = keyholder.OpenDirectory(s.Keys); err != nil {
		return nil, err
	}
	j.options.Keys = j.own
	at, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, errors.Join(err, j.own.Close())
	}
	j.Address = at.Addr().String()
	j.server = &http.Server{Handler: keyholder.Handler(j.own), ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { j.ended <- j.server.Serve(tls.NewListener(at, config)) }()
	return j, nil
}

// options returns the options of the journal, without the keys of this host. config authenticates
// the hosts.
func (s settings) options(config *tls.Config, path string) (o pgjournal.Options, err error) {
	o = pgjournal.Options{Database: s.Database, Schema: s.Schema, Host: s.Host, Synchronous: s.Synchronous}
	for _, name := range slices.Sorted(maps.Keys(s.Others)) {
		other, err := keyholder.Dial(name, s.Others[name], config)
		if err != nil {
			return o, output.InputError("", "--journal %q: %v", path, err)
		}
		o.Others = append(o.Others, other)
	}
	return o, nil
}

// mutual returns the TLS configuration by which the hosts authenticate each other.
func mutual(ctx context.Context, f *input.Files, s settings) (*tls.Config, error) {
	pool, err := input.Pool(ctx, f, `"authority"`, s.Authority)
	if err != nil {
		return nil, err
	}
	own, err := input.Pair(ctx, f, s.Cert, s.Key)
	if err != nil {
		return nil, output.InputError("", `"cert", "key": %w`, err)
	}
	input.WarnExposed(f.Out, s.Key)
	return keyholder.Mutual(own, pool), nil
}

// Restore is Find for a database that has lost the journal, or the end of it ([pgjournal.Options]).
func (j *sharedJournal) Restore(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	o := j.options
	o.Restore = true
	return pgjournal.For(o)(ctx, w)
}

// dismissHost removes the record of a host's base (up to where its file has all events) from the
// journal of a ledger, so that trimming no longer waits for this host. It returns the head (the
// end) of the journal. path is the file of --journal; ledger is the id of the ledger, or "". It
// opens neither the ledger's file nor the keys of this host, which a server may have open.
func dismissHost(ctx context.Context, f *input.Files, path, ledger, host string) (head journal.Head, err error) {
	s, err := readSettings(ctx, f, path)
	if err != nil {
		return head, err
	}
	if _, other := s.Others[host]; !other && host != s.Host {
		return head, output.InputError("", "%q is neither this host nor one of its \"others\" in %q", host, path)
	}
	config, err := mutual(ctx, f, s)
	if err != nil {
		return head, err
	}
	o, err := s.options(config, path)
	if err != nil {
		return head, err
	}
	o.Keys = o.Others[0] // required, but not used
	id, err := idOf(ctx, o, ledger)
	if err != nil {
		return head, err
	}
	j, err := pgjournal.Open(ctx, o, id)
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if head, err = j.Head(ctx); err != nil {
		return head, err
	}
	if head.Host == host {
		return head, output.InputError("let a standby take over first",
			"host %q is the primary of the ledger, and cannot be dismissed", host)
	}
	return head, j.Dismiss(ctx, host)
}

// idOf parses the id of a ledger. For "" it returns the only ledger in the database.
func idOf(ctx context.Context, o pgjournal.Options, text string) (id [16]byte, err error) {
	if text != "" {
		id, err := uuid.Parse(text)
		if err != nil {
			return id, output.UsageError("", "--ledger: %q is not the id of a ledger", text)
		}
		return id, nil
	}
	all, err := pgjournal.Ledgers(ctx, o)
	if err != nil {
		return id, err
	}
	if len(all) != 1 {
		return id, output.UsageError("give --ledger; the ids are in the column ledger of the table heads",
			"the database has the journals of %d ledgers", len(all))
	}
	return all[0], nil
}

// Find finds the journal of a ledger that is opened ([ledger.Options.Journal]).
func (j *sharedJournal) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	found, err := pgjournal.For(j.options)(ctx, w)
	if mine, is := found.(*pgjournal.Journal); err == nil && is {
		j.now.Store(mine)
	}
	if errors.Is(err, fs.ErrNotExist) { // would be mistaken for a missing ledger file
		err = output.InputError("without --standby, the journal of a ledger that has none yet is created", "%v", err)
	}
	return found, err
}

// Leader returns the host that was the last to claim the journal.
func (j *sharedJournal) Leader(ctx context.Context) (string, error) {
	now := j.now.Load()
	if now == nil {
		return "", journal.ErrStopped
	}
	return now.Leader(ctx)
}

// Until waits until ctx ends, and returns nil. If the keys can no longer be served before that, it
// returns the error.
func (j *sharedJournal) Until(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-j.ended:
		j.ended <- err // for Close
		return err
	}
}

// Close stops serving the keys, and closes the directory of this host's keys.
func (j *sharedJournal) Close() error {
	err := j.server.Close()
	if ended := <-j.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return errors.Join(err, j.own.Close())
}

// keyholder runs the command keyholder, which serves the keys of this host until it is interrupted.
func (h *Host) keyholder(cmd *cobra.Command, _ []string, f *journalFlag) (err error) {
	j, err := openJournal(cmd.Context(), h.Files, f.Journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var out output.Fields
	out.Add("host", "host", j.Host)
	out.Add("listen", "keys at", j.Address)
	if err := h.Print(out); err != nil {
		return err
	}
	return j.Until(cmd.Context())
}
