package rappor

import "gonum.org/v1/gonum/mat"

// design is the regression of the bit counts on the candidates' filters. Filters are centred: the
// mean h/k is subtracted from each bit. This is only done in the formulas; the design stores the
// numbers of the set bits.
type design struct {
	params     Params
	candidates int
	variance   float64   // the variance of one client's bit that is due to the noise
	n          float64   // the total number of clients
	clients    []float64 // by cohort; cohorts without clients are left out
	counts     []float64 // mean unbiased bit minus h/k, cohort by cohort
	ones       []int     // the set bits (Hashes each) of each candidate, cohort by cohort, as indices into counts
	// inverse is the inverse of Σ_c w_c X_cᵀX_c. w_c is a cohort's share of the clients, and the
	// columns of X_c are the filters.
	inverse mat.SymDense
}

// worstCondition is the largest condition number of the normal equations for which estimates are
// given. At this number, half of the digits are left.
const worstCondition = 1e8

// leastVariance replaces smaller variances of a bit. At such an ε, rounding errors are larger than
// the noise.
const leastVariance = 1e-20

// newDesign returns the design of a tally and a list of candidates. It returns an
// [*UndecodableError] if the counts cannot distinguish the candidates.
func newDesign(t *Tally, candidates []string) (*design, error) {
	d := &design{
		params: t.params, candidates: len(candidates),
		variance: max(t.noise.variance(), leastVariance), n: float64(t.Clients()),
	}
	alike := make([][]byte, len(candidates)) // the filters as bytes, to find equal ones
	for cohort, clients := range t.clients {
		if clients == 0 {
			continue
		}
		d.addCounts(t.cohortOnes(cohort), clients, t.noise)
		for j, s := range candidates {
			filter, err := t.params.Filter(cohort, s)
			if err != nil {
				return nil, err
			}
			alike[j] = append(alike[j], filter.Pack()...)
			for bit := range filter.Ones() {
				// The counts of this cohort are the last ones.
				d.ones = append(d.ones, len(d.counts)-t.params.Bits+bit)
			}
		}
	}
	undecodable := &UndecodableError{Candidates: len(candidates), Counts: d.independent()}
	if a, b, found := equalRows(alike); found {
		undecodable.Alike = []string{candidates[a], candidates[b]}
		return nil, undecodable
	}
	if undecodable.Candidates >= undecodable.Counts || !d.invert() {
		return nil, undecodable
	}
	return d, nil
}

// addCounts appends the counts of one cohort: for each bit, the unbiased share of its clients whose
// filter has the bit, minus h/k. ones holds the number of reports with each bit. Instead of h/k, it
// subtracts the mean of the shares, whose expectation is h/k. This removes the noise that all bits
// have in common.
func (d *design) addCounts(ones []int64, clients int64, noise channel) {
	d.clients = append(d.clients, float64(clients))
	mean := 0.0
	first := len(d.counts)
	for _, n := range ones {
		share := noise.estimate(n, clients) / float64(clients)
		d.counts = append(d.counts, share)
		mean += share / float64(len(ones))
	}
	for i := first; i < len(d.counts); i++ {
		d.counts[i] -= mean
	}
}

// equalRows returns the indexes a < b of two equal rows. found is false if there are none.
func equalRows(rows [][]byte) (a, b int, found bool) {
	seen := make(map[string]int, len(rows))
	for b, row := range rows {
		if a, found := seen[string(row)]; found {
			return a, b, true
		}
		seen[string(row)] = b
	}
	return 0, 0, false
}

// set returns the set bits of a candidate's filter in a cohort, as indexes into counts.
func (d *design) set(cohort, candidate int) []int {
	h := d.params.Hashes
	at := (cohort*d.candidates + candidate) * h
	return d.ones[at : at+h]
}

// allSet returns the set bits of a candidate's filters in all cohorts, as indexes into counts.
func (d *design) allSet(candidate int) (all []int) {
	for c := range d.clients {
		all = append(all, d.set(c, candidate)...)
	}
	return all
}

// row returns the part that belongs to a cohort, of a slice with an element for each of counts.
func (d *design) row(counts []float64, cohort int) []float64 {
	return counts[cohort*d.params.Bits : (cohort+1)*d.params.Bits]
}

// independent returns the number of linearly independent counts. In each cohort the counts sum to
// 0.
func (d *design) independent() int { return len(d.clients) * (d.params.Bits - 1) }

// weight returns a cohort's share of the clients.
func (d *design) weight(cohort int) float64 { return d.clients[cohort] / d.n }

// density returns h/k, the mean of a filter's bits.
func (d *design) density() float64 { return float64(d.params.Hashes) / float64(d.params.Bits) }

// length returns h(1−h/k), the squared length of a centred filter.
func (d *design) length() float64 { return float64(d.params.Hashes) * (1 - d.density()) }

// spread is [Params.spread].
func (d *design) spread() float64 { return d.params.spread() }

// invert computes the field inverse. It returns false if the matrix is singular, or nearly so. An
// element of X_cᵀX_c is the number of bits that two filters share, minus h²/k. Few filters share a
// bit, so invert iterates over the candidates of each bit.
func (d *design) invert() bool {
	gram := mat.NewSymDense(d.candidates, nil)
	overlap := gram.RawSymmetric() // only its upper triangle is used
	for c := range d.clients {
		holders := make([][]int, d.params.Bits) // by bit: the candidates before j whose filter has it
		for j := range d.candidates {
			for _, bit := range d.set(c, j) {
				bit -= c * d.params.Bits
				for _, i := range holders[bit] { // in rising order, and below j
					overlap.Data[i*overlap.Stride+j] += d.weight(c)
				}
				overlap.Data[j*overlap.Stride+j] += d.weight(c)
				holders[bit] = append(holders[bit], j)
			}
		}
	}
	mean := d.density() * float64(d.params.Hashes) // h²/k
	for i := range d.candidates {
		for j := i; j < d.candidates; j++ {
			overlap.Data[i*overlap.Stride+j] -= mean
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(gram) || factor.Cond() > worstCondition {
		return false
	}
	return factor.InverseTo(&d.inverse) == nil
}

// along stores x_csᵀv_c in products for each candidate s, which is the sum of the values of row at
// the set bits of its filter. row is the whole vector v, with an element for each of counts. Its
// elements sum to 0 in each cohort, so the mean of the filters makes no difference.
func (d *design) along(cohort int, row []float64, products []float64) {
	for s := range products {
		sum := 0.0
		for _, at := range d.set(cohort, s) {
			sum += row[at]
		}
		products[s] = sum
	}
}

// combine returns Σ_s coefficients_s·x_cs for all cohorts c, with an element for each of counts.
// x_cs is the centred filter of candidate s in cohort c.
func (d *design) combine(coefficients []float64) []float64 {
	row := make([]float64, len(d.counts))
	total := 0.0
	for _, b := range coefficients {
		total += b
	}
	for i := range row {
		row[i] = -d.density() * total
	}
	for c := range d.clients {
		for s, b := range coefficients {
			if b == 0 {
				continue
			}
			for _, at := range d.set(c, s) {
				row[at] += b
			}
		}
	}
	return row
}

// solve returns the least-squares estimate of the share of each candidate.
func (d *design) solve() []float64 {
	right, products := make([]float64, d.candidates), make([]float64, d.candidates)
	for c := range d.clients {
		d.along(c, d.counts, products)
		for s, product := range products {
			right[s] += d.weight(c) * product
		}
	}
	var shares mat.VecDense
	shares.MulVec(&d.inverse, mat.NewVecDense(d.candidates, right))
	return shares.RawVector().Data
}
