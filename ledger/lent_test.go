package ledger

import (
	"bytes"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

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
