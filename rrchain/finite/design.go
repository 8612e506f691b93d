package finite

import (
	"context"
	"math/big"
	"math/bits"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Design is a list of blocks of inputs, in which each input is in the same number of blocks. It
// defines a mechanism at every ε: the output is the number of a block. The output is E = e^ε times
// as probable if the input is in the block as if it is not.
//
// These are the block designs of Park, Nam and Lee, "Exactly Optimal and Communication-Efficient
// Private Estimation via Block Designs" (2023, arXiv:2305.01261), who require more balance than is
// needed here. Examples are randomized response (blocks of one input), subset selection and
// Hadamard response.
//
// Let there be b blocks, r of which contain each input. With the retention λ(ε) =
// r(E−1)/(r(E−1)+b), the response is one of the r blocks of the input, all equally likely.
// Otherwise it is one of all b blocks. λ rises with ε. So the mechanism at ε₁ is the mechanism at
// any higher ε₂, whose output is kept with the probability λ(ε₁)/λ(ε₂) and otherwise drawn again
// from all b blocks. It is therefore a degradation, and the mechanisms of a design at all ε are one
// family, like those of randomized response.
type Design struct {
	Inputs int     // at least 2
	Blocks [][]int // at least 2, each a list of inputs, from 0; a block may be empty, have all inputs, or equal another
}

// check returns an error if d is not a valid design (see [Design.At]).
func (d *Design) check() error {
	if d.Inputs < 2 || len(d.Blocks) < 2 || len(d.Blocks) > maxCells/d.Inputs {
		return invalid("a design needs at least 2 inputs and 2 blocks; inputs times blocks may be at most %d", maxCells)
	}
	times, isInformative := make([]int, d.Inputs), false // times: the number of blocks that contain each input
	for b, block := range d.Blocks {
		seen := make([]bool, d.Inputs)
		for _, x := range block {
			if x < 0 || x >= d.Inputs || seen[x] {
				return invalid("block %d has input %d, which is out of range or listed twice", b, x)
			}
			seen[x] = true
			times[x]++
		}
		isInformative = isInformative || len(block) > 0 && len(block) < d.Inputs
	}
	for x, n := range times {
		if n != times[0] {
			return invalid("input %d is in %d blocks, and input 0 is in %d", x, n, times[0])
		}
	}
	if !isInformative {
		return invalid("every block has all inputs or none: its output is independent of the input")
	}
	return nil
}

// SubsetSelection returns the design of all subsets of the given size, in lexical order (M. Ye and
// A. Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally Differential
// Privacy", 2017, arXiv:1702.00610; S. Wang et al., "Mutual Information Optimally Local Private
// Discrete Distribution Estimation", 2016, arXiv:1607.08025). With size 1 it is randomized
// response. The best size for estimates at ε is about inputs/(e^ε+1). It returns
// [privacy.ErrInvalid] unless 1 ≤ size < inputs and there are at most 4,096 inputs times subsets.
//
// Subsets of size s at odds E = e^ε can be degraded to subsets of size s′ at E′ under the following
// conditions, with m inputs. If s′ ≥ s, the condition is s′(E′−1) ≤ s(E−1). If s′ < s, it is
// E′·((s−s′)E+m−s) ≤ E·(m−s′). Both are necessary and sufficient ([NewFamily] decides it with a
// proof). So a family can have larger subsets at a lower ε, which is best for estimates.
func SubsetSelection(inputs, size int) (*Design, error) {
	if size < 1 || size >= inputs || inputs > maxCells {
		return nil, invalid("subsets of %d of %d inputs; 1 ≤ size < inputs ≤ %d is needed", size, inputs, maxCells)
	}
	if n := new(big.Int).Binomial(int64(inputs), int64(size)); n.Cmp(big.NewInt(int64(maxCells/inputs))) > 0 {
		return nil, invalid("%v subsets of %d inputs; inputs times subsets may be at most %d", n, inputs, maxCells)
	}
	var blocks [][]int
	block := make([]int, size)
	for i := range block {
		block[i] = i
	}
	for more := true; more; more = advance(block, inputs) {
		blocks = append(blocks, slices.Clone(block))
	}
	return &Design{inputs, blocks}, nil
}

// advance changes a sorted subset of the numbers below inputs to the next subset of the same size
// in lexical order, and returns true. If it is the last one, advance returns false and changes
// nothing.
func advance(subset []int, inputs int) bool {
	for i := len(subset) - 1; i >= 0; i-- {
		if last := inputs - len(subset) + i; subset[i] < last {
			for next := subset[i] + 1; i < len(subset); i, next = i+1, next+1 {
				subset[i] = next
			}
			return true
		}
	}
	return false
}

// HadamardResponse returns the design of J. Acharya, Z. Sun and H. Zhang, "Hadamard Response:
// Estimating Distributions Privately, Efficiently, and with Little Communication" (2018,
// arXiv:1802.04705). The blocks are the columns of Sylvester's Hadamard matrix whose order is the
// smallest power of two above the number of inputs. Input x is in block y if x+1 and y have an even
// number of binary digits 1 in common. It returns [privacy.ErrInvalid] unless there are at least 2
// inputs, and at most 4,096 inputs times blocks.
func HadamardResponse(inputs int) (*Design, error) {
	// This is checked before the blocks are created, so that they cannot fill the memory.
	if inputs < 2 || inputs > maxCells || inputs<<bits.Len(uint(inputs)) > maxCells {
		return nil, invalid("a Hadamard response for %d inputs; at least 2 are needed, and inputs times blocks "+
			"may be at most %d",
			inputs, maxCells)
	}
	blocks := make([][]int, 1<<bits.Len(uint(inputs)))
	for y := range blocks {
		for x := range inputs {
			if bits.OnesCount(uint((x+1)&y))%2 == 0 {
				blocks[y] = append(blocks[y], x)
			}
		}
	}
	return &Design{inputs, blocks}, nil
}

// At returns the mechanism at an ε, which is exactly its [Matrix.Epsilon]. Its E is the fraction
// with the smallest denominator between e^(ε−10⁻⁹) and e^ε.
//
// It returns [privacy.ErrInvalid] for ε = 0 and for an invalid design. A valid design has at most
// 4,096 inputs times blocks. Every input is in the same number of blocks, and at most once in each.
// At least one block has some but not all of the inputs.
func (d *Design) At(epsilon privacy.Epsilon) (*Matrix, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	odds, err := oddsAt(epsilon)
	if err != nil {
		return nil, err
	}
	return d.atOdds(odds)
}

// atOdds returns the mechanism in which an output is `odds` times as probable if the input is in
// the block as if it is not.
func (d *Design) atOdds(odds *big.Rat) (*Matrix, error) {
	rows := make([][]*big.Rat, d.Inputs)
	for x := range rows {
		rows[x] = make([]*big.Rat, len(d.Blocks))
		sum := new(big.Rat)
		for b, block := range d.Blocks {
			rows[x][b] = big.NewRat(1, 1)
			if slices.Contains(block, x) {
				rows[x][b].Set(odds)
			}
			sum.Add(sum, rows[x][b])
		}
		for _, p := range rows[x] {
			p.Quo(p, sum)
		}
	}
	return NewMatrix(rows)
}

// Family returns the family of the design's mechanisms at the given ε, which must rise. It returns
// the errors of [Design.At] and [NewFamily]. There can be at most 64 blocks.
func (d *Design) Family(epsilons ...privacy.Epsilon) (*Family, error) {
	var levels []*Matrix
	for _, epsilon := range epsilons {
		m, err := d.At(epsilon)
		if err != nil {
			return nil, err
		}
		levels = append(levels, m)
	}
	return NewFamily(context.Background(), levels...) // no linear program is solved between levels of a design
}
