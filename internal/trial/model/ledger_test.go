//go:build !race

package model

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// ledgerMarket is a market on a ledger in a file.
type ledgerMarket struct {
	testing.TB
	ledger  *ledger.Ledger
	options ledger.Options
	dir     string
	lives   int // the number of processes of the host so far
	truths  []int
	dying   bool // the source of true values fails
	// older, if set, is what the host opens after it died, instead of the file that it left. That
	// is a fault.
	older string
}

const question = "question"

// kind is a way in which a ledger draws.
type kind struct {
	name     string
	question api.Question
	keyed    bool
	files    int // the number of ledgers in the deep form; more kinds of words need more objects
}

func valueNames(n int) (names []string) {
	for v := range n {
		names = append(names, fmt.Sprint("v", v))
	}
	return names
}

// kinds returns all ways in which chains are drawn: by value, in unary encoding, by a mechanism of
// the host; randomly and from a key.
func kinds(t testing.TB) []kind {
	design := check.Value(finite.HadamardResponse(2))(t)
	family := check.Value(design.Family(Eps(t, "0.25"), Eps(t, "0.5"), Eps(t, "1"), Eps(t, "1.5")))(t)
	two := api.Question{Name: question, Values: valueNames(2)}
	three := api.Question{Name: question, Values: valueNames(3)}
	unary := api.Question{Name: question, Values: valueNames(2), Encoding: "unary"}
	own := api.Question{Name: question, Values: valueNames(2), Mechanism: &api.Mechanism{Family: family}}
	return []kind{
		{"two values", two, false, 1}, {"three values", three, false, 1}, {"unary", unary, false, 2}, {"own mechanism", own, false, 2},
		{"two values, keyed", two, true, 1}, {"unary, keyed", unary, true, 2},
	}
}

// newLedgerMarket opens a ledger with one object for each true value. All are for sale.
func newLedgerMarket(t testing.TB, k kind, truths []int) *ledgerMarket {
	t.Helper()
	h := &ledgerMarket{TB: t, dir: testenv.TempDir(t), truths: truths}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	h.options.TruthKey = secret[:16]
	if k.keyed {
		h.options.NoiseKey = api.NoiseKeys{Current: "noise", Key: func(string) ([]byte, error) { return secret, nil }}
	}
	check.Must(t, ledger.Create(t.Context(), h.path(), ledger.CreateOptions{}))
	h.open()
	check.Must(t, h.ledger.DefineQuestion(h.Context(), "define", k.question))
	terms := upTo(t, "2")
	var names []string
	for i := range truths {
		names = append(names, objectName(i))
	}
	check.Must(t, check.Err(h.ledger.Enroll(h.Context(), api.EnrollRequest{Key: "enroll", Question: question, Objects: names, Policy: terms, Cap: privacy.MaxEpsilon()})))
	return h
}

// upTo returns a policy that sells levels up to an ε.
func upTo(t testing.TB, epsilon string) policy.Policy {
	t.Helper()
	return check.Value(policy.Market{Max: Eps(t, epsilon), Prices: []policy.Price{{Epsilon: Eps(t, "2"), Amount: 200}}}.Policy())(t)
}

// changeTerms changes the terms of all objects. No buyer sees it.
func (h *ledgerMarket) changeTerms(o order) []string {
	h.Helper()
	terms := upTo(h, o.at)
	r := api.ChangeTermsRequest{Key: o.key, Question: question, Policy: &terms, Consent: "all agreed"}
	for i := range h.truths {
		r.Objects = append(r.Objects, objectName(i))
	}
	check.Must(h, check.Err(h.ledger.ChangeTerms(h.Context(), r)))
	return make([]string, len(h.truths))
}

func (h *ledgerMarket) path() string { return filepath.Join(h.dir, strconv.Itoa(h.lives)) }

func (h *ledgerMarket) open() {
	h.Helper()
	l := check.Value(ledger.Open(context.Background(), h.path(), h.options))(h)
	h.ledger = l
}

// copyFiles copies the file and its journal, as a kill at this instant would leave them.
func (h *ledgerMarket) copyFiles() {
	h.Helper()
	from := h.path()
	if h.older != "" {
		from = h.older
	}
	file := check.Value(os.ReadFile(from))(h)
	to := filepath.Join(h.dir, strconv.Itoa(h.lives+1))
	check.Must(h, os.WriteFile(to, file, 0o600))
	if _, err := os.Stat(from + ".journal"); err == nil {
		check.Must(h, os.CopyFS(to+".journal", os.DirFS(from+".journal")))
	}
}

// reopen opens the copied files. What the old process does after the copy is discarded.
func (h *ledgerMarket) reopen() {
	h.Helper()
	check.Must(h, h.ledger.Close())
	check.Must(h, os.Remove(h.path()))
	h.lives++
	h.open()
}

var errDead = errors.New("the host died")

// end closes the ledger and removes it, because the long form makes many.
func (h *ledgerMarket) end() {
	h.Helper()
	check.Must(h, h.ledger.Close())
	check.Must(h, os.Remove(h.path()))
}

// truth is the source of true values.
func (h *ledgerMarket) truth(_ context.Context, _ string, objects []string) (values []string, err error) {
	if h.dying {
		return nil, errDead
	}
	for _, name := range objects {
		i, err := strconv.Atoi(strings.TrimPrefix(name, "object "))
		if err != nil {
			return nil, err
		}
		values = append(values, fmt.Sprint("v", h.truths[i]))
	}
	return values, nil
}

