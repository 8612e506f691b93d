package finite

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/sluicedp/sluice/internal/lp"
	"github.com/sluicedp/sluice/privacy"
)

// NotDegradationError means that one mechanism is not a degradation of another. It wraps
// [privacy.ErrInvalid].
//
// Gain is a proof (D. Blackwell, "Equivalent Comparisons of Experiments", 1953). It defines a game:
// a player who guesses o when the input is x gains Gain[x][o]. A player who guesses the output of
// the lower mechanism gains Lower, summed over all inputs. A player who sees the output of the
// higher mechanism gains at most Higher, which is the sum over its outputs of the gain of the best
// guess. Higher is below Lower.
type NotDegradationError struct {
	Gain          [][]*big.Rat // by input, then output of the lower mechanism
	Lower, Higher *big.Rat     // the gains of both players, summed over all inputs
}

// Error returns the gains of both players, rounded.
func (e *NotDegradationError) Error() string {
	lower, _ := e.Lower.Float64()
	higher, _ := e.Higher.Float64()
	return fmt.Sprintf("not a degradation: there is a game in which the lower mechanism gains %.6g, and the "+
		"higher one %.6g at most",
		lower, higher)
}

// Unwrap returns [privacy.ErrInvalid].
func (e *NotDegradationError) Unwrap() error { return privacy.ErrInvalid }

// degradation returns a channel from the outputs of a higher mechanism to those of a lower one. The
// higher mechanism followed by the channel is exactly the lower one. Only with such a channel can a
// response of the lower mechanism be raised to one of the higher without additional information:
// both together then contain no more than the higher response alone.
//
// The lower mechanism may keep the output of the higher one with the same probability for all
// outputs, and otherwise draw from a fixed law. This is so between any two ε of a [Design]. The
// channel then does the same. Otherwise a linear program in the probabilities of the channel
// decides whether there is a channel, with a proof in rational arithmetic. If there are several
// channels, the result is one that keeps the number of the output as often as possible.
//
// It returns the errors of [NewFamily].
func degradation(ctx context.Context, higher, lower *Matrix) (*Matrix, error) {
	for _, m := range []*Matrix{higher, lower} {
		if err := m.checkUsable(); err != nil {
			return nil, err
		}
	}
	if higher.inputs != lower.inputs {
		return nil, invalid("the higher mechanism has %d inputs and the lower one %d", higher.inputs, lower.inputs)
	}
	if higher.outputs*lower.outputs > maxCells {
		return nil, invalid("a channel of %d by %d outputs; %d probabilities are possible",
			higher.outputs, lower.outputs, maxCells)
	}
	if channel := redraw(higher, lower); channel != nil {
		if err := checkBits(channel.p); err != nil {
			return nil, err
		}
		return channel, nil
	}
	program, err := channelProgram(higher, lower)
	if err != nil {
		return nil, err
	}
	var stay []lp.Term // the objective: the probability that the number of the output stays the same
	for o := range min(higher.outputs, lower.outputs) {
		stay = append(stay, lp.Term{Var: o*lower.outputs + o, Coef: big.NewRat(1, 1)})
	}
	optimum, err := program.Maximize(ctx, stay)
	return channelFrom(higher, lower, optimum, err)
}

// channelFrom returns the channel that the linear program of [channelProgram] found. optimum and
// err are the results of the program. If it is infeasible, channelFrom returns a
// [*NotDegradationError]. It verifies the channel, and returns [privacy.ErrNoCertificate] if it is
// wrong.
func channelFrom(higher, lower *Matrix, optimum *lp.Optimum, err error) (*Matrix, error) {
	var infeasible *lp.InfeasibleError
	if errors.As(err, &infeasible) {
		return nil, game(higher, lower, infeasible.Multipliers)
	}
	if err != nil {
		return nil, fmt.Errorf("deciding whether one mechanism is a degradation of the other: %w", err)
	}
	if err := checkBits(optimum.X); err != nil {
		return nil, err
	}
	var rows [][]*big.Rat
	for from := range higher.outputs {
		rows = append(rows, optimum.X[from*lower.outputs:(from+1)*lower.outputs])
	}
	channel, err := NewMatrix(rows)
	if err != nil || !higher.composesTo(channel, lower) {
		return nil, fmt.Errorf("%w: the channel of the linear program does not map one mechanism to the other",
			privacy.ErrNoCertificate)
	}
	return channel, nil
}

// checkBits returns [privacy.ErrInvalid] for a channel that [NewMatrix] would refuse because of a
// long common denominator. The JSON of a family with such a channel could not be read again.
func checkBits(channel []*big.Rat) error {
	if commonDenominator(channel, maxBits) == nil {
		return invalid("the channel has a common denominator of more than %d bits", maxBits)
	}
	return nil
}

