package descriptor

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

func TestClassify_FullTable_IsTemporary(t *testing.T) {
	for _, full := range []error{syscall.EMFILE, syscall.ENFILE} {
		err := Classify(&fs.PathError{Op: "open", Path: "x", Err: full})
		if again := Classify(err); !errors.Is(err, errs.ErrTooManyFiles) || !errors.Is(err, full) || strings.Count(again.Error(), "limit") != 1 {
			t.Errorf("%v is %q, and then %q; want ErrTooManyFiles once", full, err, again)
		}
	}
	for _, other := range []error{nil, syscall.ENOSPC, fs.ErrNotExist} {
		if err := Classify(other); err != other {
			t.Errorf("%v is %v", other, err)
		}
	}
}
