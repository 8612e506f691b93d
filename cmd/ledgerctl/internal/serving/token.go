package serving

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// tokenFlags are the flags of all commands about tokens.
type tokenFlags struct {
	Tokens string `flag:"tokens,writes" kind:"token file"`
}

// tokenCommand returns the command token, with the commands add, remove and list below it.
func (h *Host) tokenCommand() *cobra.Command {
	of := &tokenFlags{}
	cmd := input.Group("token", "say whether to add, to remove or to list tokens",
		input.Command(h.Files, "add NAME --role ROLE", func(cmd *cobra.Command, args []string, f *tokenAddFlags) error {
			return h.tokenAdd(cmd, args[0], of.Tokens, f)
		}),
		input.Command(h.Files, "remove NAME", func(cmd *cobra.Command, args []string, _ *input.None) error {
			return h.tokenRemove(cmd.Context(), args[0], h.orTokens(of.Tokens))
		}),
		input.Command(h.Files, "list", func(cmd *cobra.Command, _ []string, _ *input.None) error {
			file, err := h.readTokens(cmd.Context(), h.orTokens(of.Tokens), false)
			if err != nil {
				return err
			}
			return h.Print(listTokens(file.Tokens))
		}))
	input.Define(cmd, cmd.PersistentFlags(), of)
	return cmd
}

// orTokens returns the path of --tokens, or the default one beside the ledger.
func (h *Host) orTokens(path string) string { return cmp.Or(path, h.tokensFile()) }

type tokenAddFlags struct {
	Role string `flag:"role,required" values:"operator desk buyer person auditor metrics"`
	Name string `flag:"name"` // of the buyer or person that the token is for
}

// tokenAdd adds a token to the token file, which it creates if necessary, and prints the token.
// path is that of --tokens, or "".
func (h *Host) tokenAdd(cmd *cobra.Command, name, path string, f *tokenAddFlags) error {
	if path == "" {
		if _, err := os.Stat(*h.DB); errors.Is(err, fs.ErrNotExist) {
			return output.NotFound("give --db FILE of the ledger that is served, or --tokens FILE",
				"there is no ledger at %q", *h.DB)
		}
	}
	path = h.orTokens(path)
	t := httpapi.Token{Name: name, Role: f.Role, Whom: f.Name}
	if err := checkToken(t); err != nil {
		return err
	}
	token := httpapi.NewToken()
	t.SHA256 = httpapi.HashToken(token)
	// true: the file may be missing, for the first token
	_, err := h.changeTokens(cmd.Context(), path, true, func(all []httpapi.Token) ([]httpapi.Token, error) {
		if slices.ContainsFunc(all, func(other httpapi.Token) bool { return other.Name == t.Name }) {
			return nil, output.UsageError("give it another NAME, or remove that one first",
				"a token with the name %q exists already", t.Name)
		}
		return append(all, t), nil
	})
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("name", "name", t.Name)
	out.Add("role", "role", t.Role)
	out.AddNonZero("whom", "of", t.Whom)
	out.Add("token", "", token)
	out.Add("", "token", token+" (secret: it is shown only now)")
	out.Add("file", "file", path)
	if err := h.PrintDone(fmt.Sprintf("the token %q is created", t.Name), "", out); err != nil {
		return &output.Error{Kind: "unexpected", Code: output.ExitUnexpected,
			Hint: "the token is lost: remove it, and add another one", Err: err}
	}
	return nil
}

