package policy

import (
	"fmt"
	"math/bits"

	"github.com/sluicedp/sluice/privacy"
)

// Unlock returns the policy that unlocks a share of the total with each new buyer that the chain
// serves: total·min(n, orders)/orders after n buyers, rounded down to a nano-nat. The first buyers
// therefore cannot use the whole budget (Luo et al., "Privacy Budget Scheduling", OSDI 2021).
//
// A buyer counts once, however often it buys. The policy relies on the host that two names are two
// buyers. Time does not matter. Unlock needs a total above 0, and 1 to 10⁹ orders.
func Unlock(total privacy.Epsilon, orders int) (Policy, error) {
	return build(unlock{total, int64(orders)})
}

// unlock is the rule of kind "unlock".
type unlock struct {
	total  privacy.Epsilon
	orders int64
}

func (unlock) kind() string { return "unlock" }

func (r unlock) code(c *coder) rule {
	c.epsilon("total", &r.total)
	c.integer("orders", &r.orders)
	return r
}

// shape checks the parameters. The limit is the total.
func (r unlock) shape() (shape, error) {
	if r.total.IsZero() {
		return shape{}, fmt.Errorf("total is 0")
	}
	if r.orders < 1 || r.orders > maxCount {
		return shape{}, fmt.Errorf("%d orders; 1 to %d are allowed", r.orders, int64(maxCount))
	}
	return shape{steps: 1, hasOrders: true, limit: r.total}, nil
}

func (r unlock) line() []step { return always(r.total) }

// ceiling returns the formula of [Unlock], computed with a product of 128 bits.
func (r unlock) ceiling(_ instant, orders uint64) privacy.Epsilon {
	all := uint64(r.orders)
	hi, lo := bits.Mul64(uint64(r.total.Nano()), min(orders, all))
	unlocked, _ := bits.Div64(hi, lo, all) // hi < all, because the quotient is at most the total
	return nanos(int64(unlocked))
}
