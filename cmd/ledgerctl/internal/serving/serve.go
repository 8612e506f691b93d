// Package serving holds the commands by which a ledger is served, and by which is said who may do
// what of it.
package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgerhttp/metrics"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Host is what the commands have from the program.
type Host struct {
	*output.Printer
	*input.Files
	// the ledger's file, when a command runs
	DB *string
	// refuses a command where no file is meant
	Check func(cmd *cobra.Command) error
	Open  func(ctx context.Context, options ledger.Options) (*ledger.Ledger, error) // opens the file
	// Health is that of the ledger in the file, or at an address.
	Health func(ctx context.Context) (observe.Health, error)
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{h.serveCommand(), h.healthCommand(), h.tokenCommand(), h.keyholderCommand(),
		h.journalCommand()}
}

// serveFlags are the flags of serve.
type serveFlags struct {
	listen, tokens, truthURL, truthToken string
	truthTimeout                         time.Duration
	tls                                  tlsFiles
	signer                               input.Signer
	journal                              string
	standby                              bool
	limits                               limits
}

func (h *Host) serveCommand() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:  "serve",
		RunE: func(cmd *cobra.Command, _ []string) error { return h.serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "",
		"the `ADDRESS` to listen on, unix:PATH or HOST:PORT (default: unix: and the ledger's name and .sock)")
	flags.StringVar(&f.tokens, "tokens", "",
		"the `FILE` with the tokens (default on HOST:PORT: the ledger's name and .tokens)")
	flags.StringVar(&f.tls.Cert, "tls-cert", "",
		"a `FILE` with the server's certificate, in PEM; it may be renewed meanwhile")
	flags.StringVar(&f.tls.Key, "tls-key", "", "a `FILE` with the key of --tls-cert, in PEM")
	flags.StringVar(&f.tls.ClientCA, "client-ca", "",
		"a `FILE` with the certificates, in PEM, that a client's must be signed by (default: clients need none)")
	flags.StringVar(&f.truthURL, "truth-url", "",
		"the `URL` that is asked for true values which draws need and requests do not bring")
	flags.StringVar(&f.truthToken, "truth-token", "", "a `FILE` with the token for --truth-url")
	flags.DurationVar(&f.truthTimeout, "truth-timeout", time.Minute, "how long one answer of --truth-url may take")
	flags.StringVar(&f.journal, "journal", "", "the `FILE` that says where the journal is, if that is in PostgreSQL")
	flags.BoolVar(&f.standby, "standby", false,
		"follow the host that has the ledger, and change nothing before a takeover")
	f.signer.Flag(cmd)
	f.limits.define(flags)
	input.Mark(flags, input.Reads, input.ByName, "tokens", "tls-cert", "tls-key", "client-ca", "truth-token", "journal")
	return cmd
}

// tokensFile is where the tokens of a ledger are unless a flag names another file.
func (h *Host) tokensFile() string { return ledgerfile.Beside(*h.DB, ledgerfile.Tokens) }

// socketFile is where the socket of a ledger is unless --listen says otherwise: beside the file,
// also if that has the name of an abstract socket.
func (h *Host) socketFile() string {
	path := ledgerfile.Beside(*h.DB, ledgerfile.Socket)
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	return path
}

func (h *Host) serve(cmd *cobra.Command, f *serveFlags) (err error) {
	if err := h.Check(cmd); err != nil {
		return err
	}
	if f.standby && f.journal == "" {
		return output.UsageError("give --journal FILE", "a standby follows a journal that other hosts have, too")
	}
	if err := f.limits.check(); err != nil {
		return err
	}
	if f.listen == "" {
		f.listen = "unix:" + h.socketFile()
	}
	if path, unix := strings.CutPrefix(f.listen, "unix:"); unix {
		if err := h.CheckPlace("--listen", path, ledgerfile.Socket); err != nil {
			return err
		}
	}
	options, err := h.serveOptions(cmd.Context(), f)
	if err != nil {
		return err
	}
	signer, err := h.serveSigner(cmd.Context(), f)
	if err != nil {
		return err
	}
	counts := metrics.New()
	options.Meter = counts
	opening := ledger.Options{Observer: counts, Signer: signer, TruthTimeout: f.truthTimeout, Standby: f.standby,
		Logger: options.Logger.Level(max(zerolog.WarnLevel, options.Logger.GetLevel()))}
	if f.journal != "" {
		j, err := openJournal(cmd.Context(), h.Files, f.journal)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		opening.Journal = j.Find
		if f.standby {
			options.Leader = j.Leader
		}
	}
	l, err := h.Open(cmd.Context(), opening)
	if err != nil {
		return err
	}
	handler, err := ledgerhttp.New(l, options)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, handler.Ledger().Close()) }()
	return h.serveOn(cmd.Context(), f, handler, signer)
}