// redraw returns the channel that keeps an output with probability s = keep and otherwise draws
// from a fixed law. It returns nil if no such channel leads from the higher mechanism to the lower
// one. One does if lower(o|x) = s·higher(o|x) + rest(o) with rest ≥ 0, for all inputs x and outputs
// o.
func redraw(higher, lower *Matrix) *Matrix {
	keep := scale(higher, lower)
	if keep == nil || keep.Sign() < 0 {
		return nil
	}
	rest := make([]*big.Rat, lower.outputs) // sums to 1 − s, so s ≤ 1 unless an element is negative
	for o := range rest {
		rest[o] = new(big.Rat).Sub(lower.at(0, o), new(big.Rat).Mul(keep, higher.at(0, o)))
		if rest[o].Sign() < 0 {
			return nil
		}
	}
	var channel []*big.Rat
	for from := range higher.outputs {
		for to, p := range rest {
			p = new(big.Rat).Set(p)
			if from == to {
				p.Add(p, keep)
			}
			channel = append(channel, p)
		}
	}
	return newMatrix(higher.outputs, lower.outputs, channel)
}

// scale returns the number s with lower(o|x) − lower(o|0) = s·(higher(o|x) − higher(o|0)) for all x
// and o. It returns nil unless there is exactly one. lower(o|x) − s·higher(o|x) is then the same
// for all inputs x.
func scale(higher, lower *Matrix) *big.Rat {
	if higher.outputs != lower.outputs {
		return nil
	}
	var s *big.Rat
	// Element i of a matrix is output i % outputs given input i / outputs. Element i % outputs is
	// the same output given input 0.
	differences := func(i int) (high, low *big.Rat) {
		first := i % higher.outputs
		return new(big.Rat).Sub(higher.p[i], higher.p[first]), new(big.Rat).Sub(lower.p[i], lower.p[first])
	}
	for i := range higher.p {
		if high, low := differences(i); high.Sign() != 0 {
			s = low.Quo(low, high)
			break
		}
	}
	if s == nil {
		return nil // the output of the higher mechanism does not depend on the input
	}
	for i := range higher.p {
		if high, low := differences(i); low.Cmp(high.Mul(high, s)) != 0 {
			return nil
		}
	}
	return s
}

// channelProgram returns a program with a variable for each probability of the channel. It has an
// equation for each input and output of the lower mechanism, and then one for each row of the
// channel.
func channelProgram(higher, lower *Matrix) (*lp.Program, error) {
	vars := higher.outputs * lower.outputs
	if vars > lp.MaxVars {
		return nil, invalid("a channel of %d by %d outputs; a linear program finds up to %d probabilities",
			higher.outputs, lower.outputs, lp.MaxVars)
	}
	program, err := lp.New(vars)
	if err != nil {
		return nil, err
	}
	for x := range higher.inputs {
		for to := range lower.outputs {
			row := lp.Row{Equal: true, Bound: lower.at(x, to)}
			for from := range higher.outputs {
				if p := higher.at(x, from); p.Sign() != 0 {
					row.Terms = append(row.Terms, lp.Term{Var: from*lower.outputs + to, Coef: p})
				}
			}
			if err := program.Add(row); err != nil {
				return nil, err
			}
		}
	}
	for from := range higher.outputs {
		row := lp.Row{Equal: true, Bound: big.NewRat(1, 1)}
		for to := range lower.outputs {
			row.Terms = append(row.Terms, lp.Term{Var: from*lower.outputs + to, Coef: big.NewRat(1, 1)})
		}
		if err := program.Add(row); err != nil {
			return nil, err
		}
	}
	return program, nil
}

// game converts the multipliers y of an infeasible program to a game, as described at
// [NotDegradationError]. The program has a row for each input x and lower output `to`, and one for
// each higher output `from`. Let M be the higher mechanism and m the lower one. The multipliers
// combine the rows to coefficients Σ_x y(x,to)·M(from|x) + y(from) ≥ 0 and a bound Σ
// y(x,to)·m(to|x) + Σ y(from) < 0. So with the gain −y(x,to), the higher mechanism gains at most Σ
// y(from), and the lower one gains more.
func game(higher, lower *Matrix, multipliers []*big.Rat) *NotDegradationError {
	e := &NotDegradationError{Lower: new(big.Rat), Higher: new(big.Rat)}
	for x := range higher.inputs {
		e.Gain = append(e.Gain, make([]*big.Rat, lower.outputs))
		for to := range lower.outputs {
			gain := new(big.Rat).Neg(multipliers[x*lower.outputs+to])
			e.Gain[x][to] = gain
			e.Lower.Add(e.Lower, new(big.Rat).Mul(gain, lower.at(x, to)))
		}
	}
	for from := range higher.outputs {
		var best *big.Rat // the gain of the best guess after the output from
		for to := range lower.outputs {
			sum := new(big.Rat)
			for x := range higher.inputs {
				sum.Add(sum, new(big.Rat).Mul(e.Gain[x][to], higher.at(x, from)))
			}
			if best == nil || sum.Cmp(best) > 0 {
				best = sum
			}
		}
		e.Higher.Add(e.Higher, best)
	}
	return e
}
