package state

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Request has the events that settled the request with an idempotency key, part by part. The digest
// and the progress of the request are in these events, and not in this record. Keys have no order,
// so the records are spread over many pages of the file, and each byte is costly.
type Request struct {
	Settled []uint64 `audit:"the events that settle it"` // rising, at least one
}

// Fields implements [wire.Record].
func (r *Request) Fields(x wire.Codec) {
	x.Numbers(&r.Settled)
	if d := x.Reads(); d != nil && len(r.Settled) == 0 {
		d.Fail("request without a settled event")
	}
}

// Encode returns the payload of the record.
func (r Request) Encode() []byte { return wire.Encode(&r) }

// DecodeRequest decodes what [Request.Encode] returns.
func DecodeRequest(payload []byte) (Request, error) { return wire.Decode[Request](payload) }

// Request returns the request with an idempotency key. found is false if no request with this key
// was settled. The result is kept, because a request looks its key up more than once.
func (s *State) Request(key string) (r Request, found bool, err error) {
	if n := &s.recordCache; n.key == key && key != "" {
		return n.request, n.found, nil
	}
	r, found, err = Lookup(s, BucketRequests, append(s.Buffer.Lookup(), key...), DecodeRequest)
	if err == nil && !s.Plain {
		s.recordCache.key, s.recordCache.request, s.recordCache.found = key, r, found
	}
	return r, found, err
}

// LastPart returns the request with a key, and the event that settled its last part. part is nil if
// there is no such request.
func (s *State) LastPart(key string) (r Request, part *event.Settled, err error) {
	r, known, err := s.Request(key)
	if err != nil || !known {
		return r, nil, err
	}
	number := r.Settled[len(r.Settled)-1]
	part, err = s.Settlement(number)
	if err == nil && part.Key != key {
		err = errs.Corrupt(nil, "event %d settles request %q, not %q", number, part.Key, key)
	}
	return r, part, err
}

// PutRequest writes the request with an idempotency key, and keeps it in the record cache.
func (s *State) PutRequest(key string, r Request) error {
	if !s.Plain {
		s.recordCache.key, s.recordCache.request, s.recordCache.found = key, r, true
	}
	k := s.Buffer.Key()
	k.Buf = append(k.Buf, key...)
	r.Fields(wire.Writing(s.Buffer.Value()))
	return s.Write(BucketRequests)
}
