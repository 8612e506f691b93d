package state

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// The buckets of the file; the package documentation draws them.
const (
	BucketMeta      = "meta"
	BucketQuestions = "questions"
	BucketPolicies  = "policies"
	BucketObjects   = "objects"
	BucketChains    = "chains"
	BucketAnswers   = "answers"
	BucketRequests  = "requests"
	BucketBuyers    = "buyers"
	BucketSales     = "sales"
	BucketEvents    = "events"
	BucketTallies   = "tallies"
	BucketStrangers = "strangers"
)

const (
	KeyFormat   = "format"
	KeyAbout    = "about"
	KeyCounters = "counters"
	KeyTruthKey = "truth key"
	KeyNoise    = "noise" // with a number behind it
)

// State is the ledger's state inside one transaction, as typed records.
type State struct {
	kv.Reader
	Counters Counters
	Durable  Counters  // as they were when the transaction began
	Clock    time.Time // what the clock says: ceilings are those of this instant, and a clock gone back lowers them
	Now      time.Time // the same or, if that is later, the time of the last event: windows and reservations end by it
	Far      error     // that the clock is further ahead of the log than anybody has confirmed; nil if not
	Writer   kv.Writer
	Plain    bool                // records have no checksums: they are in an audit's memory
	Known    *Cache              // nil if nothing is remembered beyond the transaction
	recent   recent              // of what is known
	Latest   NumberedSale        // the sale last looked up
	Client   NumberedName        // the buyer whose name was last looked up
	Tallies  map[TallyKey]*Tally // those that changed, until flush
	Near     []NearTally         // some of these; nil to find each by the map
	Recounts []recounted         // of the event being applied, if plain
	Desk     *Desk               // the records worked on; nil to read and write each anew
	Changes  *Recency            // which records have changed when; nil if nobody knows
	Levels   LevelPage           // for the levels of chains, if plain
	Draft    Draft               // for records
	Written  event.Written       // for events
	Edge     *merkle.Edge        // of the tree; nil until it is needed
	Chances  Chances             // what is drawn from
	Salts    func([]byte)        // fills memory for some salts with random bytes
	Keyed    TruthKeyState       // whether the ledger has a truth key
	Linked   Linked
}

// Linked tells what applying an event found out about the other events of its object.
type Linked struct {
	Previous uint64 // the last one before it, or 0
	Erase    uint64 // the last one of those it destroys, or 0
	// EraseRequests is the last of the settled events that it destroys, or 0.
	EraseRequests uint64
}

// NumberedName is a name with its number, 0 for none.
type NumberedName struct {
	number uint32
	name   string
}

// NumberedSale is a sale with its number, 0 for none.
type NumberedSale struct {
	Number uint64
	Sale
}

// Snapshot returns the state that a reader shows.
func Snapshot(r kv.Reader) (*State, error) {
	s := &State{Reader: r}
	var err error
	s.Counters, _, err = Lookup(s, BucketMeta, []byte(KeyCounters), DecodeCounters)
	s.Durable = s.Counters
	return s, err
}

// Begin starts a transaction at the time now, or at that of the last event if the clock has
// gone back since.
func Begin(w kv.Writer, now time.Time) (*State, error) {
	s, err := Snapshot(w)
	if err != nil {
		return nil, err
	}
	s.Writer, s.Salts = w, RandomBytes
	s.SetClock(now)
	return s, nil
}

// CheckBegun refuses a store without the events that begin every ledger.
func (s *State) CheckBegun() error {
	if s.Counters.Events == 0 {
		return errs.Corrupt(nil, "not a Sluice ledger, or its counters are missing")
	}
	return nil
}

// Tell tells the time. That of the log does not run back, whatever the clock does.
func (s *State) SetClock(clock time.Time) {
	s.Clock = clock.UTC().Round(0) // as it will be read from the log: without a monotonic reading
	s.Now = s.Clock
	if s.Now.Before(s.Counters.Last) {
		s.Now = s.Counters.Last
	}
}

// Payload returns the payload of a record, or nil if there is none.
func (s *State) Payload(bucket string, key []byte) ([]byte, error) {
	value, err := s.Get(bucket, key)
	if err != nil || value == nil || s.Plain {
		return value, err
	}
	return wire.Unseal(bucket, key, value)
}

func (s *State) Put(bucket string, key, payload []byte) error {
	if s.Plain {
		return s.Writer.Put(bucket, key, payload)
	}
	return s.Writer.Put(bucket, key, wire.Seal(bucket, key, payload))
}

// Scan implements [kv.Reader]. What is on the desk is written first, so that it is seen.
func (s *State) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if s.Desk != nil && s.Writer != nil {
		if err := s.FlushDesk(); err != nil {
			return err
		}
	}
	return s.Reader.Scan(bucket, from, visit)
}

