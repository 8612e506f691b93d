package event

import (
	"fmt"
	"reflect"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Names looks up definitions by their numbers. It returns an error if the log has no such
// definition.
type Names interface {
	Question(number uint32) (*Question, error)   // the definition of a question
	Policy(number uint32) (policy.Policy, error) // the policy with a number other than 0
	BuyerName(number uint32) (string, error)     // the name of a buyer
	NoiseKeyName(number uint32) (string, error)  // the name of a noise key; "" for number 0
	// Deal returns the deal of a reservation or a sale by its number. by is the kind of the event
	// that started it.
	Deal(by Kind, sale uint64) (Deal, error)
}

// Describe returns an event in the form for hosts. It returns [errs.ErrCorrupt] if the kind is
// unknown, or if the event refers to a definition that is missing.
func Describe(ev Event, names Names) (event.Event, error) {
	k := ev.Change.Kind()
	said := event.Event{Number: ev.Number, Time: ev.Time, Erased: ev.Erased != nil && !isAboutSeveral(ev.Change)}
	_, isPersonal := ev.Change.(Personal)
	_, isLasting := ev.Change.(lasting)
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

// isAboutSeveral reports whether a change is about several objects. If one of these is forgotten,
// only a digest of their names is erased from the change, which the description does not contain.
func isAboutSeveral(c Change) bool {
	switch c := c.(type) {
	case *Answered:
		return true
	case *Settled:
		return c.Named
	}
	return false
}

// DescribeFact returns a pointer to the detail that describes a change in a statement, or nil for
// a kind that statements do not have. If it returns an error of names, fields of the detail are
// missing.
func DescribeFact(c Change, names Names) (event.Detail, error) {
	row := c.Kind().row()
	if row == nil || row.parse == nil {
		return nil, nil
	}
	return row.describe(c, names, true)
}

// Numbers looks up the numbers of definitions. It returns 0 if no earlier event defines the name.
type Numbers interface {
	Names
	QuestionNumber(name string) uint32 // the number of the question with a name
	PolicyNumber(json string) uint32   // the number of the policy with a canonical JSON
	BuyerNumber(name string) uint32    // the number of the buyer with a name
}

// Parse returns the change that a detail of a statement describes, or nil for a kind that
// statements do not have. It returns an error if the detail is invalid.
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

// parses reports whether a detail is converted to a change.
func (m *mapper) parses() bool { return m.numbers != nil }

func (m *mapper) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *mapper) fail(format string, args ...any) { m.note(fmt.Errorf(format, args...)) }

// checkOmitted records an error if a detail has a field that statements omit, and so do not prove.
func (m *mapper) checkOmitted(d event.Detail, omitted [][]int) {
	v := reflect.Indirect(reflect.ValueOf(d))
	for _, index := range omitted {
		if !v.FieldByIndex(index).IsZero() {
			m.fail("statements do not have the field %s of the kind %q",
				v.Type().FieldByIndex(index).Name, d.Kind())
		}
	}
}

// same copies a field that has the same type in both.
func same[T any](m *mapper, c, d *T) {
	if m.parses() {
		*c = *d
	} else {
		*d = *c
	}
}

func (m *mapper) question(number *uint32, name *string) {
	if !m.parses() {
		*name = m.questionName(*number)
	} else if *number = m.numbers.QuestionNumber(*name); *number == 0 {
		m.fail("no earlier event defines question %q", *name)
	}
}

func (m *mapper) questionName(number uint32) string {
	q, err := m.names.Question(number)
	if err != nil {
		m.note(err)
		return ""
	}
	return q.Name
}

// policy converts a policy; nil is the number 0.
func (m *mapper) policy(number *uint32, p **policy.Policy) {
	if !m.parses() {
		*p = m.policyOf(*number)
	} else if *p == nil {
		*number = 0
	} else if *number = m.numbers.PolicyNumber((*p).String()); *number == 0 {
		m.fail("no earlier event defines policy %.100s", *p)
	}
}

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

func (m *mapper) buyer(number *uint32, name *string) {
	if !m.parses() {
		*name = m.buyerName(*number)
	} else if *number = m.numbers.BuyerNumber(*name); *number == 0 {
		m.fail("no earlier event names buyer %q", *name)
	}
}

func (m *mapper) buyerName(number uint32) string {
	name, err := m.names.BuyerName(number)
	m.note(err)
	return name
}

func (m *mapper) noiseKey(number uint32) string {
	name, err := m.names.NoiseKeyName(number)
	m.note(err)
	return name
}

// dealOf returns the deal of a sale or reservation. If a fact names a sale that is missing, the
// deal has no question. The mapping of the response then records the error.
func (m *mapper) dealOf(by Kind, sale uint64) Deal {
	of, err := m.names.Deal(by, sale)
	if !m.parses() {
		m.note(err)
	}
	return of
}

// namesOf returns the question, the ε and the buyer of a sale or reservation.
func (m *mapper) namesOf(of Deal) (question string, epsilon privacy.Epsilon, buyer string) {
	if m.err != nil {
		return "", of.Epsilon, ""
	}
	return m.questionName(of.Question), of.Epsilon, m.buyerName(of.Buyer)
}

// response converts the response of an object, for the question and the ε of a deal.
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

func (m *mapper) amount(c *uint64, d *int64) {
	if !m.parses() {
		*d = int64(*c)
		return
	}
	if *c = uint64(*d); *d < 0 {
		m.fail("the amount %d is negative", *d)
	}
}

// tag converts the keyed hash of a true value, which only facts contain.
func (m *mapper) tag(c *Tag, d *event.Hex) {
	if m.parses() {
		if copy(c[:], *d); len(*d) != len(c) {
			m.fail("the tag has %d bytes, and should have %d", len(*d), len(c))
		}
	} else if m.isFact {
		*d = c[:]
	}
}
