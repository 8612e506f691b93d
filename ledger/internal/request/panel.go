package request

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Panel is the set of objects of a request: the names given, or all that were enrolled in a
// question by an event and have not withdrawn, or simply all there are.
type Panel struct {
	Names    []string // sorted
	All      bool     // rather than Names
	Question uint32   // 0 for whoever is enrolled in any
	Through  uint64   // the last event whose enrolments count, of a panel of all
}

// After returns up to limit names behind a given one, in order, and whether they are the last.
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
		err = s.ScanObjects(name, func(found string) bool {
			if last = len(names) < limit; last {
				names = append(names, found)
			}
			return last
		})
		return names, last, err
	}
	members, last, err := p.membersAfter(s, name, limit)
	s.Expect(members) // they are looked at next
	names = make([]string, len(members))
	for i := range members {
		names[i] = members[i].Name
	}
	return names, last, err
}

// membersAfter is After for a panel of all who are enrolled in a question.
func (p *Panel) membersAfter(s *state.State, name string, limit int) (members []state.Member, last bool, err error) {
	for from := string(state.ObjectKey(name)); ; {
		candidates, end, err := p.candidates(s, from, limit+1-len(members))
		if err != nil {
			return nil, false, err
		}
		if err := s.ReadObjects(candidates); err != nil {
			return nil, false, err
		}
		if members == nil {
			members = candidates[:0] // who is left out makes room for those behind
		}
		for i := range candidates {
			from = candidates[i].Name
			if !candidates[i].Known {
				return nil, false, errs.Corrupt(nil, "object %q has a chain but no budget", from)
			}
			in := !candidates[i].Object.Withdrew(candidates[i].Chain) // whoever has withdrawn is out of it
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
		from = string(state.ObjectKey(from)) // nobody has taken the last place, but the last one
	}
}

// candidates returns whose chains of the question are the next that are old enough, up to a limit,
// and whether there are no more.
func (p *Panel) candidates(s *state.State, from string, limit int) (found []state.Member, end bool, err error) {
	end = true
	room := int(min(uint64(min(limit, state.PartSize+1)), s.Counters.Chains))
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

// isOne reports whether a request names a single object.
func (p *Panel) isOne() bool { return !p.All && len(p.Names) == 1 }

// Whole returns everybody in a panel of a question, for a request that is one transaction.
func (p *Panel) Whole(s *state.State, q *event.Question) ([]string, error) {
	var names []string
	for last := false; !last && len(names) <= api.MaxPanel; {
		behind := ""
		if n := len(names); n > 0 {
			behind = names[n-1]
		}
		some, end, err := p.After(s, behind, state.PartSize)
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

// CheckPanel refuses a panel of nobody, or of more than one transaction may be about.
func CheckPanel(q *event.Question, objects int) error {
	switch {
	case objects == 0:
		return fmt.Errorf("question %q: nobody takes part: %w", q.Name, errs.ErrUnknown)
	case objects > api.MaxPanel:
		const text = "question %q: a request for all is for more than %d objects; " +
			"name some of them, in several requests with keys of their own"
		return errs.Invalid(text, q.Name, api.MaxPanel)
	}
	return nil
}

// Contains tells whether an object belongs to the panel.
func (p *Panel) Contains(s *state.State, name string) (bool, error) {
	if !p.All {
		_, found := slices.BinarySearch(p.Names, name)
		return found, nil
	}
	c, found, err := s.Chain(p.Question, name)
	return found && c.Enrolled <= p.Through, err
}