func (h *ledgerMarket) fill(o order) []string {
	h.Helper()
	if o.buyer == "" {
		check.Must(h, check.Err(h.ledger.Raise(h.Context(), h.raise(o, nil))))
		return h.seen(Eps(h, o.at))
	}
	if o.buyer == seller {
		return h.changeTerms(o)
	}
	words := make([]string, len(h.truths))
	sale, err := h.ledger.Sell(h.Context(), h.sale(o))
	if all := new(api.RefusedError); o.key == refusedOutcome && errors.As(err, &all) {
		check.That(h, len(all.Refused)+all.Unlisted == len(words),
			"%d of %d objects are refused a level that is not for sale", len(all.Refused)+all.Unlisted, len(words))
		for _, r := range all.Refused {
			i := check.Value(strconv.Atoi(strings.TrimPrefix(r.Object, "object ")))(h)
			r.Object = ""
			words[i] = r.String()
		}
		return words
	}
	check.Must(h, err)
	for d, err := range h.ledger.Deliveries(h.Context(), sale.Number) {
		check.Must(h, err)
		i := check.Value(strconv.Atoi(strings.TrimPrefix(d.Object, "object ")))(h)
		words[i] = fmt.Sprint(d.Value, " by ", d.Method, " for ", d.Price)
	}
	return words
}

func (h *ledgerMarket) sale(o order) api.SellRequest {
	return api.SellRequest{
		Key: o.key, Truth: h.truth,
		Order: api.Order{Buyer: o.buyer, Question: question, Epsilon: Eps(h, o.at), All: true},
	}
}

func (h *ledgerMarket) raise(o order, progress func(done, total int)) api.RaiseRequest {
	return api.RaiseRequest{Key: o.key, Question: question, Epsilon: Eps(h, o.at), All: true, Truth: h.truth, Progress: progress}
}

// seen returns the responses at an ε that are readable now.
func (h *ledgerMarket) seen(at privacy.Epsilon) []string {
	h.Helper()
	words := make([]string, len(h.truths))
	for r, err := range h.ledger.Responses(h.Context(), question, at) {
		check.Must(h, err)
		i := check.Value(strconv.Atoi(strings.TrimPrefix(r.Object, "object ")))(h)
		words[i] = r.Value
	}
	return words
}

func (h *ledgerMarket) crash(o order, when moment) (words []string) {
	h.Helper()
	words = make([]string, len(h.truths))
	switch when {
	case asked:
		h.dying = true
		h.copyFiles()
		_, err := h.ledger.Sell(h.Context(), h.sale(o))
		check.Need(h, errors.Is(err, errDead), "a sale whose source of true values fails: %v", err)
		h.dying = false
	case done:
		check.Must(h, check.Err(h.ledger.Sell(h.Context(), h.sale(o))))
		h.copyFiles()
	case between:
		words = h.crashBetween(o)
	}
	h.reopen()
	return words
}

// crashBetween makes the host die after the first transaction of a raise.
func (h *ledgerMarket) crashBetween(o order) (words []string) {
	h.Helper()
	ctx, die := context.WithCancel(h.Context())
	defer die()
	_, err := h.ledger.Raise(ctx, h.raise(o, func(done, total int) {
		if words == nil && 0 < done && done < total {
			words = h.seen(Eps(h, o.at))
			h.copyFiles()
			die()
		}
	}))
	check.Need(h, words != nil && errors.Is(err, context.Canceled), "the raise was not interrupted: %v", err)
	return words
}

// crowd is the number of objects of a ledger: a raise of all takes two transactions.
const crowd = 6000

// longer is the factor by which the long form attacks more ledgers.
const longer = 300

// Ledgers of all kinds keep the promise: no coalition learns more than the highest ε that it has
// bought allows. The quick form attacks every second kind, others in each run.
func TestAttack_Ledgers_AreAccepted(t *testing.T) {
	all, step := kinds(t), testenv.Tries(2, 1, 1)
	for i := random.IntN(step); i < len(all); i += step {
		k := all[i]
		t.Run(k.name, func(t *testing.T) {
			tr := newTrial(t, mixedOrders, len(k.question.Values))
			for range testenv.Tries(1, k.files, k.files*longer) {
				lots := truths(crowd, len(k.question.Values))
				h := newLedgerMarket(t, k, lots)
				tr.run(h, lots)
				h.end()
			}
			tr.wantPrivate()
			if tr.values == 2 {
				t.Logf("%d objects: an excess of ε = %.2f would be found, if half of them show it", tr.objects, noticeable(tr.objects, 1.5, mostTests))
			}
		})
	}
}

// The attack finds a host that opens an older copy after a crash, and draws again. A host with a
// noise key may do so, because it draws the same responses.
func TestAttack_HostRolledBack_IsDetected(t *testing.T) {
	raises := attack{
		{order{"1", "", "1"}, between},
		{order{"1", "", "1"}, never},
	}
	for _, k := range kinds(t) {
		if k.question.Encoding != "" || k.question.Mechanism != nil || len(k.question.Values) != 2 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			tr, lots := newTrial(t, raises, 2), truths(crowd, 2)
			h := newLedgerMarket(t, k, lots)
			h.older = filepath.Join(h.dir, "older")
			check.Must(t, check.Err(h.ledger.Backup(t.Context(), h.older, nil)))
			tr.run(h, lots)
			h.end()
			if k.keyed {
				tr.wantPrivate()
			} else {
				tr.wantLeak()
			}
		})
	}
}