// changeTokens replaces the tokens of a file by those that change returns, and returns these. If
// canCreate is set, the file need not exist. The lock is that of the file to which path leads, so
// that no other process changes the file concurrently, even by another path.
func (h *Host) changeTokens(ctx context.Context, path string, canCreate bool,
	change func([]httpapi.Token) ([]httpapi.Token, error)) ([]httpapi.Token, error) {
	if err := h.CheckPlace("--tokens", path, ledgerfile.Tokens); err != nil {
		return nil, err
	}
	unlock, err := lockTokens(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path = ledgerfile.Real(path)
	file, err := h.readTokens(ctx, path, canCreate)
	if err != nil {
		return nil, err
	}
	if file.Tokens, err = change(file.Tokens); err != nil {
		return nil, err
	}
	return file.Tokens, h.writeTokens(path, file)
}

// lockTokens prevents other processes from changing a token file. A process that has read the file
// before a change would otherwise write a removed token again. The lock is beside the file to which
// path leads.
func lockTokens(path string) (unlock func(), err error) {
	lock := ledgerfile.Beside(path, ledgerfile.TokensLock)
	err = ledgerfile.Write(lock, []byte(ledgerfile.LockText), ledgerfile.Options{New: true})
	if errors.Is(err, fs.ErrExist) {
		hint := fmt.Sprintf("try again; if no process is changing it, one was killed: remove %q", lock)
		return nil, &output.Error{Kind: "in-use", Code: output.ExitInUse, Hint: hint,
			Err: fmt.Errorf("another process is changing %q", path)}
	}
	if err != nil {
		return nil, output.InputError("", "--tokens: no file can be created in %q: %w", filepath.Dir(path),
			output.Cause(err))
	}
	return func() { _ = os.Remove(lock) }, nil
}

// checkToken checks a new token. Its errors name the flags of the command.
func checkToken(t httpapi.Token) error {
	of := map[string]string{"buyer": "BUYER", "person": "OBJECT"}[t.Role]
	switch {
	case t.Name == "":
		return output.UsageError("", "NAME is empty")
	case !slices.Contains(httpapi.Roles(), t.Role):
		return output.UsageError("the roles are "+strings.Join(httpapi.Roles(), ", "), "there is no role %q", t.Role)
	case of != "" && t.Whom == "":
		return output.UsageError("", "--role %s needs --name %s", t.Role, of)
	case of == "" && t.Whom != "":
		return output.UsageError("--name is for the roles buyer and person", "--role %s has no --name", t.Role)
	}
	return nil
}

// readTokens reads a token file. If canCreate is set, a missing file has no tokens.
func (h *Host) readTokens(ctx context.Context, path string, canCreate bool) (file httpapi.TokenFile, err error) {
	text, err := h.TextOrFile(ctx, "@"+path, httpapi.MaxTokens)
	if errors.Is(err, fs.ErrNotExist) && canCreate {
		return file, nil
	}
	if err != nil {
		return file, output.Missing(err, `"ledgerctl token add" creates it; --tokens FILE names another one`,
			"there is no token file at %q", path)
	}
	if file, err = httpapi.ReadTokens(text); err != nil {
		return file, output.InputError("", "%q: %v", path, err)
	}
	return file, nil
}

// writeTokens replaces a token file, if the new content is valid.
func (h *Host) writeTokens(path string, file httpapi.TokenFile) error {
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	if _, err := httpapi.ReadTokens(text); err != nil {
		return output.UsageError("", "%v", err)
	}
	out, err := h.NewFile("--tokens", path, ledgerfile.Tokens, 0o600)
	if err != nil {
		return err
	}
	defer out.Discard()
	return out.SaveBytes(append(text, '\n'))
}

// tokenRemove removes the token with this name from the token file, and prints the tokens that are
// left.
func (h *Host) tokenRemove(ctx context.Context, name, path string) error {
	// false: a missing file is an error
	left, err := h.changeTokens(ctx, path, false, func(all []httpapi.Token) ([]httpapi.Token, error) {
		left := slices.DeleteFunc(slices.Clone(all), func(t httpapi.Token) bool { return t.Name == name })
		if len(left) == len(all) {
			return nil, output.UsageError(`"ledgerctl token list" shows their names`,
				"there is no token with the name %q", name)
		}
		return left, nil
	})
	if err != nil {
		return err
	}
	return h.PrintDone(fmt.Sprintf("the token %q is removed", name), "", listTokens(left))
}

// listTokens returns a list of tokens, which has their hashes only.
func listTokens(all []httpapi.Token) output.Fields {
	return output.List("tokens", all, "name role whom=of", "")
}
