package ledger

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
)

// filmedFile is a file of which, and of whose journal, there is a copy behind each update.
type filmedFile struct {
	kv.Store
	t      testing.TB
	path   string
	copies []string
}

func (f *filmedFile) Update(fn func(kv.Writer) error) error {
	err := f.Store.Update(fn)
	f.copies = append(f.copies, left(f.t, f.path))
	return err
}

// portionsAside counts what a file has aside.
func portionsAside(t testing.TB, path string) (n int) {
	t.Helper()
	file := check.Value(bolt.Open(path, true))(t)
	defer file.Close()
	must(t, file.View(func(r kv.Reader) error {
		return r.Scan(memtable.Aside, nil, func(_, _ []byte) bool { n++; return true })
	}))
	return n
}

// Between any two transactions of a checkpoint a process may die, within Close, too: what it leaves is the ledger, with its journal or, when
// the checkpoint says that there is none, without. Whoever reads sees all of it, and whoever writes leaves nothing aside.
func TestWhatIsAsideIsTheLedger(t *testing.T) {
	names := crowd(40)
	path := votersFile(t, "9", names...)
	file := check.Value(bolt.Open(path, false))(t)
	f := &filmedFile{Store: file, t: t, path: path}
	options := Options{Memory: 60 << 10} // portions of eight records
	l := check.Value(readStore(t.Context(), f, besideFile(path), options))(t)
	must(t, l.begin(t.Context(), options))
	for i, name := range names[:40] {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
	}
	closed(t, l)
	wantWhole := func(what, at string, o Options) {
		t.Helper()
		l := open(t, at, o)
		for _, name := range names[:40] {
			check.Equal(t, objectOf(t, l, name).Spent, eps(t, "1"), "%s: %s has spent", what, name)
		}
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
	aside, alone := 0, 0
	for i, at := range f.copies {
		if _, err := os.Stat(at + ".journal"); err != nil || portionsAside(t, at) == 0 {
			continue
		}
		aside++
		without := left(t, at)
		must(t, os.RemoveAll(without+".journal"))
		if l, err := Open(t.Context(), without, Options{ReadOnly: true}); err == nil {
			closed(t, l)
			alone++
			wantWhole(fmt.Sprintf("copy %d, without its journal, read", i), without, Options{ReadOnly: true})
			wantWhole(fmt.Sprintf("copy %d, without its journal", i), without, Options{})
			if n := portionsAside(t, without); n > 0 {
				t.Errorf("copy %d, without its journal, has %d portions aside when it was open for writing", i, n)
			}
		} else {
			wantErr(t, err, api.ErrJournal)
		}
		wantWhole(fmt.Sprintf("copy %d, read", i), at, Options{ReadOnly: true})
		wantWhole(fmt.Sprintf("copy %d", i), at, Options{})
		check.Equal(t, portionsAside(t, at), 0, "portions aside in copy %d when it was open for writing", i)
	}
	check.That(t, aside >= 3 && alone >= 3,
		"of %d copies %d have something aside, and %d of these are whole without their journal", len(f.copies), aside, alone)
}
