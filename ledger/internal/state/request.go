package state

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Request is what an idempotency key stands for: the events that settled it, part by part. What was
// asked, and how far it has come, is in them: keys come in no order, so each byte of these records
// is paid for in pages of the file.
type Request struct {
	Settled []uint64 `audit:"the events that settle it"` // by rising number, at least one
}

// Fields implements [wire.Record].
func (r *Request) Fields(x wire.Codec) {
	x.Numbers(&r.Settled)
	if d := x.Reads(); d != nil && len(r.Settled) == 0 {
		d.Fail("a request that nothing settles")
	}
}

// Encode returns the payload of the record.
func (r Request) Encode() []byte { return wire.Encode(&r) }

// DecodeRequest reads what [Request.Encode] writes.
func DecodeRequest(payload []byte) (Request, error) { return wire.Decode[Request](payload) }

// Request returns what an idempotency key stands for.
func (s *State) Request(key string) (r Request, found bool, err error) {
	if n := &s.near; n.key == key && key != "" {
		return n.request, n.found, nil
	}
	r, found, err = Lookup(s, BucketRequests, append(s.Buffer.Lookup(), key...), DecodeRequest)
	if err == nil && !s.Plain {
		s.near.key, s.near.request, s.near.found = key, r, found
	}
	return r, found, err
}

// LastPart returns the request of a key, and what the event says that settled its last part; nil if
// there is no such request.
func (s *State) LastPart(key string) (r Request, part *event.Settled, err error) {
	r, known, err := s.Request(key)
	if err != nil || !known {
		return r, nil, err
	}
	number := r.Settled[len(r.Settled)-1]
	part, err = s.Settlement(number)
	if err == nil && part.Key != key {
		err = errs.Corrupt(nil, "event %d settles request %q, where it is to settle %q", number, part.Key, key)
	}
	return r, part, err
}

// PutRequest writes a request.
func (s *State) PutRequest(key string, r Request) error {
	if !s.Plain {
		s.near.key, s.near.request, s.near.found = key, r, true
	}
	k := s.Buffer.Key()
	k.Buf = append(k.Buf, key...)
	r.Fields(wire.Writing(s.Buffer.Value()))
	return s.Write(BucketRequests)
}
