// Package serving has the commands that serve a ledger, manage the tokens of its callers, and
// repair a shared journal.
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
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgerhttp/metrics"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Host gives the commands access to the program.
type Host struct {
	*output.Printer
	*input.Files
	// DB is the path of the ledger's file. It is set when a command runs.
	DB *string
	// Check returns an error if the command line names an address in place of a file.
	Check func(cmd *cobra.Command) error
	Open  func(ctx context.Context, options ledger.Options) (*ledger.Ledger, error) // opens the file
	// Health returns the health of the ledger in the file, or at an address.
	Health func(ctx context.Context) (observe.Health, error)
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{
		input.Command(h.Files, "serve", h.serve),
		input.Command(h.Files, "health", h.health),
		h.tokenCommand(),
		input.Command(h.Files, "keyholder --journal FILE", h.keyholder),
		input.Group("journal", "no command given",
			input.Command(h.Files, "restore --journal FILE", h.restore),
			input.Command(h.Files, "accept-loss --journal FILE --events N", h.acceptLoss),
			input.Command(h.Files, "dismiss HOST --journal FILE", h.dismiss)),
	}
}

// serveFlags are the flags of serve.
type serveFlags struct {
	Listen       string        `flag:"listen"`
	Tokens       string        `flag:"tokens,reads"`
	TruthURL     string        `flag:"truth-url"`
	TruthToken   string        `flag:"truth-token,reads,needs=truth-url"`
	TruthTimeout time.Duration `flag:"truth-timeout" default:"1m"`
	Journal      string        `flag:"journal,reads"`
	Standby      bool          `flag:"standby,needs=journal"`
	TLS          tlsFiles
	Signer       input.Signer
	Limits       limits
}

// tokensFile returns the default path of the token file of the ledger.
func (h *Host) tokensFile() string { return ledgerfile.Beside(*h.DB, ledgerfile.Tokens) }

// socketFile returns the default path of the socket of the ledger, beside the file. A path that
// begins with @, as the names of abstract sockets do, gets a ./ before it.
func (h *Host) socketFile() string {
	path := ledgerfile.Beside(*h.DB, ledgerfile.Socket)
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	return path
}

