package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

func (h *Host) tokenCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Say who may do what of a ledger that is served",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return output.UsageError(`run "ledgerctl token --help"`, "say whether to add, to remove or to list tokens")
		},
	}
	cmd.PersistentFlags().StringVar(&path, "tokens", "", "the `FILE` with the tokens (default: the ledger's name and .tokens)")
	files.MarkAs(cmd.PersistentFlags(), ledgerfile.Tokens, "tokens")
	cmd.AddCommand(h.tokenAddCommand(&path), h.tokenRemoveCommand(&path), h.tokenListCommand(&path))
	return cmd
}

func (h *Host) tokenAddCommand(path *string) *cobra.Command {
	var role, whom string
	cmd := &cobra.Command{
		Use:   "add NAME --role ROLE",
		Short: "Make a token, and print it once",
		Long: `Make a token for a ledger that "ledgerctl serve" serves, and print it. The file keeps its hash only: whoever loses the
token needs another one. It counts at once, without a restart. The roles are

  operator   does everything
  desk       quotes, sells, reserves and hands out, in the name of any buyer; unless the server has --truth-url, it is
             trusted with true values
  buyer      of one buyer, --name: quotes, and reads what that one bought
  person     of one person, --name: has statements made
  auditor    reads everything, and copies the file
  metrics    reads counts

To rotate a token, add another one under a new name, hand it out, and remove the old one.`,
		Example: `  ledgerctl token add shop --role desk
  ledgerctl token add acme-2027 --role buyer --name acme`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if *path == "" {
				if _, err := os.Stat(*h.DB); errors.Is(err, fs.ErrNotExist) {
					return &output.Error{Kind: "not-found", Code: output.ExitMisuse, Hint: "give --db the ledger that is served, or --tokens FILE", Err: fmt.Errorf("there is no ledger at %q", *h.DB)}
				}
			}
			return h.tokenAdd(cmd.Context(), h.orTokens(*path), ledgerhttp.Token{Name: args[0], Role: ledgerhttp.Role(role), Whom: whom})
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "what whoever has it may do: a `ROLE`")
	cmd.Flags().StringVar(&whom, "name", "", "the buyer or the person, `WHOM`, of a token that is of one")
	// These fail only for a flag that was not defined.
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagRequired("role")
	return cmd
}

func (h *Host) orTokens(path string) string {
	if path == "" {
		return h.tokensFile()
	}
	return path
}

func (h *Host) tokenAdd(ctx context.Context, path string, t ledgerhttp.Token) error {
	if err := checkToken(t); err != nil {
		return err
	}
	token := ledgerhttp.NewToken()
	t.SHA256 = ledgerhttp.HashToken(token)
	_, err := h.changeTokens(ctx, path, true, func(all []ledgerhttp.Token) ([]ledgerhttp.Token, error) {
		if slices.ContainsFunc(all, func(other ledgerhttp.Token) bool { return other.Name == t.Name }) {
			return nil, output.UsageError("give it another NAME, or remove that one first", "there is a token of the name %q already", t.Name)
		}
		return append(all, t), nil
	})
	if err != nil {
		return err
	}
	if err := h.PrintDone(fmt.Sprintf("the token %q is made", t.Name), "", tokenResult{t.Name, t.Role, t.Whom, token, path}); err != nil {
		return &output.Error{Kind: "unexpected", Code: output.ExitUnexpected, Hint: "nobody has it: remove it, and add another one", Err: err}
	}
	return nil
}

