package ledger

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
	bucketMeta      = "meta"
	bucketQuestions = "questions"
	bucketPolicies  = "policies"
	bucketObjects   = "objects"
	bucketChains    = "chains"
	bucketAnswers   = "answers"
	bucketRequests  = "requests"
	bucketBuyers    = "buyers"
	bucketSales     = "sales"
	bucketEvents    = "events"
	bucketTallies   = "tallies"
	bucketStrangers = "strangers"
)

const (
	keyFormat   = "format"
	keyAbout    = "about"
	keyCounters = "counters"
	keyTruthKey = "truth key"
	keyNoise    = "noise" // with a number behind it
)

// state is the ledger's state inside one transaction, as typed records.
type state struct {
	kv.Reader
	counters counters
	durable  counters  // as they were when the transaction began
	clock    time.Time // what the clock says: ceilings are those of this instant, and a clock gone back lowers them
	now      time.Time // the same or, if that is later, the time of the last event: windows and reservations end by it
	far      error     // that the clock is further ahead of the log than anybody has confirmed; nil if not
	writer   kv.Writer
	plain    bool                // records have no checksums: they are in an audit's memory
	known    *cache              // nil if nothing is remembered beyond the transaction
	recent   recent              // of what is known
	latest   numberedSale        // the sale last looked up
	client   numberedName        // the buyer whose name was last looked up
	tallies  map[tallyKey]*tally // those that changed, until flush
	near     []nearTally         // some of these; nil to find each by the map
	recounts []recounted         // of the event being applied, if plain
	desk     *desk               // the records worked on; nil to read and write each anew
	changes  *recency            // which records have changed when; nil if nobody knows
	levels   levelPage           // for the levels of chains, if plain
	draft    draft               // for records
	written  event.Written       // for events
	edge     *merkle.Edge        // of the tree; nil until it is needed
	chances  chances             // what is drawn from
	salts    func([]byte)        // fills memory for some salts with random bytes
	keyed    keyState            // whether the ledger has a truth key
	linked   linked
}

// linked tells what applying an event found out about the other events of its object.
type linked struct {
	previous uint64 // the last one before it, or 0
	erase    uint64 // the last one of those it destroys, or 0
	// eraseRequests is the last of the settled events that it destroys, or 0.
	eraseRequests uint64
}

// numberedName is a name with its number, 0 for none.
type numberedName struct {
	number uint32
	name   string
}

// numberedSale is a sale with its number, 0 for none.
type numberedSale struct {
	number uint64
	sale
}

// readState begins at a snapshot.
func readState(r kv.Reader) (*state, error) {
	s := &state{Reader: r}
	var err error
	s.counters, _, err = lookup(s, bucketMeta, []byte(keyCounters), decodeCounters)
	s.durable = s.counters
	return s, err
}

// writeState begins a transaction at the time now, or at that of the last event if the clock has
// gone back since.
func writeState(w kv.Writer, now time.Time) (*state, error) {
	s, err := readState(w)
	if err != nil {
		return nil, err
	}
	s.writer, s.salts = w, randomBytes
	s.tell(now)
	return s, nil
}

// checkBegun refuses a store without the events that begin every ledger.
func (s *state) checkBegun() error {
	if s.counters.events == 0 {
		return errs.Corrupt(nil, "not a Sluice ledger, or its counters are missing")
	}
	return nil
}

// tell tells the time. That of the log does not run back, whatever the clock does.
func (s *state) tell(clock time.Time) {
	s.clock = clock.UTC().Round(0) // as it will be read from the log: without a monotonic reading
	s.now = s.clock
	if s.now.Before(s.counters.last) {
		s.now = s.counters.last
	}
}

// get returns the payload of a record, or nil if there is none.
func (s *state) get(bucket string, key []byte) ([]byte, error) {
	value, err := s.Get(bucket, key)
	if err != nil || value == nil || s.plain {
		return value, err
	}
	return wire.Unseal(bucket, key, value)
}

func (s *state) put(bucket string, key, payload []byte) error {
	if s.plain {
		return s.writer.Put(bucket, key, payload)
	}
	return s.writer.Put(bucket, key, wire.Seal(bucket, key, payload))
}

// Scan implements [kv.Reader]. What is on the desk is written first, so that it is seen.
func (s *state) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if s.desk != nil && s.writer != nil {
		if err := s.flushDesk(); err != nil {
			return err
		}
	}
	return s.Reader.Scan(bucket, from, visit)
}

