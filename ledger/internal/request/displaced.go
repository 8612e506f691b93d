package request

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// maxLostLevels is the largest number of lost levels listed for one object and question. The
// highest levels are listed.
const maxLostLevels = 100

// refuseLoss returns a [*api.DisplacedError] if charging the objects removes levels on offer from
// the market, unless the request accepts that loss. It defers the line in the host's log to
// [callback.Report].
func (q *panelQuery) refuseLoss(s *state.State, names []string, at time.Time) error {
	if q.request.AcceptLoss {
		return nil
	}
	lost, err := q.displaced(s, names, at)
	if err != nil || len(lost) == 0 {
		return err
	}
	key, question, epsilon := q.key, q.question.Name, q.epsilon.String()
	return callback.WithReport(&api.DisplacedError{Question: question, Displaced: lost}, func() {
		q.Engine.Log.Now(func(log *zerolog.Logger) {
			log.Info().Str("key", key).Str("question", question).Str("epsilon", epsilon).
				Int("levels", len(lost)).Msg("refused: levels on offer would be displaced")
		})
	})
}

// displaced returns the levels on offer that the objects lose if each is charged the cost of the
// query at a time. It reads each object once, and its chains in other questions only if the cap of
// the object may limit them. Reserved levels are not lost, because the budget check of the charge
// leaves reservations their budget.
func (q *panelQuery) displaced(s *state.State, names []string, at time.Time) ([]api.Displaced, error) {
	if q.cost.IsZero() {
		return nil, nil
	}
	highest, err := highestMaximum(s) // 0: nothing is on offer in this ledger
	if err != nil || highest.IsZero() {
		return nil, err
	}
	sum := &losses{rows: map[lostLevel]*api.Displaced{}}
	for _, name := range names {
		questions, err := q.exposed(s, name, highest)
		if err != nil {
			return nil, err
		}
		for _, number := range questions {
			if err := q.addLosses(s, number, name, at, sum); err != nil {
				return nil, err
			}
		}
	}
	return sum.list(), nil
}

// highestMaximum returns the highest maximum ε of all terms of sale in the ledger, or 0 if there
// are no terms. If there are more than 1,000 policies, it reads none of them and returns the
// largest possible ε.
func highestMaximum(s *state.State) (highest privacy.Epsilon, err error) {
	const most = 1000
	if s.Counters.Policies > most {
		return privacy.MaxEpsilon(), nil
	}
	for number := range s.Counters.Policies {
		p, err := s.Policy(number + 1)
		if err != nil {
			return highest, err
		}
		if sale := p.Terms(); sale != nil {
			highest = state.Higher(highest, sale.Max())
		}
	}
	return highest, nil
}

// exposed returns the questions in which an object may lose levels by the charge. That is always
// the question of the query. It is every question of the object if the cap may limit them. That is
// so if less than the highest maximum is left after the charge, or if reservations or raises hold
// budget.
func (q *panelQuery) exposed(s *state.State, name string, highest privacy.Epsilon) ([]uint32, error) {
	var o state.Object
	if _, err := s.ReadObject(name, &o); err != nil {
		return nil, err
	}
	left := state.Minus(o.Cap, state.Plus(o.Spent, q.cost))
	if len(o.Held) == 0 && len(q.Rules.Holds.List()) == 0 && !left.Less(highest) {
		return []uint32{q.question.Number}, nil
	}
	return s.QuestionsOf(name)
}

// addLosses adds to sum the levels of a question that an object would lose by the charge. It
// compares the range of levels that can be sold ([rules.Market]) before and after the charge.
func (q *panelQuery) addLosses(s *state.State, question uint32, name string, at time.Time, sum *losses) error {
	other, err := s.Question(question)
	if err != nil {
		return err
	}
	var o rules.Subject
	out, err := rules.ReadSubject(s, other, name, q.epsilon, &o)
	if err != nil || out != nil {
		return err
	}
	before, err := q.Rules.Market(s, other, &o, at)
	if err != nil || before.Ever.IsZero() { // nothing is on offer
		return err
	}
	// From here on, o is the object after the charge.
	o.Object.Spent = state.Plus(o.Object.Spent, q.cost)
	if question == q.question.Number {
		o.Chain.Answered = state.Plus(o.Chain.Answered, q.cost)
	}
	after, err := q.Rules.Market(s, other, &o, at)
	if err != nil {
		return err
	}
	for _, level := range lost(other, &o, before, after) {
		sum.add(other, level, rules.Due(o.Policy, &o.Chain, 0, level)) // 0: the price for a new buyer
	}
	return nil
}

// lost returns the levels that a charge takes from an object, given the markets before and after
// it. First come levels that could only be sold later, and now never can. Then come levels that
// could be sold at once, and now cannot be sold at once.
func lost(q *event.Question, o *rules.Subject, before, after rules.Market) []privacy.Epsilon {
	sale := o.Policy.Terms()
	levels := rules.Offers(q, sale, state.Higher(after.Ever, before.Now), before.Ever, maxLostLevels)
	return append(levels, rules.Offers(q, sale, after.Now, before.Now, maxLostLevels-len(levels))...)
}

// lostLevel identifies a level of a question.
type lostLevel struct {
	question uint32
	epsilon  privacy.Epsilon
}

// losses sums the losses of all objects by level. It keeps at most twice [maxDisplaced] rows, and
// lists the first maxDisplaced in the order of lostLevel.compare.
type losses struct {
	rows  map[lostLevel]*api.Displaced
	floor *lostLevel // the first level that cut has removed; it and those after it are not counted
}

// compare orders levels by falling ε, then by question.
func (a lostLevel) compare(b lostLevel) int {
	return cmp.Or(b.epsilon.Compare(a.epsilon), cmp.Compare(a.question, b.question))
}

// add counts one object that loses a level, with the price of the level. It ignores a level that is
// not before l.floor.
func (l *losses) add(q *event.Question, level privacy.Epsilon, price uint64) {
	at := lostLevel{q.Number, level}
	if l.floor != nil && at.compare(*l.floor) >= 0 {
		return
	}
	row := l.rows[at]
	if row == nil {
		if len(l.rows) == 2*maxDisplaced {
			l.cut()
			l.add(q, level, price) // again, because the floor may now exclude this level
			return
		}
		row = &api.Displaced{Question: q.Name, Epsilon: level}
		l.rows[at] = row
	}
	row.Objects++
	row.Revenue += int64(price) // at most MaxPanel times the largest price, 10¹²
}

// cut removes all rows but the first [maxDisplaced] in the order of compare. It must have more than
// that. A removed row is never added again, so that the counts of the rows that remain are
// complete.
func (l *losses) cut() {
	all := make([]lostLevel, 0, len(l.rows))
	for at := range l.rows {
		all = append(all, at)
	}
	slices.SortFunc(all, lostLevel.compare)
	for _, at := range all[min(len(all), maxDisplaced):] {
		delete(l.rows, at)
	}
	l.floor = &all[maxDisplaced]
}

// list returns at most [maxDisplaced] rows, sorted by question name and falling ε.
func (l *losses) list() []api.Displaced {
	if len(l.rows) > maxDisplaced {
		l.cut()
	}
	var list []api.Displaced
	for _, row := range l.rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b api.Displaced) int {
		return cmp.Or(strings.Compare(a.Question, b.Question), b.Epsilon.Compare(a.Epsilon))
	})
	return list
}

// maxDisplaced is the largest number of rows in a list of displaced levels. The rows of the
// highest ε are listed.
const maxDisplaced = 1000
