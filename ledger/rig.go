package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
)

// rigged is a place for package ledgertest.
type rigged request.Backend

// At lets package ledgertest make and open ledgers, in memory too. The type of its argument is
// internal: nobody else can call it.
func At(place request.Backend) rigged { return rigged(place) }

// Create is [Create], by the clock that the origin says.
func (at rigged) Create(o request.Origin) error {
	begin := func(w kv.Writer) error { return format(w, o.At, CreateOptions{Currency: o.Currency, LogKey: o.LogKey}) }
	if at.Store == nil {
		return createFile(at.Path, begin)
	}
	return at.Store.Update(begin)
}

// Open is [Open] with samplers.
func (at rigged) Open(d request.Draws, options Options) (*Ledger, error) {
	var l *Ledger
	var err error
	if at.Store == nil {
		l, err = openFile(at.Path, options, at.Apart)
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
		l.requests.Sampler = d.Queries
	}
	return l, nil
}
