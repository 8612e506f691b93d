package audit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// auditedBuckets returns the buckets of the state, in the order in which they are compared. The
// last one has the counters, because these count the records of all others.
func auditedBuckets() []string {
	return []string{
		state.BucketQuestions, state.BucketPolicies, state.BucketBuyers, state.BucketObjects, state.BucketStrangers,
		state.BucketChains, state.BucketAnswers, state.BucketSales, state.BucketOrders, state.BucketRequests,
		state.BucketTallies, state.BucketMeta,
	}
}

// bucketKind returns the kind of findings about the records of a bucket: mostly the singular of its
// name.
func bucketKind(bucket string) string {
	switch bucket {
	case state.BucketAnswers:
		return bucket
	case state.BucketMeta:
		return problemLedger
	}
	one := strings.TrimSuffix(bucket, "s")
	if begin, is := strings.CutSuffix(one, "ie"); is {
		return begin + "y"
	}
	return one
}

// keyValue is a record of the fold. Its key is nil if there is none.
type keyValue struct{ key, value []byte }

// isRecord reports whether the value stored is the given payload, followed by its checksum.
func isRecord(sums *wire.Sums, bucket string, key, stored, payload []byte) bool {
	if bucket == state.BucketMeta && string(key) == state.KeyFormat { // this record has no checksum
		return bytes.Equal(stored, payload)
	}
	found, err := sums.Unseal(bucket, key, stored)
	return err == nil && bytes.Equal(found, payload)
}

// aboutMeta returns the kind and the text of findings about a record of the meta bucket.
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

// lastEvent returns the last event known to have changed a record of the fold. It returns 0 for
// records that do not have such a number.
func lastEvent(record any) (last uint64) {
	switch r := record.(type) {
	case state.Object:
		return max(r.Latest, r.Withdrawn)
	case state.Chain:
		last = max(r.Enrolled, r.Since)
		for _, l := range r.Levels {
			last = max(last, l.Event)
		}
	case state.Answers:
		for _, l := range r {
			last = max(last, l.Event)
		}
	case state.Sale:
		return r.Event
	case state.Request:
		return slices.Max(append(r.Settled, 0))
	case state.Stranger:
		return r.Latest
	}
	return last
}

// isObjectKey reports whether a key is that of an object, and not of its membership in a question.
func isObjectKey(key []byte) bool { return bytes.IndexByte(key, 0) == len(key)-1 }

// compareSome compares stored records with those of the fold, up to the limit of the pace, from
// where the last call stopped. The fold must have exactly the events of this snapshot. After the
// last bucket it completes the audit.
func (a *auditor) compareSome(r kv.Reader) error {
	left := a.pace.Records
	buckets := auditedBuckets()
	for a.position.bucket < len(buckets) {
		from, err := a.compareBucket(r, buckets[a.position.bucket], a.position.from, &left)
		if err != nil {
			return err
		}
		// The limit was reached, and the next step continues at this key.
		if a.position.from = from; from != nil {
			return nil
		}
		a.position.bucket++
	}
	a.finish()
	return nil
}

