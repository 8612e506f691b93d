package event

import (
	"fmt"
	"reflect"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Names looks up what changes refer to by numbers. An error of it means that the log defines no
// such thing.
type Names interface {
	Question(number uint32) (*Question, error)   // a question as it was defined
	Policy(number uint32) (policy.Policy, error) // for any number but 0
	BuyerName(number uint32) (string, error)     // the name of a buyer
	NoiseKeyName(number uint32) (string, error)  // the name of a noise key; "" for number 0
	// Deal returns what the reservation or the sale with a number is about: by is the kind of event
	// that began it.
	Deal(by Kind, sale uint64) (Deal, error)
}

// Describe returns an event as hosts read it. An event that refers to nothing, or is of an unknown
// kind, is [errs.ErrCorrupt].
func Describe(ev Event, names Names) (event.Event, error) {
	k := ev.Change.Kind()
	said := event.Event{Number: ev.Number, Time: ev.Time, Erased: ev.Erased != nil && !isAboutSeveral(ev.Change)}
	_, isPersonal := ev.Change.(Personal)
	_, isLasting := ev.Change.(lasting)
	if row := k.row(); row != nil && said.Erased && isPersonal && !isLasting {
		said.Says = row.zero
	} else if row != nil && (isPersonal || !said.Erased) {
		to := &describer{names: names}
		if said.Says = row.describe(ev.Change, to); to.err != nil {
			return event.Event{}, to.err
		}
	}
	if said.Says == nil {
		return event.Event{}, errs.Corrupt(nil, "event %d of the kind %s cannot be described", ev.Number, k)
	}
	return said, nil
}

// isAboutSeveral reports whether a change is about several objects. What is erased of it with one
// of them is a digest of their names, which is not described.
func isAboutSeveral(c Change) bool {
	switch c := c.(type) {
	case *Answered:
		return true
	case *Settled:
		return c.Named
	}
	return false
}

// DescribeFact returns what a change says in a statement, or nil for a kind that statements do not
// have. The error is the first one of names; then fields are missing.
func DescribeFact(c Change, names Names) (event.Detail, error) {
	row := c.Kind().row()
	if row == nil || row.parse == nil {
		return nil, nil
	}
	to := &describer{names: names, isFact: true}
	return row.describe(c, to), to.err
}

// describer describes a change, and keeps the first error of a name that it looked up.
type describer struct {
	names  Names
	isFact bool // for a statement, which does not repeat what a sale is about with each object
	err    error
}

func (to *describer) note(err error) {
	if to.err == nil {
		to.err = err
	}
}

func (to *describer) question(number uint32) string {
	q, err := to.names.Question(number)
	if err != nil {
		to.note(err)
		return ""
	}
	return q.Name
}

// policy returns a policy by its number; nil for number 0, which is none.
func (to *describer) policy(number uint32) *policy.Policy {
	if number == 0 {
		return nil
	}
	p, err := to.names.Policy(number)
	if err != nil {
		to.note(err)
		return nil
	}
	return &p
}

func (to *describer) buyer(number uint32) string {
	name, err := to.names.BuyerName(number)
	to.note(err)
	return name
}

func (to *describer) noiseKey(number uint32) string {
	name, err := to.names.NoiseKeyName(number)
	to.note(err)
	return name
}

func (to *describer) deal(by Kind, sale uint64) Deal {
	of, err := to.names.Deal(by, sale)
	to.note(err)
	return of
}

// namesOf returns the question, the ε and the buyer of a sale or reservation.
func (to *describer) namesOf(of Deal) (question string, epsilon privacy.Epsilon, buyer string) {
	if to.err != nil {
		return "", of.Epsilon, ""
	}
	return to.question(of.Question), of.Epsilon, to.buyer(of.Buyer)
}

func (to *describer) response(object string, question uint32, at privacy.Epsilon, r Response) (text, method string) {
	q, err := to.names.Question(question)
	if err == nil {
		text, err = q.ResponseText(object, at, r.Value)
	}
	if err != nil {
		to.note(err)
		return "", ""
	}
	return text, r.Method.String()
}

// Numbers looks up the numbers of what details name: 0 if nothing before defines it.
type Numbers interface {
	Names
	QuestionNumber(name string) uint32 // of the question with a name
	PolicyNumber(json string) uint32   // of the policy with a canonical text
	BuyerNumber(name string) uint32    // of the buyer with a name
}

// Parse returns the change that a detail of a statement describes, or nil for a kind that
// statements do not have. The error says what is wrong with the detail.
func Parse(d event.Detail, numbers Numbers) (Change, error) {
	from := &parser{from: numbers}
	for _, row := range table() {
		if row == nil || row.parse == nil || d == nil || row.zero.Kind() != d.Kind() {
			continue
		}
		from.checkOmitted(d, row.omitted)
		c, is := row.parse(d, from)
		if is && from.err == nil {
			return c, nil
		}
		if is {
			return nil, from.err
		}
	}
	return nil, nil
}

// parser parses a detail, and keeps the first thing that is wrong with it.
type parser struct {
	from Numbers
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// checkOmitted refuses a detail that says more than a statement proves.
func (p *parser) checkOmitted(d event.Detail, omitted [][]int) {
	v := reflect.Indirect(reflect.ValueOf(d))
	for _, index := range omitted {
		if !v.FieldByIndex(index).IsZero() {
			p.fail("a statement does not have the field %s of the kind %q", v.Type().FieldByIndex(index).Name, d.Kind())
		}
	}
}

func (p *parser) question(name string) uint32 {
	number := p.from.QuestionNumber(name)
	if number == 0 {
		p.fail("question %q is not defined before", name)
	}
	return number
}

func (p *parser) policy(one *policy.Policy) uint32 {
	if one == nil {
		return 0
	}
	number := p.from.PolicyNumber(one.String())
	if number == 0 {
		p.fail("policy %.100s is not defined before", one)
	}
	return number
}

func (p *parser) buyer(name string) uint32 {
	number := p.from.BuyerNumber(name)
	if number == 0 {
		p.fail("buyer %q is not named before", name)
	}
	return number
}

func (p *parser) response(question uint32, epsilon privacy.Epsilon, text, method string) Response {
	q, err := p.from.Question(question)
	if err != nil {
		p.fail("the sale or question it belongs to is not there before")
		return Response{}
	}
	value, known := q.Read(epsilon, text)
	how, possible := ParseMethod(method)
	if !known || !possible {
		p.fail("the response %q by the method %q is none", text, method)
	}
	return Response{Value: value, Method: how}
}

func (p *parser) amount(v int64) uint64 {
	if v < 0 {
		p.fail("an amount of %d", v)
	}
	return uint64(v)
}

// fill copies bytes of a fixed number.
func (p *parser) fill(into []byte, from event.Hex) {
	if copy(into, from) != len(into) || len(from) != len(into) {
		p.fail("%d bytes where there should be %d", len(from), len(into))
	}
}
