package state

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Request is what an idempotency key stands for: the digest of the request, and the events that
// settled it part by part.
type Request struct {
	Digest  [sha256.Size]byte
	Done    bool     `audit:"done"`
	Through uint64   `audit:"the event up to which objects belong to it"` // objects enrolled by later events do not belong to it
	Dealt   uint64   `audit:"the number of objects dealt with"`           // how many of the objects that it names are dealt with, if it is not done
	Settled []uint64 `audit:"the events that settle it"`
}

// Encode returns the payload of the record.
func (r Request) Encode() []byte {
	e := &wire.Encoder{}
	r.encodeTo(e)
	return e.Buf
}

func (r Request) encodeTo(e *wire.Encoder) {
	e.Raw(r.Digest[:])
	e.Flag(r.Done)
	e.Uvarint(r.Through)
	e.Uvarint(r.Dealt)
	e.Numbers(r.Settled)
}

// DecodeRequest reads what [Request.Encode] writes.
func DecodeRequest(payload []byte) (Request, error) {
	d := &wire.Decoder{Rest: payload}
	r := Request{}
	d.Array(r.Digest[:])
	r.Done, r.Through, r.Dealt = d.Flag(), d.Uvarint(), d.Uvarint()
	r.Settled = d.Numbers()
	return r, d.Done()
}

// Request returns what an idempotency key stands for.
func (s *State) Request(key string) (r Request, found bool, err error) {
	return Lookup(s, BucketRequests, append(s.Draft.Lookup(), key...), DecodeRequest)
}

// PutRequest writes a request.
func (s *State) PutRequest(key string, r Request) error {
	k := s.Draft.Key()
	k.Buf = append(k.Buf, key...)
	r.encodeTo(s.Draft.Value())
	return s.Write(BucketRequests)
}
