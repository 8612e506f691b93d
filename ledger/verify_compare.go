package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// auditedBuckets are the buckets of the state, in the order in which they are compared. The sums come last:
// they say how many of everything there should be.
func auditedBuckets() []string {
	return []string{
		bucketQuestions, bucketPolicies, bucketBuyers, bucketObjects, bucketStrangers, bucketChains, bucketAnswers, bucketSales, bucketRequests, bucketTallies, bucketMeta,
	}
}

// bucketKind returns the kind of problems with the records of a bucket.
func bucketKind(bucket string) string {
	switch bucket {
	case bucketQuestions:
		return "question"
	case bucketPolicies:
		return "policy"
	case bucketObjects:
		return "object"
	case bucketChains:
		return "chain"
	case bucketBuyers:
		return "buyer"
	case bucketSales:
		return "sale"
	case bucketRequests:
		return "request"
	case bucketTallies:
		return "tally"
	case bucketStrangers:
		return "stranger"
	case bucketEvents:
		return problemEvent
	case bucketMeta:
		return problemLedger
	}
	return bucket // "answers"
}

// compareSome compares what is stored with the fold, up to a bound, from where it stopped before. The fold is
// that of all events in this snapshot.
func (a *auditor) compareSome(r kv.Reader) error {
	left := a.pace.records
	buckets := auditedBuckets()
	for a.at.bucket < len(buckets) {
		from, err := a.compareBucket(r, buckets[a.at.bucket], a.at.from, &left)
		if err != nil {
			return err
		}
		if a.at.from = from; from != nil {
			return nil
		}
		a.at.bucket++
	}
	a.finish()
	return nil
}

// keyValue is a record of the fold.
type keyValue struct{ key, value []byte }

// compareBucket merges the stored records of a bucket with those of the fold. It returns from where to go on,
// or nil at the end.
func (a *auditor) compareBucket(r kv.Reader, bucket string, from []byte, left *int) (next []byte, err error) {
	folded, err := a.scratch.Walk(bucket, from)
	if err != nil {
		return nil, err
	}
	defer folded.Close()
	var fault error
	var derived keyValue
	more := true
	step := func() {
		if more && fault == nil {
			derived.key, derived.value, fault = folded.Next()
			more = derived.key != nil
		}
	}
	step()
	sums := recordSums{bucket: bucket}
	// missing reports what the fold has below a key, or until the end.
	missing := func(until []byte) bool {
		for more && (until == nil || bytes.Compare(derived.key, until) < 0) {
			if *left--; *left < 0 || a.full() {
				next = bytes.Clone(derived.key)
				return false
			}
			a.compareRecord(bucket, derived.key, nil, derived.value)
			step()
		}
		return true
	}
	broken := r.Scan(bucket, from, func(key, value []byte) bool {
		if !missing(key) {
			return false
		}
		if *left--; *left < 0 || a.full() {
			next = bytes.Clone(key)
			return false
		}
		if !more || !bytes.Equal(derived.key, key) {
			a.compareRecord(bucket, key, value, nil)
			return true
		}
		if !sums.isRecord(key, value, derived.value) {
			a.compareRecord(bucket, key, value, derived.value)
		}
		step()
		return true
	})
	if broken != nil && next == nil {
		a.fault(kv.Fault{Bucket: bucket, Text: "not all records can be read: " + reason(broken)})
	}
	if next == nil {
		missing(nil)
	}
	return next, fault
}

// isRecord tells whether a stored value is a payload with its checksum.
func isRecord(bucket string, key, stored, payload []byte) bool {
	return (&recordSums{bucket: bucket}).isRecord(key, stored, payload)
}

// recordSums checks the checksums of a bucket. Those of keys of the same length begin with the same head.
type recordSums struct {
	bucket string
	heads  [64]uint32 // by the length of the keys
	known  uint64     // for which lengths, a bit each
}