// serveOn serves what was opened.
func (h *Host) serveOn(ctx context.Context, f *serveFlags, handler *ledgerhttp.Handler, signer note.Signer) error {
	l := handler.Ledger()
	if signer != nil {
		if err := input.CheckSigner(signer, l.About().LogKey); err != nil {
			return err
		}
	}
	at, err := listenOn(ctx, f.listen, f.tls, h.Files, f.limits.bound)
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("db", "ledger", *h.DB)
	out.Add("addr", "served at", f.address(at)) // for --addr
	out.Add("log_key", "log key", l.About().LogKey)
	if err := h.Print(out); err != nil {
		return errors.Join(err, at.Close())
	}
	return until(ctx, handler, f.limits.server(handler), at)
}

// address is what commands give as --addr.
func (f *serveFlags) address(at net.Listener) string {
	switch {
	case strings.HasPrefix(f.listen, "unix:"):
		return f.listen
	case f.tls.Cert != "":
		return "https://" + at.Addr().String()
	}
	return "http://" + at.Addr().String()
}

// grace is how long requests under way may go on when the server is told to end.
const grace = 20 * time.Second

// until serves until ctx ends, and then until what is under way is done. What is not done by then
// goes on when it is asked for again, by its key.
func until(ctx context.Context, handler *ledgerhttp.Handler, server *http.Server, at net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(at) }()
	gone := stopped(ctx, handler)
	var why error
	select {
	case err := <-ended:
		return err
	case why = <-gone:
	case <-ctx.Done():
	}
	handler.EndStreams()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(within)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if why != nil {
		err = &output.Error{Kind: "stopped", Code: output.ExitStopped,
			Hint: "serve it again, as a standby if it has been taken over from", Err: errors.Join(why, err)}
	}
	return err
}

// lookEvery is how soon a server ends when its ledger has stopped.
const lookEvery = time.Second

// stopped returns a channel on which the error comes with which the ledger has stopped. It looks
// until ctx ends.
func stopped(ctx context.Context, handler *ledgerhttp.Handler) <-chan error {
	why := make(chan error, 1)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := handler.Ledger().Health(ctx); errors.Is(err, ledger.ErrStopped) {
				why <- err
				return
			}
		}
	}()
	return why
}

// serveOptions says who may do what, and where true values come from.
func (h *Host) serveOptions(ctx context.Context, f *serveFlags) (o ledgerhttp.Options, err error) {
	level := zerolog.InfoLevel
	if h.Quiet {
		level = zerolog.ErrorLevel
	}
	o.Limits = f.limits.handler()
	o.Scratch = filepath.Dir(ledgerfile.Real(*h.DB)) // copies of the ledger are in its directory
	o.Logger = zerolog.New(h.Stderr).Level(level).With().Timestamp().Logger()
	if o.Gate, err = h.gate(f, o.Logger); err != nil {
		return o, err
	}
	if f.truthURL == "" && f.truthToken != "" {
		return o, output.UsageError("", "--truth-token is for --truth-url")
	}
	if f.truthURL == "" {
		return o, nil
	}
	token := ""
	if f.truthToken != "" {
		text, err := h.TextOrFile(ctx, "@"+f.truthToken, maxToken)
		if err != nil {
			return o, err
		}
		token = strings.TrimSpace(string(text))
	}
	if o.Truth, err = ledgerhttp.TruthAt(f.truthURL, token, nil); err != nil {
		return o, output.UsageError("", "--truth-url: %v", err)
	}
	return o, nil
}

// maxToken is more than any token has, in bytes.
const maxToken = 64 << 10

// gate says who may come. On a Unix socket that is its owner, unless tokens are asked for.
func (h *Host) gate(f *serveFlags, log zerolog.Logger) (ledgerhttp.Gate, error) {
	path := f.tokens
	switch {
	case path == "" && strings.HasPrefix(f.listen, "unix:"):
		return ledgerhttp.Everybody{Name: "owner", Role: ledgerhttp.Operator}, nil
	case path == "":
		path = h.tokensFile()
	}
	tokens, err := ledgerhttp.OpenTokens(path,
		func(err error) { log.Error().Err(err).Msg("the file of tokens cannot be read: nobody is let in") })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &output.Error{Kind: "not-found", Code: output.ExitMisuse, Hint: `"ledgerctl token add" makes it`,
			Err: fmt.Errorf("there is no file of tokens at %q", path)}
	}
	if err != nil {
		return nil, output.InputError("", "%v", err)
	}
	return tokens, nil
}

// serveSigner returns the key that signs, or nil if none is there and none is asked for.
func (h *Host) serveSigner(ctx context.Context, f *serveFlags) (note.Signer, error) {
	if f.signer.Path == "" {
		if _, err := os.Stat(input.SignerFile(*h.DB)); errors.Is(err, fs.ErrNotExist) {
			h.Warn(fmt.Sprintf("there is no signing key at %q: nothing is signed; --signer FILE says where it is",
				input.SignerFile(*h.DB)))
			return nil, nil
		}
	}
	return f.signer.Load(ctx, h.Files, *h.DB)
}
