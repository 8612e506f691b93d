// Package ledgerfile has the operations on files that a ledger and its commands need. [Write] and
// [Create] replace a file atomically, follow symbolic links, and keep its owner and mode. [Lock]
// locks a file, and [Identity] distinguishes it from its copies.
//
// [Recognize] and [CheckOutput] find out which files belong to a ledger, so that no output replaces
// one of them or takes its place.
package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kind is the purpose of a file of a ledger.
type Kind string

// Kinds of files. Unknown is any other file.
const (
	Unknown    Kind = ""
	Ledger     Kind = "ledger"
	SigningKey Kind = "signing key"
	SecretKey  Kind = "secret key" // a truth or noise key, or a TLS key
	Token      Kind = "token"
	Tokens     Kind = "token file"
	TokensLock Kind = "token lock"
	Journal    Kind = "journal"
	Socket     Kind = "socket"
	Keys       Kind = "journal key"
)

// companion is a file beside another one. Its name is the name of that file with an ending.
type companion struct {
	of     Kind
	ending string
	kind   Kind
}

// companions returns the companions of all kinds of files. [Companion] returns the first one of a
// kind: for a Journal, the directory itself and not its temporary names.
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

// Beside returns the path of a companion of a ledger's file. If path is a symbolic link, companions
// are beside the file that it leads to.
func Beside(path string, k Kind) string { return Companion(Real(path), k) }

// Companion returns the path of the companion of kind k of the file at path. The file is that of a
// ledger, or, for a TokensLock, a token file. If no companion has the kind, Companion returns path.
func Companion(path string, k Kind) string {
	for _, c := range companions() {
		if c.kind == k {
			return path + c.ending
		}
	}
	return path
}

// Real returns the file that path leads to, if path is a symbolic link that can be resolved
// ([Resolve]). Otherwise it returns path.
func Real(path string) string {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path
	}
	if resolved, err := Resolve(path); err == nil {
		return resolved
	}
	return path
}

// ServedAt returns the path of the file of the ledger that is served at an address, if that is a
// default address: "unix:", the path of the file, ".sock". For any other address it returns "".
func ServedAt(address string) string {
	path, unix := strings.CutPrefix(address, "unix:")
	db, beside := strings.CutSuffix(path, ".sock")
	if !unix || !beside {
		return ""
	}
	return db
}

// OccupiedError is returned if an output would replace a file that belongs to a ledger, or take its
// place.
type OccupiedError struct {
	Path string // of the output
	Kind Kind   // what is there, or belongs there
	Of   string // file whose companion it is; "" if it was recognized by its content
}

// Error says what the file at Path is. An error without Path is about an empty path. If Of is set
// and Kind is Ledger, the path leads to the very file that was to be copied.
func (e *OccupiedError) Error() string {
	switch {
	case e.Path == "":
		return "the path of the file is empty"
	case e.Kind == Ledger && e.Of != "":
		return fmt.Sprintf("%q is the ledger that is to be copied", e.Path)
	case e.Of == "":
		return fmt.Sprintf("%q is a %s", e.Path, e.Kind)
	}
	return fmt.Sprintf("%q is the path of the %s of %q", e.Path, e.Kind, e.Of)
}

// CheckOutput returns an [*OccupiedError] if an output at path would replace a file that belongs to
// a ledger, or take its place. path must be resolved ([Resolve]). The output may create path and
// each directory that leads to it.
//
// as is the kind of the output. The output may replace a file of the same kind. It may also be in
// the place for a companion of that kind beside a file of own. A token file may be in its place
// beside any ledger. own are the files of the caller's ledgers, which need not exist yet.
func CheckOutput(path string, as Kind, own ...string) error {
	for at := path; ; at = filepath.Dir(at) { // ends after the root, which is its own directory
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
		return fmt.Errorf("cannot read what kind of file %q is: %w", path, err)
	}
	if found == Unknown || found == as {
		return nil
	}
	return &OccupiedError{Path: path, Kind: found}
}

// checkPlace returns an [*OccupiedError] if path is the place of a companion. That is a path beside
// a ledger or a token file, or beside a file of own; the companion need not exist. last means that
// path is the output itself, and not a directory that leads to it. The output may be in the place
// of a companion of its own kind as. But unless it is a token file, the file beside it must be in
// own.
func checkPlace(path string, last bool, as Kind, own []string) error {
	for _, c := range companions() {
		main, found := strings.CutSuffix(path, c.ending) // main is the file that path would be beside
		if !found || !c.existsBeside(main, own) {
			continue
		}
		mine := contains(own, main) || as == Tokens // the caller may put a companion beside main
		if !last || c.kind != as || !mine {
			return &OccupiedError{Path: path, Kind: c.kind, Of: main}
		}
	}
	return nil
}

// existsBeside reports whether main is a file of the kind that has such a companion, so that a path
// beside it is the place for one. The companion itself need not exist.
func (c companion) existsBeside(main string, own []string) bool {
	if c.of == Ledger && contains(own, main) {
		return true
	}
	found, err := Recognize(main)
	return found == c.of || err != nil && !errors.Is(err, fs.ErrNotExist) // a file that cannot be read may have one
}

// contains reports whether path is the resolved path of one of the files own.
func contains(own []string, path string) bool {
	for _, db := range own {
		if resolved, err := Resolve(db); err == nil && resolved == path {
			return true
		}
	}
	return false
}

// NewLedger returns the resolved path for the file of a new ledger. own is the file of which the
// new one is a copy, or "".
//
// It returns [fs.ErrExist] if the file exists, or the journal of another ledger beside it. It
// returns an [*OccupiedError] if the path is empty, leads to own, or is that of a file that belongs
// to a ledger.
func NewLedger(path, own string) (string, error) {
	if path == "" {
		return "", &OccupiedError{}
	}
	if one, err := os.Stat(own); err == nil { // also for another hard link to the file
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
	// Stat follows links, so that a link to a directory that does not exist yet is allowed: it only
	// determines where the journal is to be created.
	if _, err := os.Stat(journal); err == nil {
		return "", fmt.Errorf("%w: %s may hold what another ledger has committed last: "+
			"move it with the file that it belongs to, or remove it if there is no such file", fs.ErrExist, journal)
	}
	return resolved, CheckOutput(resolved, Ledger)
}
