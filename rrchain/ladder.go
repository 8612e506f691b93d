package rrchain

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// ladder is what all kinds of chains have in common: responses by rising ε, of which those below
// the highest need no truth.
type ladder[R any] struct {
	levels []LevelOf[R]
	bridge bridge[R]
}

// bridge draws a response between two levels, without the truth. Where there is none below, that is
// the zero level.
type bridge[R any] func(s *Sampler, below, above LevelOf[R], at privacy.Epsilon) R

// LevelOf is one response of a chain: what was handed out at one ε.
type LevelOf[R any] struct {
	Epsilon  privacy.Epsilon // above 0
	Response R               // never drawn again at this ε
}

// newLadder checks that the ε of recorded levels rise, and each response.
func newLadder[R any](recorded []LevelOf[R], check func(R) error, draw bridge[R]) (ladder[R], error) {
	last := privacy.Epsilon{}
	for i, level := range recorded {
		if !last.Less(level.Epsilon) {
			return ladder[R]{}, fmt.Errorf("%w: level %d at ε=%v does not lie above ε=%v",
				ErrInvalid, i, level.Epsilon, last)
		}
		if err := check(level.Response); err != nil {
			return ladder[R]{}, fmt.Errorf("%w: level %d %w", ErrInvalid, i, err)
		}
		last = level.Epsilon
	}
	return ladder[R]{slices.Clone(recorded), draw}, nil
}

// Levels returns a copy of all levels by rising ε.
func (l *ladder[R]) Levels() []LevelOf[R] { return slices.Clone(l.levels) }

// Current returns the highest level. Before the first response it returns the zero level: noise is
// a response at ε = 0.
func (l *ladder[R]) Current() LevelOf[R] {
	if len(l.levels) == 0 {
		return LevelOf[R]{}
	}
	return l.levels[len(l.levels)-1]
}

// At returns the level recorded at exactly this ε, if there is one.
func (l *ladder[R]) At(epsilon privacy.Epsilon) (level LevelOf[R], found bool) {
	i, found := l.find(epsilon)
	if found {
		level = l.levels[i]
	}
	return level, found
}

func (l *ladder[R]) find(epsilon privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(l.levels, epsilon,
		func(l LevelOf[R], e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

func checkRise(from, to privacy.Epsilon) error {
	if !from.Less(to) {
		return fmt.Errorf("%w: a raise to ε=%v must lie above the current ε=%v", ErrInvalid, to, from)
	}
	return nil
}

// put records a response above all others.
func (l *ladder[R]) put(epsilon privacy.Epsilon, response R) LevelOf[R] {
	level := LevelOf[R]{epsilon, response}
	l.levels = append(l.levels, level)
	return level
}

// Degrade draws a response at an ε below every recorded one from the lowest response and records
// it. It costs nothing and needs no truth (it is post-processing). It returns [ErrInvalid] when the
// chain is empty, or ε is 0 or not below the lowest level.
func (l *ladder[R]) Degrade(s *Sampler, to privacy.Epsilon) (LevelOf[R], error) {
	if len(l.levels) == 0 || !to.Less(l.levels[0].Epsilon) {
		return LevelOf[R]{}, fmt.Errorf("%w: a degradation to ε=%v needs a recorded level above it and none below",
			ErrInvalid, to)
	}
	if to.IsZero() {
		return LevelOf[R]{}, fmt.Errorf("%w: a response at ε=0 is noise", ErrInvalid)
	}
	return l.derive(s, 0, LevelOf[R]{}, to), nil
}

// Insert draws a response at an ε between two recorded ones from these two and records it. It costs
// nothing and needs no truth. It returns [ErrInvalid] unless there is a level below and one above,
// and none at this ε.
func (l *ladder[R]) Insert(s *Sampler, at privacy.Epsilon) (LevelOf[R], error) {
	i, found := l.find(at)
	if found || i == 0 || i == len(l.levels) {
		return LevelOf[R]{}, fmt.Errorf("%w: an insertion at ε=%v needs a level below it, one above it, and none "+
			"at it", ErrInvalid, at)
	}
	return l.derive(s, i, l.levels[i-1], at), nil
}

// derive draws and records the response at an ε just below level i.
func (l *ladder[R]) derive(s *Sampler, i int, below LevelOf[R], at privacy.Epsilon) LevelOf[R] {
	level := LevelOf[R]{at, l.bridge(s, below, l.levels[i], at)}
	l.levels = slices.Insert(l.levels, i, level)
	return level
}
