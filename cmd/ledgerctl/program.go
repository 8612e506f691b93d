package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/observe"
)

type initFlags struct {
	Currency string `flag:"currency" default:"USD"`
	Signer   string `flag:"signer,writes" kind:"signing key"`
}

// init runs the command init, which creates a ledger and its signing key.
func (a *app) init(cmd *cobra.Command, _ []string, f *initFlags) error {
	if err := a.requireFile(cmd); err != nil {
		return err
	}
	signer := cmp.Or(f.Signer, input.SignerFile(a.DB))
	if err := a.CheckPlace("--db", a.DB, ledgerfile.Ledger); err != nil {
		return err
	}
	if err := a.CheckPlace("--signer", signer, ledgerfile.SigningKey); err != nil {
		return err
	}
	public, err := createLedger(cmd.Context(), a.DB, f.Currency, signer)
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("db", "ledger", a.DB)
	out.Add("", "signing key", signer+" (secret: keep it apart from the ledger)")
	out.Add("log_key", "", public)
	out.Add("signer", "", signer)
	out.Add("", "log key", public+" (public: buyers and auditors verify with it)")
	return a.PrintDone("the ledger is created", "", out)
}

// createLedger creates the file of the signing key and then the ledger, or neither. It returns the
// log key.
func createLedger(ctx context.Context, db, currency, signer string) (string, error) {
	if _, err := os.Stat(db); err == nil {
		return "", exists(db, "nothing was changed; give --db another FILE")
	}
	secret, public, err := newKey()
	if err != nil {
		return "", err
	}
	if err := writeSecret(signer, secret); err != nil {
		return "", err
	}
	o := ledger.CreateOptions{Currency: currency, LogKey: public}
	if err := ledger.Create(ctx, db, o); err != nil {
		return "", errors.Join(err, dropKey(db, signer, err))
	}
	return public, nil
}

// dropKey removes the key of a ledger that could not be created. If the ledger exists nevertheless,
// for example because its directory could not be synced, the key stays.
func dropKey(db, signer string, cause error) error {
	if _, err := os.Stat(db); err == nil && !errors.Is(cause, fs.ErrExist) {
		return nil
	}
	return os.Remove(ledgerfile.Real(signer))
}

// exists returns the error for a file that exists already.
func exists(path, hint string) error {
	return &output.Error{Kind: "exists", Code: output.ExitMisuse, Hint: hint,
		Err: fmt.Errorf("%q exists already", path)}
}

// newKey generates an Ed25519 key pair in the text form of signed notes. Its name, which is also
// the name (the origin) of the log, is "sluice-" and 8 random hexadecimal digits.
func newKey() (secret, public string, err error) {
	name := make([]byte, 4)
	if _, err := rand.Read(name); err != nil {
		return "", "", err
	}
	return note.GenerateKey(rand.Reader, "sluice-"+hex.EncodeToString(name))
}

// writeSecret writes a new file that only its owner can read.
func writeSecret(path, secret string) error {
	if path == "-" {
		return output.UsageError("", "--signer: the signing key goes to a file of its own, not to standard output")
	}
	err := ledgerfile.Write(path, []byte(secret+"\n"), ledgerfile.Options{New: true})
	if errors.Is(err, fs.ErrExist) {
		return exists(path,
			"nothing was changed; it may be the key of another ledger: keep it, and give --signer another FILE")
	}
	return err
}

// copyCommand returns a command that writes a copy of the ledger to a new file. use is the name of
// the command and its argument, doing the word before the progress bar, and write makes the copy.
func (a *app) copyCommand(
	use, doing string,
	write func(backend, context.Context, string, func(done, total int)) (api.Copied, error),
) *cobra.Command {
	run := func(cmd *cobra.Command, args []string, _ *input.None) error {
		switch args[0] {
		case "":
			return output.UsageError("", "FILE is empty")
		case "-":
			return output.UsageError("give the name of a file",
				"a copy of the ledger cannot be written to standard output, because the written file is verified")
		}
		err := a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
			copied, err := write(l, ctx, args[0], a.Progress(doing))
			var out output.Fields
			out.Add("file", "copy, verified", args[0])
			out.Inline(copied, "bytes", "events")
			return out, err
		})
		if errors.Is(err, fs.ErrExist) {
			return exists(args[0], "nothing was changed; give another FILE, or remove it")
		}
		return err
	}
	return input.MarkArguments(input.Command(a.Files, use, run), input.Writes)
}

// stats runs the command stats, which counts what is in the ledger.
func (a *app) stats(cmd *cobra.Command, _ []string, _ *input.None) error {
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		stats, err := l.Stats(ctx)
		about := l.About()
		var out output.Fields
		rows := []string{"id ledger", "created", "origin log"}
		if about.LogKey != "" {
			rows = append(rows, "log_key log key")
		}
		rows = append(rows, "objects", "questions", "chains", "events", "buyers", "sales", "revenue", "bytes")
		out.Inline(struct {
			creation
			api.Stats
		}{creation{about}, stats}, rows...)
		if about.MissingJournal != "" {
			out.Add("", "journal", fmt.Sprintf("MISSING (%s): events only in it are not counted", about.MissingJournal))
		}
		return out, err
	})
}

// creation embeds About one level deeper, so that in JSON the currency is that of Stats.
type creation struct{ api.About }

// health returns the health of the ledger ([ledger.Ledger.Health]).
func (a *app) health(ctx context.Context) (out observe.Health, err error) {
	err = a.with(ctx, reading, func(l backend) (err error) {
		out, err = l.Health(ctx)
		return err
	})
	return out, err
}

// takeOver runs the command takeover, which lets a served standby take over the ledger.
func (a *app) takeOver(cmd *cobra.Command, _ []string, _ *input.None) error {
	switch {
	case a.ambiguous != nil:
		return a.ambiguous
	case a.Remote.Address == "":
		return output.UsageError(`"ledgerctl serve --standby" serves a standby`,
			"a served standby takes over: give its address by --addr")
	}
	l, err := a.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	events, err := l.TakeOver(cmd.Context())
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("addr", "has the ledger", a.Remote.Address)
	out.Add("events", "events", events)
	return a.PrintDone("the standby has taken over", "", out)
}

// version runs the command version.
func (a *app) version(*cobra.Command, []string, *input.None) error {
	info, _ := debug.ReadBuildInfo()
	v := newVersion(info)
	changed := ""
	if v.Modified {
		changed = ", with files changed since"
	}
	var out output.Fields
	out.Inline(v)
	out.Add("", "version", cmp.Or(v.Version, unknown))
	out.Add("", "revision", cmp.Or(v.Revision, unknown)+changed)
	out.Add("", "of", cmp.Or(v.Time, unknown))
	out.Add("", "go", cmp.Or(v.Go, unknown))
	return a.Print(out)
}

// unknown replaces data that the build does not have.
const unknown = "(unknown)"

// versionResult is the version data of a build.
type versionResult struct {
	Version  string `json:"version"`  // of the module, or ""
	Revision string `json:"revision"` // in version control, or ""
	Time     string `json:"time"`     // of the revision, or ""
	Modified bool   `json:"modified"` // files differed from the revision
	Go       string `json:"go"`       // the version of Go, or ""
}

// newVersion returns the version data in the build info, which may be nil.
func newVersion(info *debug.BuildInfo) (out versionResult) {
	if info == nil {
		return out
	}
	out.Version, out.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Revision = s.Value
		case "vcs.time":
			out.Time = s.Value
		case "vcs.modified":
			out.Modified = s.Value == "true"
		}
	}
	return out
}
