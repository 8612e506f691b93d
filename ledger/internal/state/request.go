package state

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Request is what an idempotency key stands for: the digest of the request, and the events that
// settled it part by part.
type Request struct {
	Digest  [sha256.Size]byte // of the request in its canonical form
	Done    bool              `audit:"done"`                                       // no part is to come
	Through uint64            `audit:"the event up to which objects belong to it"` // objects enrolled by later events do not belong to it
	Dealt   uint64            `audit:"the number of objects dealt with"`           // how many of the objects that it names are dealt with, if it is not done
	Settled []uint64          `audit:"the events that settle it"`                  // by rising number
}

// Fields implements [wire.Record].
func (r *Request) Fields(x wire.Codec) {
	x.Array(r.Digest[:])
	x.Flag(&r.Done)
	x.Uvarint(&r.Through, &r.Dealt)
	x.Numbers(&r.Settled)
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