// isRecord is that of the bucket.
func (s *recordSums) isRecord(key, stored, payload []byte) bool {
	if s.bucket == bucketMeta && string(key) == keyFormat { // which has none
		return bytes.Equal(stored, payload)
	}
	n := len(stored) - wire.SumLength
	if n < 0 || !bytes.Equal(stored[:n], payload) {
		return false
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	return binary.BigEndian.Uint32(stored[n:]) == crc32.Update(crc32.Update(s.headOf(len(key)), table, key), table, payload)
}

func (s *recordSums) headOf(length int) uint32 {
	if length >= len(s.heads) {
		return wire.ChecksumHead(s.bucket, length)
	}
	if s.known>>length&1 == 0 {
		s.known |= 1 << length
		s.heads[length] = wire.ChecksumHead(s.bucket, length)
	}
	return s.heads[length]
}

// compareRecord reports how a stored record differs from that of the fold, which has no checksum. One of them may be nil.
func (a *auditor) compareRecord(bucket string, key, stored, derived []byte) {
	p := a.about(bucket, key)
	what := p.Text
	report := func(text string) {
		p.Text = what + ": " + text
		a.report(p)
	}
	if bucket == bucketRequests && derived != nil {
		if derived = a.forgottenSince(derived); isRecord(bucket, key, stored, derived) {
			return
		}
	}
	if derived != nil {
		p.Event = lastEvent(bucket, key, derived)
	}
	switch {
	case stored == nil:
		report("the record is missing")
		return
	case derived == nil:
		report("there is such a record, and no event makes one")
	}
	if bucket == bucketMeta && string(key) == keyFormat { // which has no checksum
		report(fmt.Sprintf("is %x, and should be %x", stored, derived))
		return
	}
	found, err := wire.Unseal(bucket, key, stored)
	if err != nil {
		report("its checksum is wrong")
		found = stored[:max(0, len(stored)-wire.SumLength)]
	}
	if derived == nil {
		return
	}
	fields, fault := a.differences(bucket, key, found, derived)
	if fault != nil {
		report("it cannot be read: " + reason(fault))
		return
	}
	for _, text := range fields {
		report(text)
	}
	if len(fields) == 0 && err == nil {
		report("it is not stored in the form that it has") // decoders accept no such thing
	}
}

// forgottenSince returns the record of a request as it is once the object that it was about is forgotten: if
// that came between reading the event that settled the request, and this snapshot.
func (a *auditor) forgottenSince(derived []byte) []byte {
	r, err := decodeRequest(derived)
	if err != nil || len(r.settled) != 1 {
		return derived
	}
	n, err := a.fold.entry(r.settled[0])
	if c, ok := n.Change.(*event.Settled); err != nil || !ok || !c.Alone || n.Erased == nil {
		return derived
	}
	r.digest = [sha256.Size]byte{}
	return r.Encode()
}

// about returns a problem with a record by its key: kind, object and question, and as its text what it is.
func (a *auditor) about(bucket string, key []byte) Problem {
	p := Problem{Kind: bucketKind(bucket)}
	d := &wire.Decoder{Rest: key}
	switch bucket {
	case bucketQuestions, bucketBuyers, bucketPolicies:
		p.Text = a.aboutNumbered(bucket, key, &p)
	case bucketObjects:
		name, member, _ := strings.Cut(string(key), "\x00")
		p.Object, p.Text = name, fmt.Sprintf("object %q", name)
		if len(member) == 4 {
			p.Text += fmt.Sprintf(" in question %d", binary.BigEndian.Uint32([]byte(member)))
			p.Question = a.questionName(binary.BigEndian.Uint32([]byte(member)))
		}
	case bucketChains:
		p.Question = a.questionName(d.U32())
		p.Object = string(d.Rest)
		p.Text = fmt.Sprintf("chain of %q in %q", p.Object, p.Question)
	case bucketStrangers:
		p.Object, p.Text = string(key), fmt.Sprintf("stranger %q", key)
	case bucketAnswers:
		p.Question = a.questionName(d.U32())
		panel := d.Take(32)
		p.Text = fmt.Sprintf("answers to %q about the panel %.4x", d.Rest, panel)
	case bucketTallies:
		k, err := decodeTallyKey(key)
		if err != nil {
			break
		}
		p.Question = a.questionName(k.question)
		p.Text = fmt.Sprintf("tally at ε=%s", k.epsilon)
		if q, err := a.fold.question(k.question); err != nil || q.Encoding != Unary {
			p.Text = fmt.Sprintf("tally of %s at ε=%s", a.valueName(k.question, k.epsilon, event.Value{Index: int(k.value)}), k.epsilon)
		}
	case bucketSales:
		if number := d.U64(); d.Done() == nil {
			p.Text = fmt.Sprintf("sale %d", number)
		}
	case bucketEvents:
		if number := d.U64(); d.Done() == nil {
			p.Event = number
		}
	case bucketRequests:
		p.Text = fmt.Sprintf("request %q", key)
	case bucketMeta:
		p.Kind, p.Text = aboutMeta(string(key))
	}
	if p.Text == "" {
		p.Text = fmt.Sprintf("key %x", key)
	}
	return p
}

// aboutMeta is about for the records of which there is one each.
func aboutMeta(key string) (kind, text string) {
	switch key {
	case keyCounters:
		return problemCounters, "the sums over the log"
	case keyAbout:
		return problemLedger, "what the ledger was created with"
	case keyTruthKey:
		return problemLedger, "the check of the truth key"
	case keyFormat:
		return problemLedger, "the format of the file"
	}
	if strings.HasPrefix(key, keyNoise) {
		return problemLedger, fmt.Sprintf("noise key %x", key[len(keyNoise):])
	}
	return problemLedger, fmt.Sprintf("%q", key)
}

// aboutNumbered is about for what has a number and a name.
func (a *auditor) aboutNumbered(bucket string, key []byte, p *Problem) string {
	kind := bucketKind(bucket)
	if len(key) == len(numberKey(0)) && (key[0] == 'q' || key[0] == 'p') {
		number := binary.BigEndian.Uint32(key[1:])
		if bucket == bucketQuestions {
			p.Question = a.questionName(number)
		}
		return fmt.Sprintf("%s %d", kind, number)
	}
	if len(key) == 0 {
		return kind
	}
	if len(key) == len(definitionKey(0)) && key[0] == 'e' {
		return fmt.Sprintf("the event of %s %d", kind, binary.BigEndian.Uint32(key[1:]))
	}
	if bucket == bucketPolicies {
		return fmt.Sprintf("the number of the policy with the hash %x", key[1:])
	}
	if bucket == bucketQuestions {
		p.Question = string(key[1:])
	}
	return fmt.Sprintf("the number of the %s %q", kind, key[1:])
}

// valueName returns a value of a question in words.
func (a *auditor) valueName(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q, err := a.fold.question(question); err == nil && q.Has(epsilon, v) {
		return fmt.Sprintf("%q", q.Text(epsilon, v))
	}
	return v.String()
}

// lastEvent returns the last event known to have changed a record of the fold, or 0.
func lastEvent(bucket string, key, payload []byte) uint64 {
	switch bucket {
	case bucketObjects:
		if o, err := decodeObject(payload); err == nil && isObjectKey(key) {
			return max(o.latest, o.withdrawn)
		}
	case bucketChains:
		if c, err := decodeChain(payload); err == nil {
			last := max(c.enrolled, c.since)
			for _, l := range c.levels {
				last = max(last, l.event)
			}
			return last
		}
	case bucketAnswers:
		last := uint64(0)
		if a, err := decodeAnswers(payload); err == nil {
			for _, l := range a {
				last = max(last, l.event)
			}
		}
		return last
	case bucketSales:
		if r, err := decodeSale(payload); err == nil {
			return r.event
		}
	case bucketRequests:
		if r, err := decodeRequest(payload); err == nil && len(r.settled) > 0 {
			return r.settled[len(r.settled)-1]
		}
	case bucketStrangers:
		if x, err := decodeStranger(payload); err == nil {
			return x.latest
		}
	}
	return 0
}

// isObjectKey tells the key of an object from those behind it.
func isObjectKey(key []byte) bool { return bytes.IndexByte(key, 0) == len(key)-1 }

// differ are the fields in which a record differs, in words.
type differ []string

func compareField[T comparable](d *differ, name string, stored, derived T) {
	if stored != derived {
		*d = append(*d, fmt.Sprintf("%s is %v, the events say %v", name, stored, derived))
	}
}

func compareList[T comparable](d *differ, name string, stored, derived []T) {
	if !slices.Equal(stored, derived) {
		*d = append(*d, fmt.Sprintf("%s are %v, the events say %v", name, stored, derived))
	}
}

func compareTime(d *differ, name string, stored, derived time.Time) {
	if !stored.Equal(derived) {
		*d = append(*d, fmt.Sprintf("%s is %s, the events say %s", name, stored.Format(time.RFC3339Nano), derived.Format(time.RFC3339Nano)))
	}
}

// differences names the fields in which two payloads of a record differ.
func (a *auditor) differences(bucket string, key, stored, derived []byte) (differ, error) {
	switch bucket {
	case bucketObjects:
		if !isObjectKey(key) {
			return between(stored, derived, number32, compareNumber)
		}
		return between(stored, derived, decodeObject, compareObjects)
	case bucketChains:
		question := binary.BigEndian.Uint32(key)
		return between(stored, derived, decodeChain, func(d *differ, s, e chain) { a.compareChains(d, question, s, e) })
	case bucketAnswers:
		question := binary.BigEndian.Uint32(key)
		return between(stored, derived, decodeAnswers, func(d *differ, s, e answers) { a.compareAnswers(d, question, s, e) })
	case bucketSales:
		return between(stored, derived, decodeSale, compareSales)
	case bucketRequests:
		return between(stored, derived, decodeRequest, compareRequests)
	case bucketTallies:
		return between(stored, derived, decodeTally, func(d *differ, s, e tally) {
			compareField(d, "the number of chains with it", s.recorded, e.recorded)
			compareField(d, "the number of chains where it is the current one", s.current, e.current)
			compareField(d, "the number of bits", len(s.bits), len(e.bits))
			for i := range min(len(s.bits), len(e.bits)) {
				compareField(d, fmt.Sprintf("the chains with bit %d", i), s.bits[i].recorded, e.bits[i].recorded)
				compareField(d, fmt.Sprintf("the chains where bit %d is current", i), s.bits[i].current, e.bits[i].current)
			}
		})
	case bucketStrangers:
		return between(stored, derived, decodeStranger, func(d *differ, s, e stranger) {
			compareLinks(d, s.links, e.links)
		})
	}
	return a.moreDifferences(bucket, key, stored, derived)
}

// moreDifferences is differences for what has few records.
func (a *auditor) moreDifferences(bucket string, key, stored, derived []byte) (differ, error) {
	switch {
	case bucket == bucketMeta && string(key) == keyCounters:
		return between(stored, derived, decodeCounters, compareCounters)
	case bucket == bucketMeta && string(key) == keyAbout:
		return between(stored, derived, decodeAbout, func(d *differ, s, e about) {
			compareTime(d, "the time of creation", s.at, e.at)
			compareField(d, "the id", fmt.Sprintf("%x", s.Id), fmt.Sprintf("%x", e.Id))
			compareField(d, "the currency", s.Currency, e.Currency)
			compareField(d, "the log key", s.LogKey, e.LogKey)
		})
	case bucket == bucketMeta || bucket == bucketPolicies && key[0] == 'p':
		var d differ
		compareField(&d, "it", fmt.Sprintf("%q", stored), fmt.Sprintf("%q", derived))
		return d, nil
	case key[0] == 'e':
		return between(stored, derived, number64, func(d *differ, s, e uint64) { compareField(d, "the event that defined it", s, e) })
	case bucket == bucketQuestions && key[0] == 'q':
		return between(stored, derived, event.DecodeQuestion, func(d *differ, s, e *event.Question) {
			compareField(d, "the number", s.Number, e.Number)
			compareField(d, "the name", s.Name, e.Name)
			compareList(d, "the values", s.Values, e.Values)
			compareField(d, "the encoding", s.Encoding, e.Encoding)
			compareField(d, "the mechanism", string(s.Mechanism.Encode()), string(e.Mechanism.Encode()))
		})
	case bucket == bucketBuyers && key[0] == 'q':
		return between(stored, derived, decodeBuyer, func(d *differ, s, e buyer) {
			compareField(d, "the name", s.name, e.name)
			compareField(d, "the number of sales", s.sold, e.sold)
			compareField(d, "paid", s.paid, e.paid)
		})
	}
	return between(stored, derived, number32, compareNumber)
}

// between compares two payloads of the same type.
func between[T any](stored, derived []byte, decode func([]byte) (T, error), compare func(d *differ, stored, derived T)) (d differ, err error) {
	s, err := decode(stored)
	if err != nil {
		return nil, err
	}
	e, err := decode(derived)
	if err != nil {
		return nil, err
	}
	compare(&d, s, e)
	return d, nil
}

func compareNumber(d *differ, s, e uint32) { compareField(d, "the number", s, e) }

func compareObjects(d *differ, s, e object) {
	compareField(d, "the cap", s.cap, e.cap)
	compareField(d, "spent", s.spent, e.spent)
	compareField(d, "the number of chains", s.chains, e.chains)
	compareField(d, "the event of the withdrawal", s.withdrawn, e.withdrawn)
	compareField(d, "the event by which it was forgotten", s.forgotten, e.forgotten)
	compareField(d, "earned", s.earned, e.earned)
	compareLinks(d, s.links, e.links)
	compareList(d, "the reservations", s.held, e.held)
}

func compareLinks(d *differ, s, e links) {
	compareField(d, "the last event", s.latest, e.latest)
	compareField(d, "the number of events", s.events, e.events)
	compareField(d, "the last request", s.settled, e.settled)
	compareField(d, "the number of requests", s.settles, e.settles)
}

func (a *auditor) compareChains(d *differ, question uint32, s, e chain) {
	compareField(d, "the event of the enrolment", s.enrolled, e.enrolled)
	compareField(d, "the policy", s.policy, e.policy)
	compareField(d, "the noise key", s.noise, e.noise)
	compareField(d, "the number of buyers", s.buyers, e.buyers)
	compareField(d, "the tag of the truth", tagText(s.bound), tagText(e.bound))
	compareField(d, "charged by answers", s.answered, e.answered)
	compareField(d, "the event of the epoch", s.since, e.since)
	compareField(d, "the number of epochs before", len(s.closed), len(e.closed))
	for i := range min(len(s.closed), len(e.closed)) {
		old, told := s.closed[i], e.closed[i]
		compareField(d, "the end of an epoch", old.end, told.end)
		a.compareChains(d, question, chain{answered: old.answered, levels: old.levels}, chain{answered: told.answered, levels: told.levels})
	}
	for len(s.levels) > 0 || len(e.levels) > 0 {
		switch first := firstOf(s.levels, e.levels, func(l level) int64 { return l.Epsilon.Nano() }); first {
		case -1:
			*d = append(*d, fmt.Sprintf("there is a response at ε=%s, by the events there is none", s.levels[0].Epsilon))
			s.levels = s.levels[1:]
		case 1:
			*d = append(*d, fmt.Sprintf("there is no response at ε=%s, by the events there is one", e.levels[0].Epsilon))
			e.levels = e.levels[1:]
		default:
			a.compareLevels(d, question, s.levels[0], e.levels[0])
			compareList(d, fmt.Sprintf("the buyers at ε=%s", s.levels[0].Epsilon), s.levels[0].buyers, e.levels[0].buyers)
			s.levels, e.levels = s.levels[1:], e.levels[1:]
		}
	}
}

func (a *auditor) compareAnswers(d *differ, question uint32, s, e answers) {
	for len(s) > 0 || len(e) > 0 {
		switch first := firstOf(s, e, func(l answerLevel) int64 { return l.epsilon.Nano() }); first {
		case -1:
			*d = append(*d, fmt.Sprintf("there is an answer at ε=%s, by the events there is none", s[0].epsilon))
			s = s[1:]
		case 1:
			*d = append(*d, fmt.Sprintf("there is no answer at ε=%s, by the events there is one", e[0].epsilon))
			e = e[1:]
		default:
			at := s[0].epsilon
			compareField(d, fmt.Sprintf("whether there is a score at ε=%s", at), s[0].Scored, e[0].Scored)
			compareField(d, fmt.Sprintf("the output at ε=%s", at), s[0].Output, e[0].Output)
			compareField(d, fmt.Sprintf("the score at ε=%s", at), s[0].Score, e[0].Score)
			compareField(d, fmt.Sprintf("the event at ε=%s", at), s[0].event, e[0].event)
			compareField(d, fmt.Sprintf("the first event of the answers with that at ε=%s", at), s[0].began, e[0].began)
			compareField(d, fmt.Sprintf("the number of objects at ε=%s", at), s[0].objects, e[0].objects)
			s, e = s[1:], e[1:]
		}
	}
}

// firstOf tells which of two lists comes first in order: -1, 1, or 0 if their heads are equal.
func firstOf[T any](s, e []T, key func(T) int64) int {
	switch {
	case len(s) == 0:
		return 1
	case len(e) == 0:
		return -1
	}
	return cmp.Compare(key(s[0]), key(e[0]))
}

func (a *auditor) compareLevels(d *differ, question uint32, s, e level) {
	compareField(d, fmt.Sprintf("the response at ε=%s", s.Epsilon), a.valueName(question, s.Epsilon, s.Response), a.valueName(question, e.Epsilon, e.Response))
	compareField(d, fmt.Sprintf("the event at ε=%s", s.Epsilon), s.event, e.event)
}

func tagText(t *event.Tag) string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%x", t[:])
}

