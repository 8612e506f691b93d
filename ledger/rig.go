package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/rig"
)

// CreateAt is [Create] for package ledgertest, by the clock that it says. The types of its arguments are internal: nobody
// else can call it.
func CreateAt(at rig.Place, o rig.Origin) error {
	begin := func(w kv.Writer) error { return format(w, o.At, CreateOptions{Currency: o.Currency, LogKey: o.LogKey}) }
	if at.Store == nil {
		return bolt.Create(at.Path, begin)
	}
	return at.Store.Update(begin)
}

// OpenAt is [Open] for package ledgertest, in whose hands the samplers are. The types of its arguments are internal: nobody
// else can call it.
func OpenAt(at rig.Place, d rig.Draws, options Options) (*Ledger, error) {
	var l *Ledger
	var err error
	if at.Store == nil {
		l, err = Open(at.Path, options)
	} else {
		l, err = openStore(at.Store, options)
	}
	if err != nil {
		return nil, err
	}
	if d.Values != nil {
		l.engine.Chances.Sampler = d.Values
	}
	if d.Outputs != nil {
		l.engine.Chances.Outputs = d.Outputs
	}
	if d.Queries != nil {
		l.queries = d.Queries
	}
	return l, nil
}
