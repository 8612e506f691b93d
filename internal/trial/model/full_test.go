package model

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
)

// How much there is room for, on paper: entries are listed one by one.

// entry of a chain is a level or a part of it, a buyer of a level, or an epoch that has ended.
type chainEntry struct {
	epoch int
	level int64 // 0 for an ended epoch
	part  int
	buyer string
}

// levelEntries adds what a level, and a buyer of it unless that is "", are in the list of a chain's
// entries.
func levelEntries(all map[chainEntry]bool, q api.Question, epoch int, e int64, buyer string) {
	parts := 1
	if q.Encoding == api.Unary {
		parts += len(q.Values) / 256
	}
	for part := range parts {
		all[chainEntry{epoch: epoch, level: e, part: part}] = true
	}
	if buyer != "" {
		all[chainEntry{epoch: epoch, level: e, buyer: buyer}] = true
	}
}

// entries are those of a chain.
func (c *paperChain) entries(q api.Question) map[chainEntry]bool {
	all := map[chainEntry]bool{}
	for i, one := range c.epochs() {
		if i > 0 {
			all[chainEntry{epoch: i}] = true // which ended that before it
		}
		for e, l := range one.levels {
			for _, buyer := range append(slices.Clone(l.holders), "") {
				levelEntries(all, q, i, e, buyer)
			}
		}
	}
	return all
}

// added counts what a request adds to a chain, if nothing else is added.
func (c *paperChain) added(q api.Question, e int64, buyer string) int {
	all := c.entries(q)
	before := len(all)
	levelEntries(all, q, len(c.earlier), e, buyer)
	return len(all) - before
}

// full says why the chain of an object, or its list of reservations, has no room for what is
// wished, or nil. A reservation counts as if it were captured.
func (m *paper) full(c *paperChain, w wish) *api.Refusal {
	q, _ := m.question(w.question)
	there, added, promised, open := len(c.entries(q)), c.added(q, w.e, w.buyer), 0, 0
	for _, d := range m.deals {
		if !m.holdsFor(d, w.object) {
			continue
		}
		if open++; d.Question == w.question {
			promised += c.added(q, d.epsilon(), d.Buyer)
		}
	}
	r := &api.Refusal{Object: w.object, Reason: api.Full, Asked: epsilonOf(w.e), Remedy: api.RemedyWaiting}
	switch {
	case w.reserved:
		return nil
	case added > 0 && there+added > 1024:
		r.Remedy = api.RemedyNothing
	case added > 0 && there+promised+added > 1024, w.reserves && open >= 128:
	default:
		return nil
	}
	return r
}