func compareSales(d *differ, s, e sale) {
	compareField(d, "it", statusText(s.status), statusText(e.status))
	compareField(d, "the buyer", s.buyer, e.buyer)
	compareField(d, "the question", s.question, e.question)
	compareField(d, "ε", s.epsilon, e.epsilon)
	compareField(d, "the number of objects", s.objects, e.objects)
	compareField(d, "the price", s.price, e.price)
	compareField(d, "the number of refused objects", s.refused, e.refused)
	compareField(d, "the event", s.event, e.event)
	compareField(d, "the event of the reservation", s.granted, e.granted)
	compareTime(d, "the end of the reservation", s.expires, e.expires)
	compareField(d, "the price reserved", s.promised, e.promised)
}

func statusText(s saleStatus) string {
	switch s {
	case saleReserved:
		return "reserved"
	case saleSold:
		return "sold"
	case saleCancelled:
		return "cancelled"
	}
	return fmt.Sprintf("of status %d", uint8(s))
}

func compareRequests(d *differ, s, e request) {
	compareField(d, "the digest", fmt.Sprintf("%x", s.digest), fmt.Sprintf("%x", e.digest))
	compareField(d, "done", s.done, e.done)
	compareField(d, "the event up to which objects belong to it", s.through, e.through)
	compareField(d, "the number of objects dealt with", s.dealt, e.dealt)
	compareList(d, "the events that settle it", s.settled, e.settled)
}