// serve runs the command serve, which serves the ledger until the command is interrupted or the
// ledger stops. With --journal, it also serves the keys of the journal to the other hosts.
func (h *Host) serve(cmd *cobra.Command, _ []string, f *serveFlags) (err error) {
	if err := h.Check(cmd); err != nil {
		return err
	}
	if err := f.Limits.check(); err != nil {
		return err
	}
	if f.Listen == "" {
		f.Listen = "unix:" + h.socketFile()
	}
	if path, unix := strings.CutPrefix(f.Listen, "unix:"); unix {
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
	options.Answered, options.Metrics = counts.Answered, counts.ServeMetrics
	opening := ledger.Options{Observer: counts, Signer: signer, TruthTimeout: f.TruthTimeout, Standby: f.Standby,
		Logger: options.Logger.Level(max(zerolog.WarnLevel, options.Logger.GetLevel()))}
	if f.Journal != "" {
		j, err := openJournal(cmd.Context(), h.Files, f.Journal)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		opening.Journal = j.Find
		if f.Standby {
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

// serveOn serves the ledger of a handler, after it has printed the address. It returns an error if
// the signing key is not the ledger's.
func (h *Host) serveOn(ctx context.Context, f *serveFlags, handler *ledgerhttp.Handler, signer note.Signer) error {
	l := handler.Ledger()
	if signer != nil {
		if err := input.CheckSigner(signer, l.About().LogKey); err != nil {
			return err
		}
	}
	at, err := listenOn(ctx, f.Listen, f.TLS, h.Files, handler.Listener)
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
	return serveUntil(ctx, handler, f.Limits.server(handler), at)
}

// address returns the address for the --addr of other commands.
func (f *serveFlags) address(at net.Listener) string {
	switch {
	case strings.HasPrefix(f.Listen, "unix:"):
		return f.Listen
	case f.TLS.Cert != "":
		return "https://" + at.Addr().String()
	}
	return "http://" + at.Addr().String()
}

// grace is the time that running requests have to finish when the server ends.
const grace = 20 * time.Second

// serveUntil serves until ctx ends or the ledger stops, and then lets running requests finish
// within grace. A request that does not finish continues when it is repeated with its key.
func serveUntil(ctx context.Context, handler *ledgerhttp.Handler, server *http.Server, at net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(at) }()
	stopped := watchStop(ctx, handler)
	var why error
	select {
	case err := <-ended:
		return err
	case why = <-stopped:
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
			Hint: "serve it again, as a standby if another host has taken over", Err: errors.Join(why, err)}
	}
	return err
}

// healthInterval is the interval of checks whether the ledger has stopped.
const healthInterval = time.Second

// watchStop returns a channel that receives an error if the ledger stops before ctx ends. It finds
// this out by calling Health once a second, which also notices that another host has taken over.
func watchStop(ctx context.Context, handler *ledgerhttp.Handler) <-chan error {
	why := make(chan error, 1)
	go func() {
		tick := time.NewTicker(healthInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := handler.Ledger().Health(ctx); errors.Is(err, api.ErrStopped) {
				why <- err
				return
			}
		}
	}()
	return why
}

// serveOptions returns the options for who may call, limits, logging, and the source of true
// values.
func (h *Host) serveOptions(ctx context.Context, f *serveFlags) (o ledgerhttp.Options, err error) {
	level := zerolog.InfoLevel
	if h.Quiet {
		level = zerolog.ErrorLevel
	}
	o.Limits = f.Limits.handler()
	o.Scratch = filepath.Dir(ledgerfile.Real(*h.DB)) // copies of the ledger are in its directory
	o.Logger = zerolog.New(h.Stderr).Level(level).With().Timestamp().Logger()
	if o.Gate, err = h.gate(f, o.Logger); err != nil {
		return o, err
	}
	if f.TruthURL == "" {
		return o, nil
	}
	token := ""
	if f.TruthToken != "" {
		text, err := h.TextOrFile(ctx, "@"+f.TruthToken, maxToken)
		if err != nil {
			return o, err
		}
		token = strings.TrimSpace(string(text))
	}
	if o.Truth, err = httpapi.TruthsAt(f.TruthURL, token); err != nil {
		return o, output.UsageError("", "--truth-url: %v", err)
	}
	return o, nil
}

// maxToken is larger than any token, in bytes.
const maxToken = 64 << 10

// gate returns the function that authenticates callers. On a Unix socket without --tokens, every
// caller is its owner.
func (h *Host) gate(
	f *serveFlags, log zerolog.Logger,
) (func(*http.Request) (ledgerhttp.Holder, bool), error) {
	path := f.Tokens
	switch {
	case path == "" && strings.HasPrefix(f.Listen, "unix:"):
		return ledgerhttp.Holder{Name: "owner", Role: "operator"}.Admit, nil
	case path == "":
		path = h.tokensFile()
	}
	gate, err := ledgerhttp.OpenTokens(path,
		func(err error) { log.Error().Err(err).Msg("the token file cannot be read: all requests are rejected") })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, output.NotFound(`"ledgerctl token add" creates it`, "there is no token file at %q", path)
	}
	if err != nil {
		return nil, output.InputError("", "%v", err)
	}
	return gate, nil
}

// serveSigner returns the signing key. If --signer is not given and the default file is missing, it
// warns, and returns nil.
func (h *Host) serveSigner(ctx context.Context, f *serveFlags) (note.Signer, error) {
	path := input.SignerFile(*h.DB)
	if _, err := os.Stat(path); f.Signer.Path == "" && errors.Is(err, fs.ErrNotExist) {
		h.Warn(fmt.Sprintf("there is no signing key at %q: nothing is signed; --signer FILE names its file", path))
		return nil, nil
	}
	return f.Signer.Load(ctx, h.Files, *h.DB)
}

// health runs the command health. A ledger that has stopped is printed and is also an error.
// Without a role, nothing is known about the ledger, and nothing is printed.
func (h *Host) health(cmd *cobra.Command, _ []string, _ *input.None) error {
	health, err := h.Health(cmd.Context())
	if health.Host.Role == "" {
		return err
	}
	return errors.Join(h.Print(describeHealth(health)), err)
}

// describeHealth returns the health of a ledger as it is printed.
func describeHealth(h observe.Health) (out output.Fields) {
	leader, term, lag := h.Host.Leader, fmt.Sprint(h.Host.Term), fmt.Sprint(h.Host.Lag)
	switch {
	case !h.Host.Answered:
		const unknown = "unknown, because the journal does not answer"
		leader, term, lag = unknown, unknown, unknown
	case h.Host.Term == 0:
		leader, term = "this host alone", "none"
	}
	out.Add("", "role", h.Host.Role)
	out.Add("", "leader", leader)
	out.Add("", "term", term)
	out.Add("", "lag", lag)
	out.Add("", "fenced", h.Host.Fenced)
	out.Inline(h, "events", "waiting", "pending", "reservations")
	out.Add("", "memory", fmt.Sprintf("%d of %d bytes", h.Memory, h.Room))
	out.Add("", "file", fmt.Sprintf("%d bytes, %d of them free", h.Bytes, h.Free))
	return out
}