// changeTokens changes the tokens of a file, which may be created, and returns those that it has then. The file to which path
// leads is locked, so that no other process changes it concurrently by another name.
func (h *Host) changeTokens(ctx context.Context, path string, made bool, change func([]ledgerhttp.Token) ([]ledgerhttp.Token, error)) ([]ledgerhttp.Token, error) {
	if err := h.CheckPlace("--tokens", path, ledgerfile.Tokens); err != nil {
		return nil, err
	}
	unlock, err := lockTokens(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path = ledgerfile.Real(path)
	file, err := h.readTokens(ctx, path, made)
	if err != nil {
		return nil, err
	}
	if file.Tokens, err = change(file.Tokens); err != nil {
		return nil, err
	}
	return file.Tokens, h.writeTokens(path, file)
}

// lockTokens keeps other processes from changing a file of tokens: what one of them has read before would bring back a token
// that was removed. The lock is beside the file to which path leads.
func lockTokens(path string) (unlock func(), err error) {
	lock := ledgerfile.Beside(path, ledgerfile.TokensLock)
	file, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		hint := fmt.Sprintf("try again; if none does, one was killed: remove %q", lock)
		return nil, &output.Error{Kind: "in-use", Code: output.ExitInUse, Hint: hint, Err: fmt.Errorf("another process is changing %q", path)}
	}
	if err != nil {
		return nil, output.InputError("", "--tokens: no file can be made in %q: %w", filepath.Dir(path), output.Cause(err))
	}
	unlock = func() { _ = os.Remove(lock) }
	_, err = file.WriteString(ledgerfile.LockText)
	if err = errors.Join(err, file.Close()); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// checkToken refuses what is wrong with a new token in the words of the command.
func checkToken(t ledgerhttp.Token) error {
	of := map[ledgerhttp.Role]string{ledgerhttp.Buyer: "BUYER", ledgerhttp.Person: "OBJECT"}[t.Role]
	switch {
	case t.Name == "":
		return output.UsageError("", "NAME is empty")
	case !slices.Contains(ledgerhttp.Roles(), t.Role):
		return output.UsageError(fmt.Sprintf("the roles are %s", strings.Join(roles(), ", ")), "there is no role %q", t.Role)
	case of != "" && t.Whom == "":
		return output.UsageError("", "--role %s needs --name %s", t.Role, of)
	case of == "" && t.Whom != "":
		return output.UsageError("--name is for the roles buyer and person", "--role %s has no --name", t.Role)
	}
	return nil
}

// roles returns the names of all roles.
func roles() (all []string) {
	for _, r := range ledgerhttp.Roles() {
		all = append(all, string(r))
	}
	return all
}

// readTokens reads a file of tokens, which may be missing if one is to be made.
func (h *Host) readTokens(ctx context.Context, path string, orNone bool) (file ledgerhttp.TokenFile, err error) {
	text, err := h.TextOrFile(ctx, "@"+path, maxTokens)
	if errors.Is(err, fs.ErrNotExist) && orNone {
		return file, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return file, &output.Error{Kind: "not-found", Code: output.ExitMisuse, Hint: `"ledgerctl token add" makes it; --tokens FILE says where it is`, Err: fmt.Errorf("there is no file of tokens at %q", path)}
	}
	if err != nil {
		return file, err
	}
	if file, err = ledgerhttp.ReadTokens(text); err != nil {
		return file, output.InputError("", "%q: %v", path, err)
	}
	return file, nil
}

// maxTokens is more than any file of tokens has, in bytes.
const maxTokens = 4 << 20

// writeTokens replaces a file of tokens, if whoever reads it will take it.
func (h *Host) writeTokens(path string, file ledgerhttp.TokenFile) error {
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	if _, err := ledgerhttp.ReadTokens(text); err != nil {
		return output.UsageError("", "%v", err)
	}
	out, err := h.NewFile("--tokens", path, ledgerfile.Tokens, 0o600)
	if err != nil {
		return err
	}
	defer out.Discard()
	return out.Save(func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

type tokenResult struct {
	Name  string          `json:"name"`
	Role  ledgerhttp.Role `json:"role"`
	Whom  string          `json:"whom,omitempty"`
	Token string          `json:"token"`
	File  string          `json:"file"`
}

func (r tokenResult) Table(w io.Writer) {
	fmt.Fprintf(w, "name\t%s\nrole\t%s\n", output.OneLine(r.Name), r.Role)
	if r.Whom != "" {
		fmt.Fprintf(w, "of\t%s\n", output.OneLine(r.Whom))
	}
	fmt.Fprintf(w, "token\t%s (secret: it is shown this once)\nfile\t%s\n", r.Token, r.File)
}

func (h *Host) tokenRemoveCommand(path *string) *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Short:             "Take a token away: it does not count any more, at once",
		Example:           "  ledgerctl token remove acme-2026",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			left, err := h.changeTokens(cmd.Context(), h.orTokens(*path), false, func(all []ledgerhttp.Token) ([]ledgerhttp.Token, error) {
				left := slices.DeleteFunc(slices.Clone(all), func(t ledgerhttp.Token) bool { return t.Name == args[0] })
				if len(left) == len(all) {
					return nil, output.UsageError(`"ledgerctl token list" shows their names`, "there is no token of the name %q", args[0])
				}
				return left, nil
			})
			if err != nil {
				return err
			}
			return h.PrintDone(fmt.Sprintf("the token %q is removed", args[0]), "", tokensResult{left})
		},
	}
}

func (h *Host) tokenListCommand(path *string) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List who may do what",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := h.readTokens(cmd.Context(), h.orTokens(*path), false)
			if err != nil {
				return err
			}
			return h.Print(tokensResult{append([]ledgerhttp.Token{}, file.Tokens...)})
		},
	}
}

// tokensResult lists tokens, by their hashes.
type tokensResult struct {
	Tokens []ledgerhttp.Token `json:"tokens"`
}

func (r tokensResult) Table(w io.Writer) {
	fmt.Fprintln(w, "NAME\tROLE\tOF")
	for _, t := range r.Tokens {
		fmt.Fprintf(w, "%s\t%s\t%s\n", output.OneLine(t.Name), t.Role, output.OneLine(t.Whom))
	}
}