func Lookup[T any](s *State, bucket string, key []byte, decode func([]byte) (T, error)) (record T, found bool, err error) {
	value, err := s.Get(bucket, key)
	if err != nil {
		return record, false, err
	}
	if s.Plain {
		return decodePayload(bucket, key, value, decode)
	}
	return DecodeRecord(bucket, key, value, decode)
}

func DecodeNumber32(payload []byte) (uint32, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U32(), d.Done()
}

func DecodeNumber64(payload []byte) (uint64, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U64(), d.Done()
}

// EventKey is the key of an event, or of a sale.
func EventKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// The keys of questions and of buyers: a name and a number are told apart by their first byte.
func NameKey(name string) []byte { return append([]byte("n"), name...) }
func NumberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("q"), number)
}
func PolicyJSONKey(hash [32]byte) []byte   { return append([]byte("h"), hash[:]...) }
func PolicyNumberKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("p"), number) }

// ObjectKey ends with a zero byte, which no name contains, so that the records of an object stand
// together and no name is the beginning of another's.
func ObjectKey(name string) []byte {
	return AppendObjectKey(make([]byte, 0, len(name)+5), name) // with room for a question
}

func AppendObjectKey(key []byte, name string) []byte { return append(append(key, name...), 0) }

// MemberKey lists a question of an object right behind the object.
func MemberKey(name string, question uint32) []byte {
	return AppendMemberKey(make([]byte, 0, len(name)+5), name, question)
}

func AppendMemberKey(key []byte, name string, question uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendObjectKey(key, name), question)
}

// ChainKey puts all chains of a question together, in the order of the objects' names.
func ChainKey(question uint32, name string) []byte {
	return AppendChainKey(make([]byte, 0, 4+len(name)), question, name)
}

func AppendChainKey(key []byte, question uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(key, question), name...)
}

func (s *State) QuestionNumber(name string) (number uint32, found bool, err error) {
	if len(name) > names.MaxBytes {
		return 0, false, nil // nothing has such a name, and a key of its length would double the memory
	}
	return Lookup(s, BucketQuestions, NameKey(name), DecodeNumber32)
}

func (s *State) loadQuestion(number uint32) (*event.Question, error) {
	q, found, err := Lookup(s, BucketQuestions, NumberKey(number), event.DecodeQuestion)
	if err == nil && !found {
		err = fmt.Errorf("%w: question %d is missing", errs.ErrCorrupt, number)
	}
	return q, err
}

func (s *State) PolicyNumber(p policy.Policy) (number uint32, found bool, err error) {
	return Lookup(s, BucketPolicies, PolicyJSONKey(wire.HashText(p.String())), DecodeNumber32)
}

func (s *State) loadPolicy(number uint32) (policy.Policy, error) {
	if number == 0 {
		return noPolicy(), nil
	}
	p, found, err := Lookup(s, BucketPolicies, PolicyNumberKey(number), policy.Parse)
	if err != nil {
		return p, fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
	}
	if !found {
		return p, fmt.Errorf("%w: policy %d is missing", errs.ErrCorrupt, number)
	}
	return p, nil
}

func (s *State) Object(name string) (o Object, found bool, err error) {
	found, err = s.ReadObject(name, &o)
	return o, found, err
}

func (s *State) ReadObject(name string, o *Object) (found bool, err error) {
	if len(name) > names.MaxBytes {
		return false, nil
	}
	if s.Plain {
		return s.plainObject(name, o)
	}
	read := func() (Object, bool, error) {
		return Lookup(s, BucketObjects, AppendObjectKey(s.Draft.Lookup(), name), DecodeObject)
	}
	if s.Desk == nil {
		*o, found, err = read()
	} else {
		found, err = s.Desk.Objects.of(RecordID{Name: name}, o, read)
	}
	return found, err
}

// Stranger returns what the log has about somebody who was never enrolled.
func (s *State) Stranger(name string) (Stranger, bool, error) {
	return Lookup(s, BucketStrangers, append(s.Draft.Lookup(), name...), DecodeStranger)
}

func (s *State) PutObject(name string, o Object) error {
	if s.Desk != nil {
		s.Desk.Objects.set(RecordID{Name: name}, &o)
		return nil
	}
	return s.writeObject(RecordID{Name: name}, o)
}

func (s *State) writeObject(id RecordID, o Object) error {
	k := s.Draft.Key()
	k.Buf = AppendObjectKey(k.Buf, id.Name)
	o.encodeTo(s.Draft.Value())
	return s.Write(BucketObjects)
}

func (s *State) Chain(question uint32, name string) (c Chain, found bool, err error) {
	found, err = s.ReadChain(question, name, &c)
	return c, found, err
}

func (s *State) ReadChain(question uint32, name string, c *Chain) (found bool, err error) {
	if s.Plain {
		return s.plainChain(question, name, c)
	}
	read := func() (Chain, bool, error) {
		return Lookup(s, BucketChains, AppendChainKey(s.Draft.Lookup(), question, name), DecodeChain)
	}
	if s.Desk == nil {
		*c, found, err = read()
	} else {
		found, err = s.Desk.Chains.of(RecordID{question, name}, c, read)
	}
	return found, err
}

