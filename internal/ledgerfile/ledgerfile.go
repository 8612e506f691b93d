// Package ledgerfile has what a ledger and its commands need of files. [Write] and [Create] replace
// a file atomically, follow symbolic links, and keep its owner and mode. [Lock] locks a file, and
// [Identity] tells it from its copies. [Recognize] and [CheckOutput] know which files belong to a
// ledger, so that no output replaces one of them, or takes its place.
package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kind is what a file is to a ledger.
type Kind string

// The kinds of files. Unknown is any other file.
const (
	Unknown    Kind = ""
	Ledger     Kind = "ledger"
	SigningKey Kind = "signing key"
	SecretKey  Kind = "secret key" // a truth or noise key, or one of TLS
	Token      Kind = "token"
	Tokens     Kind = "token file"
	TokensLock Kind = "token lock"
	Journal    Kind = "journal"
	Socket     Kind = "socket"
	Keys       Kind = "journal key"
)

// companion is a file beside another one, whose name it has with an ending.
type companion struct {
	of     Kind
	ending string
	kind   Kind
}

// companions lists all files that are found by the name of another one.
func companions() []companion {
	return []companion{
		{Ledger, ".key", SigningKey},
		{Ledger, ".tokens", Tokens},
		{Tokens, ".lock", TokensLock},
		{Ledger, ".tokens.lock", TokensLock},
		{Ledger, ".journal", Journal},
		{Ledger, ".journal.new", Journal},  // while it is created
		{Ledger, ".journal.gone", Journal}, // while it is destroyed
		{Ledger, ".sock", Socket},
	}
}

// Beside returns the path of a companion of a ledger's file. If path is a symbolic link, the
// companions are beside the file that it leads to.
func Beside(path string, k Kind) string { return Companion(Real(path), k) }

// Companion returns the path of a companion of a ledger's file, or, for the lock, of a token file.
func Companion(path string, k Kind) string {
	for _, c := range companions() {
		if c.kind == k {
			return path + c.ending
		}
	}
	return path
}

// Real returns path itself, or the file to which it leads if it is a symbolic link.
func Real(path string) string {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path
	}
	if resolved, err := Resolve(path); err == nil {
		return resolved
	}
	return path
}

// ServedAt returns the file of the ledger that is served by default at an address, or "" if the
// address does not tell.
func ServedAt(address string) string {
	path, unix := strings.CutPrefix(address, "unix:")
	db, beside := strings.CutSuffix(path, ".sock")
	if !unix || !beside {
		return ""
	}
	return db
}

// OccupiedError says that an output would replace a file that belongs to a ledger, or take its
// place.
type OccupiedError struct {
	Path string // of the output
	Kind Kind   // what is there, or belongs there
	Of   string // the file to whose companions it belongs; "" if it was recognized by its content
}

// Error implements error.
func (e *OccupiedError) Error() string {
	switch {
	case e.Path == "":
		return "the path of the file is empty"
	case e.Kind == Ledger && e.Of != "":
		return fmt.Sprintf("%q is the file that is copied", e.Path)
	case e.Of == "":
		return fmt.Sprintf("%q is a %s", e.Path, e.Kind)
	}
	return fmt.Sprintf("%q is the path of the %s of %q", e.Path, e.Kind, e.Of)
}

// CheckOutput returns an [*OccupiedError] if an output at path would replace or occupy a file that
// belongs to a ledger. path is resolved ([Resolve]); it and each directory on the way may be
// created. as is what the output is: a file of tokens may replace one, and a key, socket or other
// companion may have its place beside own, a ledger that need not exist yet.
func CheckOutput(path string, as Kind, own ...string) error {
	for at := path; ; at = filepath.Dir(at) {
		if err := checkPlace(at, at == path, as, own); err != nil {
			return err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if found := holds(filepath.Dir(path)); found != Unknown {
		return &OccupiedError{Path: filepath.Dir(path), Kind: found}
	}
	found, err := Recognize(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot see what %q is: %w", path, err)
	}
	if found == Unknown || found == as {
		return nil
	}
	return &OccupiedError{Path: path, Kind: found}
}

// checkPlace refuses the place of a companion of a ledger.
func checkPlace(path string, last bool, as Kind, own []string) error {
	for _, c := range companions() {
		main, found := strings.CutSuffix(path, c.ending)
		if !found || !c.existsBeside(main, own) {
			continue
		}
		mine := contains(own, main) || as == Tokens
		if !last || c.kind != as || !mine {
			return &OccupiedError{Path: path, Kind: c.kind, Of: main}
		}
	}
	return nil
}

// existsBeside reports whether main is a file that has such companions.
func (c companion) existsBeside(main string, own []string) bool {
	if c.of == Ledger && contains(own, main) {
		return true
	}
	found, err := Recognize(main)
	return found == c.of || err != nil && !errors.Is(err, fs.ErrNotExist) // what cannot be read may be one
}

// contains reports whether a path is that of one of the files.
func contains(own []string, path string) bool {
	for _, db := range own {
		if resolved, err := Resolve(db); err == nil && resolved == path {
			return true
		}
	}
	return false
}

// NewLedger returns the resolved path for the file of a new ledger. It returns [fs.ErrExist] if
// there is a file, or the journal of another ledger beside it, and an [*OccupiedError] if the path
// is empty, leads to own, or is that of a file that belongs to a ledger. own is the file of which
// the new one is a copy, or "".
func NewLedger(path, own string) (string, error) {
	if path == "" {
		return "", &OccupiedError{}
	}
	if one, err := os.Stat(own); err == nil {
		if other, err := os.Stat(path); err == nil && os.SameFile(one, other) {
			return "", &OccupiedError{Path: path, Kind: Ledger, Of: own}
		}
	}
	resolved, err := Resolve(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(resolved); err == nil {
		return "", &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	journal := Companion(resolved, Journal)
	if _, err := os.Stat(journal); err == nil { // a link to where no directory is yet says where the journal shall be
		return "", fmt.Errorf("%w: %s may hold what another ledger has committed last: "+
			"move it with the file that it belongs to, or remove it if there is no such file", fs.ErrExist, journal)
	}
	return resolved, CheckOutput(resolved, Ledger)
}
