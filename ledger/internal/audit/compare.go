package audit

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
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// auditedBuckets are the buckets of the state, in the order in which they are compared. The sums come last:
// they say how many of everything there should be.
func auditedBuckets() []string {
	return []string{
		state.BucketQuestions, state.BucketPolicies, state.BucketBuyers, state.BucketObjects, state.BucketStrangers, state.BucketChains, state.BucketAnswers, state.BucketSales, state.BucketRequests, state.BucketTallies, state.BucketMeta,
	}
}

// bucketKind returns the kind of problems with the records of a bucket.
func bucketKind(bucket string) string {
	switch bucket {
	case state.BucketQuestions:
		return "question"
	case state.BucketPolicies:
		return "policy"
	case state.BucketObjects:
		return "object"
	case state.BucketChains:
		return "chain"
	case state.BucketBuyers:
		return "buyer"
	case state.BucketSales:
		return "sale"
	case state.BucketRequests:
		return "request"
	case state.BucketTallies:
		return "tally"
	case state.BucketStrangers:
		return "stranger"
	case state.BucketEvents:
		return problemEvent
	case state.BucketMeta:
		return problemLedger
	}
	return bucket // "answers"
}

// keyValue is a record of the fold.
type keyValue struct{ key, value []byte }

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
	if s.bucket == state.BucketMeta && string(key) == state.KeyFormat { // which has none
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

// aboutMeta is about for the records of which there is one each.
func aboutMeta(key string) (kind, text string) {
	switch key {
	case state.KeyCounters:
		return problemCounters, "the sums over the log"
	case state.KeyAbout:
		return problemLedger, "what the ledger was created with"
	case state.KeyTruthKey:
		return problemLedger, "the check of the truth key"
	case state.KeyFormat:
		return problemLedger, "the format of the file"
	}
	if strings.HasPrefix(key, state.KeyNoise) {
		return problemLedger, fmt.Sprintf("noise key %x", key[len(state.KeyNoise):])
	}
	return problemLedger, fmt.Sprintf("%q", key)
}

// lastEvent returns the last event known to have changed a record of the fold, or 0.
func lastEvent(bucket string, key, payload []byte) uint64 {
	switch bucket {
	case state.BucketObjects:
		if o, err := state.DecodeObject(payload); err == nil && isObjectKey(key) {
			return max(o.Latest, o.Withdrawn)
		}
	case state.BucketChains:
		if c, err := state.DecodeChain(payload); err == nil {
			last := max(c.Enrolled, c.Since)
			for _, l := range c.Levels {
				last = max(last, l.Event)
			}
			return last
		}
	case state.BucketAnswers:
		last := uint64(0)
		if a, err := state.DecodeAnswers(payload); err == nil {
			for _, l := range a {
				last = max(last, l.Event)
			}
		}
		return last
	case state.BucketSales:
		if r, err := state.DecodeSale(payload); err == nil {
			return r.Event
		}
	case state.BucketRequests:
		if r, err := state.DecodeRequest(payload); err == nil && len(r.Settled) > 0 {
			return r.Settled[len(r.Settled)-1]
		}
	case state.BucketStrangers:
		if x, err := state.DecodeStranger(payload); err == nil {
			return x.Latest
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

func compareObjects(d *differ, s, e state.Object) {
	compareField(d, "the cap", s.Cap, e.Cap)
	compareField(d, "spent", s.Spent, e.Spent)
	compareField(d, "the number of chains", s.Chains, e.Chains)
	compareField(d, "the event of the withdrawal", s.Withdrawn, e.Withdrawn)
	compareField(d, "the event by which it was forgotten", s.Forgotten, e.Forgotten)
	compareField(d, "earned", s.Earned, e.Earned)
	compareLinks(d, s.Links, e.Links)
	compareList(d, "the reservations", s.Held, e.Held)
}

func compareLinks(d *differ, s, e state.Links) {
	compareField(d, "the last event", s.Latest, e.Latest)
	compareField(d, "the number of events", s.Events, e.Events)
	compareField(d, "the last request", s.Settled, e.Settled)
	compareField(d, "the number of requests", s.Settles, e.Settles)
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

func tagText(t *event.Tag) string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%x", t[:])
}

func compareSales(d *differ, s, e state.Sale) {
	compareField(d, "it", statusText(s.Status), statusText(e.Status))
	compareField(d, "the buyer", s.Buyer, e.Buyer)
	compareField(d, "the question", s.Question, e.Question)
	compareField(d, "ε", s.Epsilon, e.Epsilon)
	compareField(d, "the number of objects", s.Objects, e.Objects)
	compareField(d, "the price", s.Price, e.Price)
	compareField(d, "the number of refused objects", s.Refused, e.Refused)
	compareField(d, "the event", s.Event, e.Event)
	compareField(d, "the event of the reservation", s.Granted, e.Granted)
	compareTime(d, "the end of the reservation", s.Expires, e.Expires)
	compareField(d, "the price reserved", s.Promised, e.Promised)
}

func statusText(s state.SaleStatus) string {
	switch s {
	case state.SaleReserved:
		return "reserved"
	case state.SaleSold:
		return "sold"
	case state.SaleCancelled:
		return "cancelled"
	}
	return fmt.Sprintf("of status %d", uint8(s))
}

func compareRequests(d *differ, s, e state.Request) {
	compareField(d, "the digest", fmt.Sprintf("%x", s.Digest), fmt.Sprintf("%x", e.Digest))
	compareField(d, "done", s.Done, e.Done)
	compareField(d, "the event up to which objects belong to it", s.Through, e.Through)
	compareField(d, "the number of objects dealt with", s.Dealt, e.Dealt)
	compareList(d, "the events that settle it", s.Settled, e.Settled)
}

func compareCounters(d *differ, s, e state.Counters) {
	compareField(d, "the number of events", s.Events, e.Events)
	compareField(d, "the root of their tree", s.Root, e.Root)
	compareTime(d, "the time of the last event", s.Last, e.Last)
	compareField(d, "the number of noise keys", s.Noises, e.Noises)
	compareField(d, "the number of questions", s.Questions, e.Questions)
	compareField(d, "the number of policies", s.Policies, e.Policies)
	compareField(d, "the number of objects", s.Objects, e.Objects)
	compareField(d, "the number of chains", s.Chains, e.Chains)
	compareField(d, "the number of buyers", s.Buyers, e.Buyers)
	compareField(d, "the number of sales and reservations", s.Sales, e.Sales)
	compareField(d, "the number of sales carried out", s.Sold, e.Sold)
	compareField(d, "the revenue", s.Revenue, e.Revenue)
	compareField(d, "the number of refusals that no request settles", s.Refused, e.Refused)
	compareField(d, "the number of objects charged for no answer", s.Charges.Objects, e.Charges.Objects)
	compareField(d, "what is to be settled", fmt.Sprintf("%+v", s.Underway), fmt.Sprintf("%+v", e.Underway))
	compareField(d, "the ε in erased events that belongs to no forgotten object", s.Erased.Spent, e.Erased.Spent)
	compareField(d, "the number of erased events that belong to no forgotten object", s.Erased.Events, e.Erased.Events)
	compareField(d, "the money in erased events that belongs to no forgotten object", s.Erased.Earned, e.Erased.Earned)
	compareField(d, "the sale that no request settles", s.Unsettled, e.Unsettled)
	compareField(d, "the sale that is not complete", s.Open.Sale, e.Open.Sale)
	if s.Open.Sale != 0 && s.Open.Sale == e.Open.Sale {
		compareField(d, "what is missing of it", fmt.Sprintf("%+v", s.Open), fmt.Sprintf("%+v", e.Open))
	}
	compareField(d, "the question of these charges", s.Charges.Question, e.Charges.Question)
	compareField(d, "the ε of these charges", s.Charges.Epsilon, e.Charges.Epsilon)
	compareField(d, "the last event that forgot one of them, or began an epoch", s.Charges.Renewed, e.Charges.Renewed)
}

// compareSome compares what is stored with the fold, up to a bound, from where it stopped before. The fold is
// that of all events in this snapshot.
func (a *auditor) compareSome(r kv.Reader) error {
	left := a.pace.Records
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
			if bucket != state.BucketMeta || string(key) != state.KeyJournal { // which follows from no event
				a.compareRecord(bucket, key, value, nil)
			}
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

// compareRecord reports how a stored record differs from that of the fold, which has no checksum. One of them may be nil.
func (a *auditor) compareRecord(bucket string, key, stored, derived []byte) {
	p := a.about(bucket, key)
	what := p.Text
	report := func(text string) {
		p.Text = what + ": " + text
		a.report(p)
	}
	if bucket == state.BucketRequests && derived != nil {
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
	if bucket == state.BucketMeta && string(key) == state.KeyFormat { // which has no checksum
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
	r, err := state.DecodeRequest(derived)
	if err != nil || len(r.Settled) != 1 {
		return derived
	}
	n, err := a.fold.Entry(r.Settled[0])
	if c, ok := n.Change.(*event.Settled); err != nil || !ok || !c.Alone || n.Erased == nil {
		return derived
	}
	r.Digest = [sha256.Size]byte{}
	return r.Encode()
}

// about returns a problem with a record by its key: kind, object and question, and as its text what it is.
func (a *auditor) about(bucket string, key []byte) Finding {
	p := Finding{Kind: bucketKind(bucket)}
	d := &wire.Decoder{Rest: key}
	switch bucket {
	case state.BucketQuestions, state.BucketBuyers, state.BucketPolicies:
		p.Text = a.aboutNumbered(bucket, key, &p)
	case state.BucketObjects:
		name, member, _ := strings.Cut(string(key), "\x00")
		p.Object, p.Text = name, fmt.Sprintf("object %q", name)
		if len(member) == 4 {
			p.Text += fmt.Sprintf(" in question %d", binary.BigEndian.Uint32([]byte(member)))
			p.Question = a.questionName(binary.BigEndian.Uint32([]byte(member)))
		}
	case state.BucketChains:
		p.Question = a.questionName(d.U32())
		p.Object = string(d.Rest)
		p.Text = fmt.Sprintf("chain of %q in %q", p.Object, p.Question)
	case state.BucketStrangers:
		p.Object, p.Text = string(key), fmt.Sprintf("stranger %q", key)
	case state.BucketAnswers:
		p.Question = a.questionName(d.U32())
		panel := d.Take(32)
		p.Text = fmt.Sprintf("answers to %q about the panel %.4x", d.Rest, panel)
	case state.BucketTallies:
		k, err := state.DecodeTallyKey(key)
		if err != nil {
			break
		}
		p.Question = a.questionName(k.Question)
		p.Text = fmt.Sprintf("tally at ε=%s", k.Epsilon)
		if q, err := a.fold.Question(k.Question); err != nil || q.Encoding != vocabulary.Unary {
			p.Text = fmt.Sprintf("tally of %s at ε=%s", a.valueName(k.Question, k.Epsilon, event.Value{Index: int(k.Value)}), k.Epsilon)
		}
	case state.BucketSales:
		if number := d.U64(); d.Done() == nil {
			p.Text = fmt.Sprintf("sale %d", number)
		}
	case state.BucketEvents:
		if number := d.U64(); d.Done() == nil {
			p.Event = number
		}
	case state.BucketRequests:
		p.Text = fmt.Sprintf("request %q", key)
	case state.BucketMeta:
		p.Kind, p.Text = aboutMeta(string(key))
	}
	if p.Text == "" {
		p.Text = fmt.Sprintf("key %x", key)
	}
	return p
}

// aboutNumbered is about for what has a number and a name.
func (a *auditor) aboutNumbered(bucket string, key []byte, p *Finding) string {
	kind := bucketKind(bucket)
	if len(key) == len(state.NumberKey(0)) && (key[0] == 'q' || key[0] == 'p') {
		number := binary.BigEndian.Uint32(key[1:])
		if bucket == state.BucketQuestions {
			p.Question = a.questionName(number)
		}
		return fmt.Sprintf("%s %d", kind, number)
	}
	if len(key) == 0 {
		return kind
	}
	if len(key) == len(state.DefinitionKey(0)) && key[0] == 'e' {
		return fmt.Sprintf("the event of %s %d", kind, binary.BigEndian.Uint32(key[1:]))
	}
	if bucket == state.BucketPolicies {
		return fmt.Sprintf("the number of the policy with the hash %x", key[1:])
	}
	if bucket == state.BucketQuestions {
		p.Question = string(key[1:])
	}
	return fmt.Sprintf("the number of the %s %q", kind, key[1:])
}

// valueName returns a value of a question in words.
func (a *auditor) valueName(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q, err := a.fold.Question(question); err == nil && q.Has(epsilon, v) {
		return fmt.Sprintf("%q", q.Text(epsilon, v))
	}
	return v.String()
}

// differences names the fields in which two payloads of a record differ.
func (a *auditor) differences(bucket string, key, stored, derived []byte) (differ, error) {
	switch bucket {
	case state.BucketObjects:
		if !isObjectKey(key) {
			return between(stored, derived, state.DecodeNumber32, compareNumber)
		}
		return between(stored, derived, state.DecodeObject, compareObjects)
	case state.BucketChains:
		question := binary.BigEndian.Uint32(key)
		return between(stored, derived, state.DecodeChain, func(d *differ, s, e state.Chain) { a.compareChains(d, question, s, e) })
	case state.BucketAnswers:
		question := binary.BigEndian.Uint32(key)
		return between(stored, derived, state.DecodeAnswers, func(d *differ, s, e state.Answers) { a.compareAnswers(d, question, s, e) })
	case state.BucketSales:
		return between(stored, derived, state.DecodeSale, compareSales)
	case state.BucketRequests:
		return between(stored, derived, state.DecodeRequest, compareRequests)
	case state.BucketTallies:
		return between(stored, derived, state.DecodeTally, func(d *differ, s, e state.Tally) {
			compareField(d, "the number of chains with it", s.Recorded, e.Recorded)
			compareField(d, "the number of chains where it is the current one", s.Current, e.Current)
			compareField(d, "the number of bits", len(s.Bits), len(e.Bits))
			for i := range min(len(s.Bits), len(e.Bits)) {
				compareField(d, fmt.Sprintf("the chains with bit %d", i), s.Bits[i].Recorded, e.Bits[i].Recorded)
				compareField(d, fmt.Sprintf("the chains where bit %d is current", i), s.Bits[i].Current, e.Bits[i].Current)
			}
		})
	case state.BucketStrangers:
		return between(stored, derived, state.DecodeStranger, func(d *differ, s, e state.Stranger) {
			compareLinks(d, s.Links, e.Links)
		})
	}
	return a.moreDifferences(bucket, key, stored, derived)
}

// moreDifferences is differences for what has few records.
func (a *auditor) moreDifferences(bucket string, key, stored, derived []byte) (differ, error) {
	switch {
	case bucket == state.BucketMeta && string(key) == state.KeyCounters:
		return between(stored, derived, state.DecodeCounters, compareCounters)
	case bucket == state.BucketMeta && string(key) == state.KeyAbout:
		return between(stored, derived, event.DecodeAbout, func(d *differ, s, e event.About) {
			compareTime(d, "the time of creation", s.At, e.At)
			compareField(d, "the id", fmt.Sprintf("%x", s.ID), fmt.Sprintf("%x", e.ID))
			compareField(d, "the currency", s.Currency, e.Currency)
			compareField(d, "the log key", s.LogKey, e.LogKey)
		})
	case bucket == state.BucketMeta || bucket == state.BucketPolicies && key[0] == 'p':
		var d differ
		compareField(&d, "it", fmt.Sprintf("%q", stored), fmt.Sprintf("%q", derived))
		return d, nil
	case key[0] == 'e':
		return between(stored, derived, state.DecodeNumber64, func(d *differ, s, e uint64) { compareField(d, "the event that defined it", s, e) })
	case bucket == state.BucketQuestions && key[0] == 'q':
		return between(stored, derived, event.DecodeQuestion, func(d *differ, s, e *event.Question) {
			compareField(d, "the number", s.Number, e.Number)
			compareField(d, "the name", s.Name, e.Name)
			compareList(d, "the values", s.Values, e.Values)
			compareField(d, "the encoding", s.Encoding, e.Encoding)
			compareField(d, "the mechanism", string(event.EncodeMechanism(s.Mechanism)), string(event.EncodeMechanism(e.Mechanism)))
		})
	case bucket == state.BucketBuyers && key[0] == 'q':
		return between(stored, derived, state.DecodeBuyer, func(d *differ, s, e state.Buyer) {
			compareField(d, "the name", s.Name, e.Name)
			compareField(d, "the number of sales", s.Sold, e.Sold)
			compareField(d, "paid", s.Paid, e.Paid)
		})
	}
	return between(stored, derived, state.DecodeNumber32, compareNumber)
}

func (a *auditor) compareChains(d *differ, question uint32, s, e state.Chain) {
	compareField(d, "the event of the enrolment", s.Enrolled, e.Enrolled)
	compareField(d, "the policy", s.Policy, e.Policy)
	compareField(d, "the noise key", s.Noise, e.Noise)
	compareField(d, "the number of buyers", s.Buyers, e.Buyers)
	compareField(d, "the tag of the truth", tagText(s.Bound), tagText(e.Bound))
	compareField(d, "charged by answers", s.Answered, e.Answered)
	compareField(d, "the event of the epoch", s.Since, e.Since)
	compareField(d, "the number of epochs before", len(s.Closed), len(e.Closed))
	for i := range min(len(s.Closed), len(e.Closed)) {
		old, told := s.Closed[i], e.Closed[i]
		compareField(d, "the end of an epoch", old.End, told.End)
		a.compareChains(d, question, state.Chain{Answered: old.Answered, Levels: old.Levels}, state.Chain{Answered: told.Answered, Levels: told.Levels})
	}
	for len(s.Levels) > 0 || len(e.Levels) > 0 {
		switch first := firstOf(s.Levels, e.Levels, func(l state.Level) int64 { return l.Epsilon.Nano() }); first {
		case -1:
			*d = append(*d, fmt.Sprintf("there is a response at ε=%s, by the events there is none", s.Levels[0].Epsilon))
			s.Levels = s.Levels[1:]
		case 1:
			*d = append(*d, fmt.Sprintf("there is no response at ε=%s, by the events there is one", e.Levels[0].Epsilon))
			e.Levels = e.Levels[1:]
		default:
			a.compareLevels(d, question, s.Levels[0], e.Levels[0])
			compareList(d, fmt.Sprintf("the buyers at ε=%s", s.Levels[0].Epsilon), s.Levels[0].Buyers, e.Levels[0].Buyers)
			s.Levels, e.Levels = s.Levels[1:], e.Levels[1:]
		}
	}
}

func (a *auditor) compareAnswers(d *differ, question uint32, s, e state.Answers) {
	for len(s) > 0 || len(e) > 0 {
		switch first := firstOf(s, e, func(l state.AnswerLevel) int64 { return l.Epsilon.Nano() }); first {
		case -1:
			*d = append(*d, fmt.Sprintf("there is an answer at ε=%s, by the events there is none", s[0].Epsilon))
			s = s[1:]
		case 1:
			*d = append(*d, fmt.Sprintf("there is no answer at ε=%s, by the events there is one", e[0].Epsilon))
			e = e[1:]
		default:
			at := s[0].Epsilon
			compareField(d, fmt.Sprintf("whether there is a score at ε=%s", at), s[0].Scored, e[0].Scored)
			compareField(d, fmt.Sprintf("the output at ε=%s", at), s[0].Output, e[0].Output)
			compareField(d, fmt.Sprintf("the score at ε=%s", at), s[0].Score, e[0].Score)
			compareField(d, fmt.Sprintf("the event at ε=%s", at), s[0].Event, e[0].Event)
			compareField(d, fmt.Sprintf("the first event of the answers with that at ε=%s", at), s[0].Began, e[0].Began)
			compareField(d, fmt.Sprintf("the number of objects at ε=%s", at), s[0].Objects, e[0].Objects)
			s, e = s[1:], e[1:]
		}
	}
}

func (a *auditor) compareLevels(d *differ, question uint32, s, e state.Level) {
	compareField(d, fmt.Sprintf("the response at ε=%s", s.Epsilon), a.valueName(question, s.Epsilon, s.Response), a.valueName(question, e.Epsilon, e.Response))
	compareField(d, fmt.Sprintf("the event at ε=%s", s.Epsilon), s.Event, e.Event)
}
