package event

import (
	"fmt"
	"reflect"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Names looks up definitions by their numbers. Each method returns an error if the log has no
// definition with that number.
type Names interface {
	Question(number uint32) (*Question, error)   // the definition of a question
	Policy(number uint32) (policy.Policy, error) // the policy with a number other than 0
	BuyerName(number uint32) (string, error)     // the name of a buyer
	NoiseKeyName(number uint32) (string, error)  // the name of a noise key; "" for number 0
	// Deal returns the deal of a reservation or a sale by its number. by is the kind of the event
	// that started it.
	Deal(by Kind, sale uint64) (Deal, error)
}

// Describe returns an event in the form for hosts. If the event is erased, the description has only
// the fields that are kept; all others are zero. Describe returns [errs.ErrCorrupt] if the kind is
// unknown, or if the event is erased although its kind never is. If the event refers to a
// definition that is missing, it returns the error of names.
func Describe(ev Event, names Names) (event.Event, error) {
	k := ev.Change.Kind()
	said := event.Event{Number: ev.Number, Time: ev.Time, Erased: ev.Erased != nil && !isAboutSeveral(ev.Change)}
	_, isPersonal := ev.Change.(Personal)
	_, isLasting := ev.Change.(lasting)
	// An erased change about one object, without public fields, has nothing to describe. A change
	// that is not about one object is never erased, so such an event is damaged.
	if row := k.row(); row != nil && said.Erased && isPersonal && !isLasting {
		said.Says = row.zero
	} else if row != nil && (isPersonal || !said.Erased) {
		var err error
		if said.Says, err = row.describe(ev.Change, names, false); err != nil {
			return event.Event{}, err
		}
	}
	if said.Says == nil {
		return event.Event{}, errs.Corrupt(nil, "event %d of the kind %s cannot be described", ev.Number, k)
	}
	return said, nil
}

// isAboutSeveral reports whether a change is about several objects. If one of them is forgotten,
// the event loses only a digest of their names. The description does not contain that digest, so
// such an event is described as if it were not erased.
func isAboutSeveral(c Change) bool {
	switch c := c.(type) {
	case *Answered:
		return true
	case *Settled:
		return c.Named
	}
	return false
}

// DescribeFact returns a pointer to the detail that describes a change in a statement. It returns
// nil and no error for a kind that statements do not have. With an error, such as that of a
// definition that names does not have, it still returns the detail, in which some fields are
// missing.
func DescribeFact(c Change, names Names) (event.Detail, error) {
	row := c.Kind().row()
	if row == nil || row.parse == nil {
		return nil, nil
	}
	return row.describe(c, names, true)
}

// Numbers looks up the numbers of definitions. Each of its own methods returns 0 if no earlier
// event defines the name.
type Numbers interface {
	Names
	QuestionNumber(name string) uint32 // the number of the question with a name
	PolicyNumber(json string) uint32   // the number of the policy with a canonical JSON
	BuyerNumber(name string) uint32    // the number of the buyer with a name
}

// Parse returns the change that a detail of a statement describes. d is a pointer, as
// [DescribeFact] returns it. If d is nil or of a kind that statements do not have, Parse returns
// nil and no error. It returns an error if a field of the detail is invalid.
func Parse(d event.Detail, numbers Numbers) (Change, error) {
	for _, row := range table() {
		if row != nil && row.parse != nil && d != nil && row.zero.Kind() == d.Kind() {
			return row.parse(d, numbers)
		}
	}
	return nil, nil
}

// mapper converts a change to its detail or, if it has numbers, a detail to its change. So each
// kind has only one list of fields for both directions. It keeps the first error.
type mapper struct {
	names   Names
	numbers Numbers // nil to convert a change to a detail
	isFact  bool    // the detail is of a statement, where an object's event omits the fields of its sale
	err     error
}

// parses reports whether a detail is converted to a change. If not, a change is converted to a
// detail.
func (m *mapper) parses() bool { return m.numbers != nil }

// note records an error. It ignores nil, and every error after the first.
func (m *mapper) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

// fail records an error with a text in the format of [fmt.Errorf], unless there was one before.
func (m *mapper) fail(format string, args ...any) { m.note(fmt.Errorf(format, args...)) }

// checkOmitted records an error if one of some fields of a detail is set. omitted has the indexes
// of the fields that statements do not contain. A statement that says something there would not
// prove it.
func (m *mapper) checkOmitted(d event.Detail, omitted [][]int) {
	v := reflect.Indirect(reflect.ValueOf(d))
	for _, index := range omitted {
		if !v.FieldByIndex(index).IsZero() {
			m.fail("statements do not have the field %s of the kind %q",
				v.Type().FieldByIndex(index).Name, d.Kind())
		}
	}
}

// same copies a field that has the same type in the change (c) and in its detail (d): from d if m
// parses a detail, and otherwise from c.
func same[T any](m *mapper, c, d *T) {
	if m.parses() {
		*c = *d
	} else {
		*d = *c
	}
}

// question converts a reference to a question. If m parses, it sets the number from the name, and
// otherwise the name from the number. It records an error if no earlier event defines the question.
func (m *mapper) question(number *uint32, name *string) {
	if !m.parses() {
		*name = m.questionName(*number)
	} else if *number = m.numbers.QuestionNumber(*name); *number == 0 {
		m.fail("no earlier event defines question %q", *name)
	}
}

// questionName returns the name of a question. If the question is missing, it records the error and
// returns "".
func (m *mapper) questionName(number uint32) string {
	q, err := m.names.Question(number)
	if err != nil {
		m.note(err)
		return ""
	}
	return q.Name
}

// policy converts a reference to a policy. If m parses, it sets the number from the policy, and
// otherwise the policy from the number. The number 0 and nil mean that there is none. It records an
// error if no earlier event defines the policy.
func (m *mapper) policy(number *uint32, p **policy.Policy) {
	if !m.parses() {
		*p = m.policyOf(*number)
	} else if *p == nil {
		*number = 0
	} else if *number = m.numbers.PolicyNumber((*p).String()); *number == 0 {
		m.fail("no earlier event defines policy %.100s", *p)
	}
}

// policyOf returns the policy with a number, and nil for the number 0. If the policy is missing, it
// records the error and returns nil.
func (m *mapper) policyOf(number uint32) *policy.Policy {
	if number == 0 {
		return nil
	}
	p, err := m.names.Policy(number)
	if err != nil {
		m.note(err)
		return nil
	}
	return &p
}

// buyer converts a reference to a buyer. If m parses, it sets the number from the name, and
// otherwise the name from the number. It records an error if no earlier event names the buyer.
func (m *mapper) buyer(number *uint32, name *string) {
	if !m.parses() {
		*name = m.buyerName(*number)
	} else if *number = m.numbers.BuyerNumber(*name); *number == 0 {
		m.fail("no earlier event names buyer %q", *name)
	}
}

// buyerName returns the name of a buyer. If the buyer is missing, it records the error and returns
// "".
func (m *mapper) buyerName(number uint32) string {
	name, err := m.names.BuyerName(number)
	m.note(err)
	return name
}

// noiseKey returns the name of a noise key, and "" for the number 0. If the key is missing, it
// records the error.
func (m *mapper) noiseKey(number uint32) string {
	name, err := m.names.NoiseKeyName(number)
	m.note(err)
	return name
}

// dealOf returns the deal of a sale or a reservation. by is the kind of the event that started it.
// If it is missing, dealOf returns a deal without a question, and records an error unless m parses.
// If m parses, [mapper.response] records the error, because the deal has no question.
func (m *mapper) dealOf(by Kind, sale uint64) Deal {
	of, err := m.names.Deal(by, sale)
	if !m.parses() {
		m.note(err)
	}
	return of
}

// namesOf returns the name of the question, the ε and the name of the buyer of a deal. After an
// error it returns only the ε, because the deal may then be the zero value.
func (m *mapper) namesOf(of Deal) (question string, epsilon privacy.Epsilon, buyer string) {
	if m.err != nil {
		return "", of.Epsilon, ""
	}
	return m.questionName(of.Question), of.Epsilon, m.buyerName(of.Buyer)
}

// response converts the response of an object, for the question and the ε of a deal. text and
// method are the two fields of the detail. If m parses, it sets r from them, and otherwise them
// from r. It records an error if the question is missing or cannot have the response, or if the
// method is unknown.
func (m *mapper) response(object string, of Deal, r *Response, text, method *string) {
	q, err := m.names.Question(of.Question)
	if !m.parses() {
		if err == nil {
			*text, err = q.ResponseText(object, of.Epsilon, r.Value)
		}
		*method = r.Method.String()
		m.note(err)
		return
	}
	if err != nil {
		m.fail("no earlier event has its sale or its question")
		return
	}
	var isValue, isMethod bool
	r.Value, isValue = q.Read(of.Epsilon, *text)
	if r.Method, isMethod = ParseMethod(*method); !isValue || !isMethod {
		m.fail("invalid response %q by the method %q", *text, *method)
	}
}

// amount converts an amount of money, which is unsigned in the change (c) and signed in the detail
// (d). If m parses, it sets *c, and records an error if *d is negative.
func (m *mapper) amount(c *uint64, d *int64) {
	if !m.parses() {
		*d = int64(*c)
		return
	}
	if *c = uint64(*d); *d < 0 {
		m.fail("the amount %d is negative", *d)
	}
}

// tag converts the keyed hash of a true value. If m parses, it sets *c, and records an error if *d
// has another length. Otherwise it sets *d, but only in a fact of a statement. Other details do not
// contain the hash.
func (m *mapper) tag(c *Tag, d *event.Hex) {
	if m.parses() {
		if copy(c[:], *d); len(*d) != len(c) {
			m.fail("the tag has %d bytes, and should have %d", len(*d), len(c))
		}
	} else if m.isFact {
		*d = c[:]
	}
}