func (s *State) BuyerNumber(name string) (number uint32, found bool, err error) {
	if len(name) > names.MaxBytes {
		return 0, false, nil
	}
	return Lookup(s, BucketBuyers, NameKey(name), DecodeNumber32)
}

func (s *State) Buyer(number uint32) (Buyer, error) {
	b, found, err := Lookup(s, BucketBuyers, NumberKey(number), DecodeBuyer)
	if err != nil || !found {
		return b, errs.Corrupt(err, "buyer %d is missing", number)
	}
	return b, nil
}

// BuyerName returns the name of a buyer, which never changes. It remembers the last: the objects of a sale ask for it in turn.
func (s *State) BuyerName(number uint32) (string, error) {
	if s.Client.number != number || number == 0 {
		b, err := s.Buyer(number)
		if err != nil {
			return "", err
		}
		s.Client = NumberedName{number, b.Name}
	}
	return s.Client.name, nil
}

// Sale returns a sale or reservation. It remembers the last: the objects of one ask for it in turn.
func (s *State) Sale(number uint64) (Sale, error) {
	if s.Latest.Number == number && number != 0 {
		return s.Latest.Sale, nil
	}
	r, found, err := Lookup(s, BucketSales, EventKey(number), DecodeSale)
	if err != nil || !found {
		return r, errs.Corrupt(err, "sale %d is missing", number)
	}
	s.Latest = NumberedSale{number, r}
	return r, nil
}

func (s *State) PutSale(number uint64, r Sale) error {
	s.Latest = NumberedSale{number, r}
	return s.Put(BucketSales, EventKey(number), r.Encode())
}

func (s *State) Answers(key []byte) (Answers, bool, error) {
	return Lookup(s, BucketAnswers, key, DecodeAnswers)
}

func (s *State) Request(key string) (r Request, found bool, err error) {
	read := func() (Request, bool, error) {
		return Lookup(s, BucketRequests, append(s.Draft.Lookup(), key...), DecodeRequest)
	}
	if s.Desk == nil {
		return read()
	}
	found, err = s.Desk.Requests.of(RecordID{Name: key}, &r, read)
	return r, found, err
}

// ScanObjects visits the names of all objects behind one.
func (s *State) ScanObjects(behind string, visit func(name string) bool) error {
	from := []byte(behind)
	if behind != "" {
		from = append(from, 1) // all keys of an object go on with a zero byte
	}
	return s.Scan(BucketObjects, from, func(key, _ []byte) bool {
		name, member, _ := strings.Cut(string(key), "\x00")
		return member != "" || visit(name)
	})
}

// ScanChains visits the chains of a question from a name on.
func (s *State) ScanChains(question uint32, from string, visit func(name string, c Chain) bool) error {
	prefix := ChainKey(question, "")
	levels := &LevelPage{}
	if s.Desk != nil {
		levels = &s.Desk.levels
	}
	var fault error
	var head wire.Sums
	err := s.Scan(BucketChains, ChainKey(question, from), func(key, value []byte) bool {
		if len(key) < len(prefix) || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		name := string(key[len(prefix):])
		var c Chain
		if c, fault = levels.OpenChain(&head, key, value); fault != nil {
			return false
		}
		if s.Desk != nil {
			s.Desk.Chains.Note(RecordID{question, name}, &c, true)
		}
		return visit(name, c)
	})
	if err == nil {
		err = fault
	}
	return err
}

func (p *LevelPage) OpenChain(head *wire.Sums, key, value []byte) (Chain, error) {
	payload, err := head.Unseal(BucketChains, key, value)
	if err != nil {
		return Chain{}, err
	}
	return p.DecodeChain(payload)
}

// plainObject is object in an audit's memory, where records have no checksums.
func (s *State) plainObject(name string, o *Object) (found bool, err error) {
	key := AppendObjectKey(s.Draft.Lookup(), name)
	payload, err := s.Get(BucketObjects, key)
	if err != nil || payload == nil {
		return false, err
	}
	*o, found, err = decodePayload(BucketObjects, key, payload, DecodeObject)
	return found, err
}

// plainChain is chain in an audit's memory.
func (s *State) plainChain(question uint32, name string, c *Chain) (found bool, err error) {
	key := AppendChainKey(s.Draft.Lookup(), question, name)
	payload, err := s.Get(BucketChains, key)
	if err != nil || payload == nil {
		return false, err
	}
	*c, found, err = decodePayload(BucketChains, key, payload, s.Levels.DecodeChain)
	return found, err
}

// RandomBytes fills b from the operating system's generator.
func RandomBytes(b []byte) { _, _ = rand.Read(b) } // it never fails
