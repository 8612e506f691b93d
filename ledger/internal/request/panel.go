package request

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Panel is the set of objects of a request. It has the names given, or all objects that were
// enrolled in a question up to an event and have not withdrawn. Without a question, it has all
// objects of the ledger.
type Panel struct {
	Names    []string // sorted
	All      bool     // all enrolled objects, rather than Names
	Question uint32   // 0 for the objects of all questions
	Through  uint64   // if All: later enrolments do not count
}

// After returns up to limit names of the panel that follow a given name, in ascending order. last
// reports whether the panel has no more names after them.
func (p *Panel) After(s *state.State, name string, limit int) (names []string, last bool, err error) {
	if !p.All {
		from, found := slices.BinarySearch(p.Names, name)
		if found {
			from++
		}
		to := min(from+limit, len(p.Names))
		names = p.Names[from:to]
		return names, to == len(p.Names), nil
	}
	last = true
	if p.Question == 0 {
		// One name more than the limit shows that the panel has more.
		err = s.ScanObjects(name, func(found string) bool {
			if last = len(names) < limit; last {
				names = append(names, found)
			}
			return last
		})
		return names, last, err
	}
	members, last, err := p.membersAfter(s, name, limit)
	s.Expect(members) // the caller reads them next
	names = make([]string, len(members))
	for i := range members {
		names[i] = members[i].Name
	}
	return names, last, err
}

// membersAfter is After for a panel of all objects enrolled in a question. It reads chains first,
// and then the objects, because only they show which have withdrawn. It repeats that until it has
// enough objects.
func (p *Panel) membersAfter(s *state.State, name string, limit int) (members []state.Member, last bool, err error) {
	for from := string(state.ObjectKey(name)); ; {
		// One more than needed shows whether the panel has more.
		candidates, end, err := p.candidates(s, from, limit+1-len(members))
		if err != nil {
			return nil, false, err
		}
		if err := s.ReadObjects(candidates); err != nil {
			return nil, false, err
		}
		if members == nil {
			members = candidates[:0] // reuses the memory, because objects that have withdrawn are dropped
		}
		for i := range candidates {
			from = candidates[i].Name
			if !candidates[i].Known {
				return nil, false, errs.Corrupt(nil, "object %q has a chain but no budget", from)
			}
			in := !candidates[i].Object.Withdrew(candidates[i].Chain) // withdrawn objects are not in the panel
			if in && len(members) == limit {
				return members, false, nil
			}
			if in {
				members = append(members, candidates[i])
			}
		}
		if end {
			return members, true, nil
		}
		from = string(state.ObjectKey(from)) // continue after the last candidate
	}
}

// candidates returns up to limit objects after a key, also withdrawn ones, that were enrolled in
// the question up to the event p.Through. end reports whether there are no more.
func (p *Panel) candidates(s *state.State, from string, limit int) (found []state.Member, end bool, err error) {
	end = true
	room := int(min(uint64(min(limit, state.PartSize+1)), s.Counters.Chains)) // capacity for the result
	err = s.ScanChains(p.Question, from, func(name string, c state.Chain) bool {
		if c.Enrolled <= p.Through {
			if found == nil {
				found = make([]state.Member, 0, room)
			}
			found = append(found, state.Member{Name: name, Question: p.Question, Chain: c})
		}
		end = len(found) < limit
		return end
	})
	return found, end, err
}

// isOne reports whether the request names exactly one object.
func (p *Panel) isOne() bool { return !p.All && len(p.Names) == 1 }

// Whole returns the names of all objects of a panel about a question, for a request that is one
// transaction. It returns an error if there are none, or more than [api.MaxPanel].
func (p *Panel) Whole(s *state.State, q *event.Question) ([]string, error) {
	var names []string
	for last := false; !last && len(names) <= api.MaxPanel; {
		after := ""
		if n := len(names); n > 0 {
			after = names[n-1]
		}
		some, end, err := p.After(s, after, state.PartSize)
		if err != nil {
			return nil, err
		}
		names, last = append(names, some...), end
	}
	if err := CheckPanel(q, len(names)); err != nil {
		return nil, err
	}
	return names, nil
}

// CheckPanel returns an error if a panel has no object, or more objects than one transaction may
// have.
func CheckPanel(q *event.Question, objects int) error {
	switch {
	case objects == 0:
		return fmt.Errorf("question %q: no object is enrolled: %w", q.Name, errs.ErrUnknown)
	case objects > api.MaxPanel:
		const text = "question %q: a request for all would be about more than %d objects: " +
			"name the objects, in several requests with different keys"
		return errs.Invalid(text, q.Name, api.MaxPanel)
	}
	return nil
}

// Contains reports whether an object belongs to the panel, which names its objects or is about one
// question. For a panel of all objects it does not check whether the object has withdrawn.
func (p *Panel) Contains(s *state.State, name string) (bool, error) {
	if !p.All {
		_, found := slices.BinarySearch(p.Names, name)
		return found, nil
	}
	c, found, err := s.Chain(p.Question, name)
	return found && c.Enrolled <= p.Through, err
}
