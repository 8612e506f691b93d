package ledgerfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Renamed returns an error like err, with path in place of the temporary name of a file. The
// temporary name no longer exists when a person reads the error. temps are the forms in which err
// may name the temporary file, the longest first. Without temps, the temporary name is the path of
// the [fs.PathError] that err wraps. If err is nil, Renamed returns nil. If the text of err has no
// temporary name, Renamed returns err.
//
// The text of the result has path in place of each temporary name. [errors.As] finds an
// [fs.PathError] or [os.LinkError] with path, and every other error unchanged.
func Renamed(err error, path string, temps ...string) error {
	if err == nil {
		return nil
	}
	var at *fs.PathError
	if len(temps) == 0 && errors.As(err, &at) {
		temps = []string{at.Path}
	}
	r := &renamedError{err: err, path: path}
	for _, temp := range temps {
		if temp != "" && strings.Contains(err.Error(), temp) {
			r.temps = append(r.temps, temp)
		}
	}
	if len(r.temps) == 0 {
		return err
	}
	return r
}

// renamedError is an error with a path in place of temporary names.
type renamedError struct {
	err   error
	path  string
	temps []string
}

// Error returns the text of the error. If the error is about renaming the temporary file to path,
// the text has path once.
func (r *renamedError) Error() string {
	text := r.err.Error()
	var link *os.LinkError
	if errors.As(r.err, &link) && r.rename(link.Old) == r.path {
		text = strings.ReplaceAll(text, link.Error(), link.Op+" "+r.path+": "+link.Err.Error())
	}
	// An error of renaming names both files, which are the same now.
	return strings.ReplaceAll(r.rename(text), r.path+" "+r.path, r.path)
}

// rename replaces each temporary name in a text by the path.
func (r *renamedError) rename(text string) string {
	for _, temp := range r.temps {
		text = strings.ReplaceAll(text, temp, r.path)
	}
	return text
}

// Unwrap returns the error with the temporary names.
func (r *renamedError) Unwrap() error { return r.err }

// As implements the method that [errors.As] calls. If target is for an [fs.PathError] or an
// [os.LinkError], and the error wraps one, As sets target to a copy of it. The copy has the path in
// place of the temporary names. For any other target it returns false, and errors.As continues with
// Unwrap.
func (r *renamedError) As(target any) bool {
	switch target := target.(type) {
	case **fs.PathError:
		if !errors.As(r.err, target) {
			return false
		}
		named := **target
		named.Path = r.rename(named.Path)
		*target = &named
		return true
	case **os.LinkError:
		if !errors.As(r.err, target) {
			return false
		}
		named := **target
		if named.Old = r.rename(named.Old); named.Old == r.path {
			named.New = r.path // link.New may be only the name in its directory
		}
		*target = &named
		return true
	}
	return false
}

// cause returns the error inside the [fs.PathError] that err wraps: the error of the system,
// without the name of the file. If err wraps none, cause returns err.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