func lookup[T any](s *state, bucket string, key []byte, decode func([]byte) (T, error)) (record T, found bool, err error) {
	value, err := s.Get(bucket, key)
	if err != nil {
		return record, false, err
	}
	if s.plain {
		return decodePayload(bucket, key, value, decode)
	}
	return decodeRecord(bucket, key, value, decode)
}

func number32(payload []byte) (uint32, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U32(), d.Done()
}

func number64(payload []byte) (uint64, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U64(), d.Done()
}

// eventKey is the key of an event, or of a sale.
func eventKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// The keys of questions and of buyers: a name and a number are told apart by their first byte.
func nameKey(name string) []byte { return append([]byte("n"), name...) }
func numberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("q"), number)
}
func policyJSONKey(hash [32]byte) []byte   { return append([]byte("h"), hash[:]...) }
func policyNumberKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("p"), number) }

// objectKey ends with a zero byte, which no name contains, so that the records of an object stand
// together and no name is the beginning of another's.
func objectKey(name string) []byte {
	return appendObjectKey(make([]byte, 0, len(name)+5), name) // with room for a question
}

func appendObjectKey(key []byte, name string) []byte { return append(append(key, name...), 0) }

// memberKey lists a question of an object right behind the object.
func memberKey(name string, question uint32) []byte {
	return appendMemberKey(make([]byte, 0, len(name)+5), name, question)
}

func appendMemberKey(key []byte, name string, question uint32) []byte {
	return binary.BigEndian.AppendUint32(appendObjectKey(key, name), question)
}

// chainKey puts all chains of a question together, in the order of the objects' names.
func chainKey(question uint32, name string) []byte {
	return appendChainKey(make([]byte, 0, 4+len(name)), question, name)
}

func appendChainKey(key []byte, question uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(key, question), name...)
}

func (s *state) questionNumber(name string) (number uint32, found bool, err error) {
	if len(name) > names.MaxBytes {
		return 0, false, nil // nothing has such a name, and a key of its length would double the memory
	}
	return lookup(s, bucketQuestions, nameKey(name), number32)
}

func (s *state) loadQuestion(number uint32) (*event.Question, error) {
	q, found, err := lookup(s, bucketQuestions, numberKey(number), event.DecodeQuestion)
	if err == nil && !found {
		err = fmt.Errorf("%w: question %d is missing", ErrCorrupt, number)
	}
	return q, err
}

func (s *state) policyNumber(p policy.Policy) (number uint32, found bool, err error) {
	return lookup(s, bucketPolicies, policyJSONKey(wire.HashText(p.String())), number32)
}

func (s *state) loadPolicy(number uint32) (policy.Policy, error) {
	if number == 0 {
		return noPolicy(), nil
	}
	p, found, err := lookup(s, bucketPolicies, policyNumberKey(number), policy.Parse)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !found {
		return p, fmt.Errorf("%w: policy %d is missing", ErrCorrupt, number)
	}
	return p, nil
}

func (s *state) object(name string) (o object, found bool, err error) {
	found, err = s.readObject(name, &o)
	return o, found, err
}

func (s *state) readObject(name string, o *object) (found bool, err error) {
	if len(name) > names.MaxBytes {
		return false, nil
	}
	if s.plain {
		return s.plainObject(name, o)
	}
	read := func() (object, bool, error) {
		return lookup(s, bucketObjects, appendObjectKey(s.draft.lookup(), name), decodeObject)
	}
	if s.desk == nil {
		*o, found, err = read()
	} else {
		found, err = s.desk.objects.of(recordID{name: name}, o, read)
	}
	return found, err
}

// stranger returns what the log has about somebody who was never enrolled.
func (s *state) stranger(name string) (stranger, bool, error) {
	return lookup(s, bucketStrangers, append(s.draft.lookup(), name...), decodeStranger)
}

func (s *state) putObject(name string, o object) error {
	if s.desk != nil {
		s.desk.objects.set(recordID{name: name}, &o)
		return nil
	}
	return s.writeObject(recordID{name: name}, o)
}

func (s *state) writeObject(id recordID, o object) error {
	k := s.draft.key()
	k.Buf = appendObjectKey(k.Buf, id.name)
	o.encodeTo(s.draft.value())
	return s.write(bucketObjects)
}

func (s *state) chain(question uint32, name string) (c chain, found bool, err error) {
	found, err = s.readChain(question, name, &c)
	return c, found, err
}

func (s *state) readChain(question uint32, name string, c *chain) (found bool, err error) {
	if s.plain {
		return s.plainChain(question, name, c)
	}
	read := func() (chain, bool, error) {
		return lookup(s, bucketChains, appendChainKey(s.draft.lookup(), question, name), decodeChain)
	}
	if s.desk == nil {
		*c, found, err = read()
	} else {
		found, err = s.desk.chains.of(recordID{question, name}, c, read)
	}
	return found, err
}