func compareCounters(d *differ, s, e counters) {
	compareField(d, "the number of events", s.events, e.events)
	compareField(d, "the root of their tree", s.root, e.root)
	compareTime(d, "the time of the last event", s.last, e.last)
	compareField(d, "the number of noise keys", s.noises, e.noises)
	compareField(d, "the number of questions", s.questions, e.questions)
	compareField(d, "the number of policies", s.policies, e.policies)
	compareField(d, "the number of objects", s.objects, e.objects)
	compareField(d, "the number of chains", s.chains, e.chains)
	compareField(d, "the number of buyers", s.buyers, e.buyers)
	compareField(d, "the number of sales and reservations", s.sales, e.sales)
	compareField(d, "the number of sales carried out", s.sold, e.sold)
	compareField(d, "the revenue", s.revenue, e.revenue)
	compareField(d, "the number of refusals that no request settles", s.refused, e.refused)
	compareField(d, "the number of objects charged for no answer", s.charges.objects, e.charges.objects)
	compareField(d, "what is to be settled", fmt.Sprintf("%+v", s.underway), fmt.Sprintf("%+v", e.underway))
	compareField(d, "the ε in erased events that belongs to no forgotten object", s.erased.spent, e.erased.spent)
	compareField(d, "the number of erased events that belong to no forgotten object", s.erased.events, e.erased.events)
	compareField(d, "the money in erased events that belongs to no forgotten object", s.erased.earned, e.erased.earned)
	compareField(d, "the sale that no request settles", s.unsettled, e.unsettled)
	compareField(d, "the sale that is not complete", s.open.sale, e.open.sale)
	if s.open.sale != 0 && s.open.sale == e.open.sale {
		compareField(d, "what is missing of it", fmt.Sprintf("%+v", s.open), fmt.Sprintf("%+v", e.open))
	}
	compareField(d, "the question of these charges", s.charges.question, e.charges.question)
	compareField(d, "the ε of these charges", s.charges.epsilon, e.charges.epsilon)
	compareField(d, "the last event that forgot one of them, or began an epoch", s.charges.renewed, e.charges.renewed)
}
