package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
)

// brokenBase is a file whose transactions fail as long as a test says so: without a trace, or having been carried out all the same.
type brokenBase struct {
	kv.Store
	fails error
	done  bool // they are carried out
}

func (b *brokenBase) Update(fn func(kv.Writer) error) error {
	if b.fails == nil || b.done {
		if err := b.Store.Update(fn); err != nil {
			return err
		}
	}
	return b.fails
}

// The first commit makes a journal and has the file name it. If that fails, the file does not come to name a journal that is
// gone: it opens again, and the request that failed comes to a result.
func TestAJournalThatTheFileMayNameIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		done  bool
		goOn  bool // without being opened again
	}{
		"full":                      {syscall.ENOSPC, false, true},
		"uncertain, not done":       {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), false, false},
		"uncertain, and it is done": {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(pace.Scratch(t), "ledger.db")
			must(t, Create(t.Context(), path, CreateOptions{}))
			closed(t, sellers(t, open(t, path, Options{}), "9", "9", "ann"))
			s := check.Value(bolt.Open(path, false))(t)
			base := &brokenBase{s, c.fails, c.done}
			l := check.Value(openClaimed(t.Context(), base, besideFile(path), Options{}, "", false))(t)
			for range 2 {
				if _, err := l.Release(t.Context(), releaseOf(t, "r", "ann", "1")); !errors.Is(err, c.fails) && !errors.Is(err, api.ErrStopped) {
					t.Errorf("the request ends with %v", err)
				} else if errors.Is(err, api.ErrStopped) == c.goOn {
					t.Errorf("goes on: %v, after %v", !c.goOn, err)
				}
			}
			if base.fails = nil; c.goOn {
				release(t, l, releaseOf(t, "r", "ann", "1"))
			}
			if err := l.Close(); c.goOn {
				must(t, err)
			}
			l = open(t, path, Options{})
			release(t, l, releaseOf(t, "r", "ann", "1"))
			wantClean(t, l, api.VerifyRequest{})
			o := objectOf(t, l, "ann")
			check.That(t, len(o.Chains[0].Levels) == 1, "there is %+v", o)
			closed(t, l)
			files := tree(t, path)
			check.That(t, len(files) == 1, "there is %v", files)
		})
	}
}

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

// With no memory to speak of every commit is followed by a checkpoint, beside what comes next.
func TestALedgerWithHardlyAnyMemory(t *testing.T) {
	names := crowd(300)
	path := votersFile(t, "9", names...)
	l := open(t, path, Options{Memory: 1})
	for round := range 3 {
		for i, name := range names {
			release(t, l, releaseOf(t, fmt.Sprint(round, " ", i), name, fmt.Sprint(1+round)))
		}
	}
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	_, err := os.Stat(path + ".journal")
	check.That(t, os.IsNotExist(err), "the journal is left: %v", err)
	l = open(t, path, Options{})
	wantClean(t, l, api.VerifyRequest{})
	o := objectOf(t, l, names[7])
	check.That(t, o.Spent == eps(t, "3") && len(o.Chains[0].Levels) == 3, "there is %+v", o)
}

// lending is a store that writes over whatever it has lent to a transaction, once that has ended. Files do so, too, but seldom.
type lending struct{ kv.Store }

func (s lending) View(fn func(kv.Reader) error) error {
	return s.Store.View(func(r kv.Reader) error {
		x := &lent{Reader: r}
		defer x.takeBack()
		return fn(x)
	})
}

func (s lending) Update(fn func(kv.Writer) error) error {
	return s.Store.Update(func(w kv.Writer) error {
		x := &lent{Reader: w}
		defer x.takeBack()
		return fn(struct {
			kv.Reader
			puts
		}{x, w})
	})
}

// puts are the methods of a [kv.Writer] by which it writes.
type puts interface {
	Put(bucket string, key, value []byte) error
	Delete(bucket string, key []byte) error
}

// lent is what a transaction has got to read.
type lent struct {
	kv.Reader
	all [][]byte
}

func (x *lent) lend(b []byte) []byte {
	b = bytes.Clone(b)
	x.all = append(x.all, b)
	return b
}

func (x *lent) takeBack() {
	for _, b := range x.all {
		for i := range b {
			b[i] = '?'
		}
	}
}

func (x *lent) Get(bucket string, key []byte) ([]byte, error) {
	value, err := x.Reader.Get(bucket, key)
	return x.lend(value), err
}

func (x *lent) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return x.Reader.Scan(bucket, from, func(key, value []byte) bool { return visit(x.lend(key), x.lend(value)) })
}

// What was read from the file is not used when its transaction has ended: another one may have written over it.
func TestNothingIsUsedBehindItsTransaction(t *testing.T) {
	names := crowd(20)
	path := create(t)
	o := Options{TruthKey: truthKey(), NoiseKey: noiseKeys("2026")}
	closed(t, sellers(t, open(t, path, o), "9", "9", names...))
	opened := func() *Ledger {
		t.Helper()
		file := check.Value(bolt.Open(path, false))(t)
		l := check.Value(readStore(t.Context(), lending{file}, besideFile(path), o))(t)
		must(t, l.begin(t.Context(), o))
		return l
	}
	l := opened()
	for i, name := range names {
		release(t, l, releaseOf(t, name, name, "1"))
		sell(t, l, purchase(t, "sale "+name, "acme", "2", name))
		if i%7 == 6 {
			must(t, l.engine.Checkpoint())
		}
	}
	dies(t, l)
	l = opened()
	release(t, l, releaseOf(t, "again", names[0], "3"))
	for _, name := range names {
		o := objectOf(t, l, name)
		check.That(t, o.Object == name && len(o.Chains) == 1 && len(o.Chains[0].Levels) >= 2, "%s is %+v", name, o)
	}
	all := responses(t, l, "vote", eps(t, "2"))
	check.That(t, len(all) == len(names), "%d responses", len(all))
	events := 0
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		if events++; ev.Number != uint64(events) {
			t.Fatalf("event %d is told as %d", events, ev.Number)
		}
	}
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
}
