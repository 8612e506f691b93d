package ledgerfile

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestClassifyOpen_TooManyOpenFiles_WrapsTooMany(t *testing.T) {
	tooMany := errors.New("the limit")
	for _, full := range []error{syscall.EMFILE, syscall.ENFILE} {
		err := ClassifyOpen(&fs.PathError{Op: "open", Path: "x", Err: full}, tooMany)
		if again := ClassifyOpen(err, tooMany); !errors.Is(err, tooMany) || !errors.Is(err, full) || strings.Count(again.Error(), "limit") != 1 {
			t.Errorf("%v is %q, and then %q; want tooMany once", full, err, again)
		}
	}
	for _, other := range []error{nil, syscall.ENOSPC, fs.ErrNotExist} {
		if err := ClassifyOpen(other, tooMany); err != other {
			t.Errorf("%v is %v", other, err)
		}
	}
}

// A directory that cannot be opened was not synced, so TrySyncDir returns the error. No system
// opens a name with a zero byte.
func TestTrySyncDir_CannotBeOpened_IsAnError(t *testing.T) {
	dir := t.TempDir()
	wantErr(t, TrySyncDir(dir+"\x00"), syscall.EINVAL, "a name that cannot be opened")
	if err := TrySyncDir(dir); err != nil {
		t.Error(err)
	}
}