func (s *state) buyerNumber(name string) (number uint32, found bool, err error) {
	if len(name) > names.MaxBytes {
		return 0, false, nil
	}
	return lookup(s, bucketBuyers, nameKey(name), number32)
}

func (s *state) buyer(number uint32) (buyer, error) {
	b, found, err := lookup(s, bucketBuyers, numberKey(number), decodeBuyer)
	if err != nil || !found {
		return b, errs.Corrupt(err, "buyer %d is missing", number)
	}
	return b, nil
}

// buyerName returns the name of a buyer, which never changes. It remembers the last: the objects of a sale ask for it in turn.
func (s *state) buyerName(number uint32) (string, error) {
	if s.client.number != number || number == 0 {
		b, err := s.buyer(number)
		if err != nil {
			return "", err
		}
		s.client = numberedName{number, b.name}
	}
	return s.client.name, nil
}

// sale returns a sale or reservation. It remembers the last: the objects of one ask for it in turn.
func (s *state) sale(number uint64) (sale, error) {
	if s.latest.number == number && number != 0 {
		return s.latest.sale, nil
	}
	r, found, err := lookup(s, bucketSales, eventKey(number), decodeSale)
	if err != nil || !found {
		return r, errs.Corrupt(err, "sale %d is missing", number)
	}
	s.latest = numberedSale{number, r}
	return r, nil
}

func (s *state) putSale(number uint64, r sale) error {
	s.latest = numberedSale{number, r}
	return s.put(bucketSales, eventKey(number), r.Encode())
}

func (s *state) answers(key []byte) (answers, bool, error) {
	return lookup(s, bucketAnswers, key, decodeAnswers)
}

func (s *state) request(key string) (r request, found bool, err error) {
	read := func() (request, bool, error) {
		return lookup(s, bucketRequests, append(s.draft.lookup(), key...), decodeRequest)
	}
	if s.desk == nil {
		return read()
	}
	found, err = s.desk.requests.of(recordID{name: key}, &r, read)
	return r, found, err
}

// scanObjects visits the names of all objects behind one.
func (s *state) scanObjects(behind string, visit func(name string) bool) error {
	from := []byte(behind)
	if behind != "" {
		from = append(from, 1) // all keys of an object go on with a zero byte
	}
	return s.Scan(bucketObjects, from, func(key, _ []byte) bool {
		name, member, _ := strings.Cut(string(key), "\x00")
		return member != "" || visit(name)
	})
}

// scanChains visits the chains of a question from a name on.
func (s *state) scanChains(question uint32, from string, visit func(name string, c chain) bool) error {
	prefix := chainKey(question, "")
	levels := &levelPage{}
	if s.desk != nil {
		levels = &s.desk.levels
	}
	var fault error
	var head wire.Sums
	err := s.Scan(bucketChains, chainKey(question, from), func(key, value []byte) bool {
		if len(key) < len(prefix) || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		name := string(key[len(prefix):])
		var c chain
		if c, fault = levels.openChain(&head, key, value); fault != nil {
			return false
		}
		if s.desk != nil {
			s.desk.chains.note(recordID{question, name}, &c, true)
		}
		return visit(name, c)
	})
	if err == nil {
		err = fault
	}
	return err
}

func (p *levelPage) openChain(head *wire.Sums, key, value []byte) (chain, error) {
	payload, err := head.Unseal(bucketChains, key, value)
	if err != nil {
		return chain{}, err
	}
	return p.decodeChain(payload)
}

// plainObject is object in an audit's memory, where records have no checksums.
func (s *state) plainObject(name string, o *object) (found bool, err error) {
	key := appendObjectKey(s.draft.lookup(), name)
	payload, err := s.Get(bucketObjects, key)
	if err != nil || payload == nil {
		return false, err
	}
	*o, found, err = decodePayload(bucketObjects, key, payload, decodeObject)
	return found, err
}

// plainChain is chain in an audit's memory.
func (s *state) plainChain(question uint32, name string, c *chain) (found bool, err error) {
	key := appendChainKey(s.draft.lookup(), question, name)
	payload, err := s.Get(bucketChains, key)
	if err != nil || payload == nil {
		return false, err
	}
	*c, found, err = decodePayload(bucketChains, key, payload, s.levels.decodeChain)
	return found, err
}

// randomBytes fills b from the operating system's generator.
func randomBytes(b []byte) { _, _ = rand.Read(b) } // it never fails
