package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/internal/atomicfile"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) initCommand() *cobra.Command {
	var currency, signer string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a ledger and the key that signs its log",
		Long: `Create an empty ledger, and a new key pair for its log. Nothing that exists is overwritten.

The signing key signs the checkpoints, receipts and statements of "ledgerctl audit checkpoint", "ledgerctl sell
--receipt", "ledgerctl receipt make" and "ledgerctl statement make". It goes to a file of its own, readable by its
owner only. Keep it apart from the ledger and out of the backups of the ledger.

The log key is public. It is printed, and kept in the ledger: hand it out now to those who are to verify what the
signing key signs, buyers and auditors, since whoever can rewrite the ledger can rewrite the log key in it too.`,
		Example: `  ledgerctl init
  ledgerctl --db panel.db init --currency EUR --signer /run/secrets/panel.key`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := a.file(cmd); err != nil {
				return err
			}
			if signer == "" {
				signer = keys.SignerFile(a.db)
			}
			if err := a.CheckPlace("--db", a.db, ledgerfile.Ledger); err != nil {
				return err
			}
			if err := a.CheckPlace("--signer", signer, ledgerfile.SigningKey); err != nil {
				return err
			}
			made, err := createLedger(a.db, currency, signer)
			if err != nil {
				return err
			}
			return a.PrintDone("the ledger is made", "", made)
		}),
	}
	cmd.Flags().StringVar(&currency, "currency", "USD", "the `CODE` of the currency of all prices")
	cmd.Flags().StringVar(&signer, "signer", "", "the `FILE` for the signing key (default: the ledger's name and .key)")
	files.MarkAs(cmd.Flags(), ledgerfile.SigningKey, "signer")
	return cmd
}

type initResult struct {
	DB     string `json:"db"`
	LogKey string `json:"log_key"`
	Signer string `json:"signer"` // the file with the signing key
}

func (r initResult) Table(w io.Writer) {
	fmt.Fprintf(w, "ledger\t%s\nsigning key\t%s (secret: keep it apart from the ledger)\nlog key\t%s (public: buyers and auditors verify by it)\n", r.DB, r.Signer, r.LogKey)
}

// createLedger creates the key file and then the ledger, or neither.
func createLedger(db, currency, signer string) (initResult, error) {
	if _, err := os.Stat(db); err == nil {
		return initResult{}, exists(db, "nothing was changed; give --db another FILE")
	}
	secret, public, err := newKey()
	if err != nil {
		return initResult{}, err
	}
	if err := writeSecret(signer, secret); err != nil {
		return initResult{}, err
	}
	if err := ledger.Create(db, ledger.CreateOptions{Currency: currency, LogKey: public}); err != nil {
		return initResult{}, errors.Join(err, dropKey(db, signer, err))
	}
	return initResult{db, public, signer}, nil
}

// dropKey removes the key of a ledger that could not be created. A ledger that is there after all
// (its directory could not be synced, say) keeps its key.
func dropKey(db, signer string, cause error) error {
	if _, err := os.Stat(db); err == nil && !errors.Is(cause, fs.ErrExist) {
		return nil
	}
	return os.Remove(ledgerfile.Real(signer))
}

func exists(path, hint string) error {
	return &fault.Fault{Kind: "exists", Code: fault.Misuse, Hint: hint, Err: fmt.Errorf("%q exists already", path)}
}

// newKey generates an Ed25519 key pair in the text form of signed notes.
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
		return fault.Usage("", "--signer: the signing key goes to a file of its own, not to standard output")
	}
	err := atomicfile.Write(path, []byte(secret+"\n"), atomicfile.Options{New: true})
	if errors.Is(err, fs.ErrExist) {
		return exists(path, "nothing was changed; it may be the key of another ledger: keep it, and give --signer another FILE")
	}
	return err
}