// compareBucket merges the stored records of a bucket with those of the fold, and reports
// differences. Both are in the order of keys, and it begins at the key from. left is how many
// records this step may still compare. It returns the key at which the next call continues, or nil
// at the end of the bucket. The error is one of the fold. A stored record that cannot be read is
// only reported.
func (a *auditor) compareBucket(r kv.Reader, bucket string, from []byte, left *int) (next []byte, err error) {
	folded := kv.NewWalk(from, func(from []byte, visit func(key, value []byte) bool) error {
		return a.source.Scan(bucket, from, visit)
	})
	var fault error
	var derived keyValue // the current record of the fold
	more := true         // there is such a record
	// step continues with the next record of the fold.
	step := func() {
		if derived.key != nil {
			a.countExhausted(bucket, derived)
		}
		if more && fault == nil {
			derived.key, derived.value, fault = folded.Next()
			more = derived.key != nil
		}
	}
	step()
	var sums wire.Sums
	// missing reports the records that only the fold has: those below the key until, or all others
	// if it is nil. It returns false if the limit is reached, and then sets next.
	missing := func(until []byte) bool {
		for more && (until == nil || bytes.Compare(derived.key, until) < 0) {
			if !a.mayCompare(left) {
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
		if !a.mayCompare(left) {
			next = bytes.Clone(key)
			return false
		}
		if !more || !bytes.Equal(derived.key, key) {
			if !state.OfFile(bucket, key) { // such a record follows from no event
				a.compareRecord(bucket, key, value, nil)
			}
			return true
		}
		if !isRecord(&sums, bucket, key, value, derived.value) {
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

// mayCompare counts a record that is to be compared. It returns false if the step has reached its
// limit, or if the context has ended.
func (a *auditor) mayCompare(left *int) bool {
	// After each batch, other goroutines get the processor.
	if *left--; *left%a.pace.Batch == 0 {
		a.pace.Rest()
	}
	if *left%state.CheckEvery == 0 && a.ended() != nil {
		return false // the next step returns the error
	}
	return *left >= 0 && !a.isFull()
}

// countExhausted counts an object that has spent its whole cap, if Request.Exhausted is set.
func (a *auditor) countExhausted(bucket string, r keyValue) {
	if !a.request.Exhausted || bucket != state.BucketObjects || !isObjectKey(r.key) {
		return
	}
	if o, err := state.DecodeObject(r.value); err == nil && o.Chains > 0 && !o.Spent.Less(o.Cap) {
		a.exhausted++
	}
}

// compareRecord reports how a stored record differs from that of the fold, which has no checksum.
// Either is nil if there is no such record, but not both.
func (a *auditor) compareRecord(bucket string, key, stored, derived []byte) {
	p := a.about(bucket, key)
	what := p.Text
	report := func(text string) {
		p.Text = what + ": " + text
		a.report(p)
	}
	if derived != nil {
		if record, err := decoderOf(bucket, key)(derived); err == nil {
			p.Event = lastEvent(record)
		}
	}
	switch {
	case stored == nil && bucket == state.BucketAnswers && a.isErased(p.Event):
		return // the answer was erased after it was folded
	case stored == nil:
		report("the record is missing")
		return
	case derived == nil:
		report("there is such a record, but no event creates it")
	}
	if bucket == state.BucketMeta && string(key) == state.KeyFormat { // this record has no checksum
		report(fmt.Sprintf("is %x, and should be %x", stored, derived))
		return
	}
	found, err := wire.Unseal(bucket, key, stored)
	if err != nil {
		report("its checksum is wrong")
		found = stored[:max(0, len(stored)-wire.SumLength)] // the payload is still compared
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
		report("it is not stored in its canonical form") // cannot happen, because decoders accept only one form
	}
}

// isErased reports whether an event is erased in the current snapshot. It returns false if the
// event cannot be read.
func (a *auditor) isErased(number uint64) bool {
	n, err := a.fold.Entry(number)
	return err == nil && n.Erased != nil
}

// about returns a finding about the record with a key, with its kind, object and question. Its text
// is the name of the record, to which the caller adds the fault. A key that is damaged is named in
// hexadecimal.
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
		if q, err := a.fold.Question(k.Question); err != nil || q.Encoding != event.EncodingUnary {
			value := a.valueName(k.Question, k.Epsilon, event.Value{Index: int(k.Value)})
			p.Text = fmt.Sprintf("tally of %s at ε=%s", value, k.Epsilon)
		}
	case state.BucketSales:
		if number := d.U64(); d.Done() == nil {
			p.Text = fmt.Sprintf("sale %d", number)
		}
	case state.BucketOrders:
		if buyer, ordinal := d.U32(), d.U64(); d.Done() == nil {
			p.Text = fmt.Sprintf("order %d of buyer %d", ordinal, buyer)
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

// aboutNumbered returns the name of a record in the bucket of questions, buyers or policies, and
// sets p.Question. The first byte of its key is the type of the record. Under "q" or "p" is a
// definition by its number, and under "e" the event that defined it. Under "n" or "h" is the
// number, by the name or the hash.
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

// valueName returns the name of a response to a question at an ε, quoted. If the question does not
// have the response, it returns a text with the number.
func (a *auditor) valueName(question uint32, epsilon privacy.Epsilon, v event.Value) string {
	if q, err := a.fold.Question(question); err == nil && q.Has(epsilon, v) {
		return fmt.Sprintf("%q", q.Text(epsilon, v))
	}
	return v.String()
}

// asAny adapts a decoder to the type that decoderOf returns.
func asAny[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(payload []byte) (any, error) { return decode(payload) }
}

// decoderOf returns the decoder of the record with a key. Payloads that are texts or checks of keys
// are only quoted. All remaining records are numbers: of 8 bytes for the event of a definition, and
// otherwise of 4.
func decoderOf(bucket string, key []byte) func([]byte) (any, error) {
	switch bucket {
	case state.BucketObjects:
		if isObjectKey(key) {
			return asAny(state.DecodeObject)
		}
	case state.BucketChains:
		return asAny(state.DecodeChain)
	case state.BucketAnswers:
		return asAny(state.DecodeAnswers)
	case state.BucketSales:
		return asAny(state.DecodeSale)
	case state.BucketOrders:
		return asAny(state.DecodeNumber64)
	case state.BucketRequests:
		return asAny(state.DecodeRequest)
	case state.BucketTallies:
		return asAny(state.DecodeTally)
	case state.BucketStrangers:
		return asAny(state.DecodeStranger)
	case state.BucketMeta:
		switch string(key) {
		case state.KeyCounters:
			return asAny(state.DecodeCounters)
		case state.KeyAbout:
			return asAny(event.DecodeAbout)
		}
		return quoted
	case state.BucketQuestions:
		if key[0] == 'q' {
			return asAny(event.DecodeQuestion)
		}
	case state.BucketBuyers:
		if key[0] == 'q' {
			return asAny(state.DecodeBuyer)
		}
	case state.BucketPolicies:
		if key[0] == 'p' {
			return quoted
		}
	}
	if key[0] == 'e' && bucket != state.BucketObjects {
		return asAny(state.DecodeNumber64)
	}
	return asAny(state.DecodeNumber32)
}

// quoted decodes a text as a quoted string.
func quoted(payload []byte) (any, error) { return strconv.Quote(string(payload)), nil }

// numberIn returns what the number of 8 bytes in a record of a bucket means: an order, or the event
// of a definition.
func numberIn(bucket string) string {
	if bucket == state.BucketOrders {
		return "its number"
	}
	return "the event that defined it"
}

// differences returns a sentence for each field in which the stored payload of a record differs
// from the derived one. It returns an error if one of them cannot be decoded.
func (a *auditor) differences(bucket string, key, stored, derived []byte) ([]string, error) {
	var both [2]description
	for i, payload := range [][]byte{stored, derived} {
		record, err := decoderOf(bucket, key)(payload)
		if err != nil {
			return nil, err
		}
		// Only records of questions have responses, and their keys begin with the number of the
		// question.
		both[i].value = func(epsilon privacy.Epsilon, v event.Value) string {
			return a.valueName(binary.BigEndian.Uint32(key), epsilon, v)
		}
		switch record := record.(type) {
		case string:
			both[i].add("it", record)
		case uint32:
			both[i].add("the number", fmt.Sprint(record))
		case uint64:
			both[i].add(numberIn(bucket), fmt.Sprint(record))
		default:
			both[i].describe("", reflect.Indirect(reflect.ValueOf(record)))
		}
	}
	return differences(both[0].parts, both[1].parts), nil
}
