package model

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Invariants 2 to 9 and 12 on random histories: the ledger against a model of it, in plain integers, with
// maps for memory. Every balance, level, price, refusal and answer must be the same.
//
//	rules_test.go    ceilings and prices, computed anew
//	paper_test.go    the ledger on paper
//	trade_test.go    the market on paper
//	host_test.go     the host: options, copies, checkpoints, and the file
//	moves_test.go    moves as data, made up from a seed
//	game_test.go     plays a move on both, and compares what comes of it
//	compare_test.go  compares the states
//	shrink_test.go   makes a game that fails short, and a test of it
//	bugs_test.go     what was found
//
// A game follows from its seed, draws included. One that fails is printed as a test, without the moves and arguments
// that do not matter.

// modelSeeds, in the environment, is how many games to play instead of the usual number, and modelFirst the
// seed of the first.
const (
	modelSeeds = "SLUICE_MODEL_SEEDS"
	modelFirst = "SLUICE_MODEL_FIRST"
)

// quickGames is how many games the quick form plays.
const quickGames = 200

func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestTheLedgerGoesAsOnPaper(t *testing.T) {
	seeds, first := fromEnvironment(modelSeeds, pace.Tries(quickGames, 4_000/pace.Step(20), 4_000)), fromEnvironment(modelFirst, 0)
	const tables = 4
	for n := range tables {
		t.Run(fmt.Sprint("table ", n+1), func(t *testing.T) {
			t.Parallel()
			games := newTable()
			for seed := first + n; seed < first+seeds && !t.Failed(); seed += tables {
				games.try(t, uint64(seed))
			}
			t.Logf("%d games, %d moves, %d copies restored, %d refused, %d responses drawn again from a key, %d changed truths told",
				games.games, games.moves, games.restores, games.rollbacks, games.repeats, games.turned)
		})
	}
}

// Games that chance makes too rarely.
func TestGamesOfNote(t *testing.T) {
	votes := func(buyer string, e int64) moveOrder { return moveOrder{buyer, "vote", []string{"ann"}, e} }
	wait := func(d time.Duration) move { return movePass{d} }
	strangers := []string{"ann", "mute"}
	for i := range 120 {
		strangers = append(strangers, fmt.Sprintf("a stranger %03d", i))
	}
	// As many reservations as one object may have, and two more; one is captured, and one cancelled.
	many := []move{moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: Boundless().Nano()}}
	for i := range 130 {
		many = append(many, moveReserve{votes(fmt.Sprint("buyer ", i%7), milli(int64(100+100*(i%3)))), 24 * time.Hour, false, unquoted, anything})
	}
	many = append(many, moveQuote{votes("acme", milli(500))}, moveSell{votes("acme", milli(500)), false, unquoted, anything, host{}}, moveCommit{0, false, host{}},
		moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything}, moveCancel{5}, moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything},
		moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything}, wait(48*time.Hour), moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything})
	for name, moves := range map[string][]move{
		"as many reservations as can be": many,
		// Each in the queue is served before the other, also when the clock has gone back.
		"a queue and a clock": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 9, Cap: Boundless().Nano()}, wait(8 * time.Hour),
			moveReserve{votes("acme", milli(300)), 24 * time.Hour, false, unquoted, anything},
			moveReserve{votes("bolt", milli(500)), 24 * time.Hour, false, unquoted, anything},
			wait(-3 * time.Hour), moveCommit{1, false, host{}}, moveCommit{0, false, host{}},
		},
		// A sweep finds that waiting helps with one question, and then spends on another what is left of the cap.
		"one cap for two calendars": {
			moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 6, Cap: milli(1000)}, moveEnroll{Question: "smoker", Objects: []string{"dot"}, Rule: 6},
			wait(6 * time.Hour), moveAnswer{Question: "vote", Query: "majority:yes", Epsilon: milli(100), AcceptLoss: true}, moveAdvance{},
		},
		// A calendar comes to what was raised by hand, and nobody is left who could tell.
		"a calendar that is late": {
			moveEnroll{Question: "vote", Objects: []string{"cid"}, Cap: milli(300)}, moveRaise{Question: "vote", Objects: []string{"cid"}, Epsilon: milli(300)},
			moveTerms{Question: "vote", Objects: []string{"cid"}, Rule: 11}, moveAdvance{Question: "vote"}, moveForget{Object: "cid"},
		},
		// What is reserved is sold after the market has closed.
		"a late payment": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 7, Cap: Boundless().Nano()},
			moveReserve{votes("acme", milli(300)), 24 * time.Hour, false, unquoted, anything},
			wait(2 * time.Hour), moveQuote{votes("acme", milli(300))}, moveCommit{0, false, host{}}, moveQuote{votes("acme", milli(300))},
		},
		// A table raises a cap in the row of a question that is new; what changes in another question comes before that.
		"a table with a new cap": {
			moveReconcile{Rows: []row{{Question: "smoker", Object: "new", Rule: 4, Cap: milli(300)}}},
			moveReconcile{Rows: []row{
				{Question: "vote", Object: "new", Rule: 4, Cap: milli(1000), Consent: "on file"}, {Question: "smoker", Object: "new", Rule: 20, Cap: milli(1000), Consent: "on file"}}},
		},
		// Of the shares that reserved orders will unlock, one can be relied on.
		"an order that does not come": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: Boundless().Nano()},
			moveSell{votes("cryo", milli(100)), false, unquoted, anything, host{}},
			moveReserve{votes("acme", milli(200)), time.Hour, false, unquoted, anything},
			moveReserve{votes("bolt", milli(500)), time.Hour, false, unquoted, anything},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(200), false, host{}, true},
			moveCancel{1}, moveCommit{0, false, host{}},
		},
		// Who withdraws is out of a reservation, also when enrolled again.
		"a change of mind": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: milli(500)},
			moveReserve{moveOrder{"acme", "vote", nil, milli(300)}, time.Hour, false, freshQuote, exactly},
			moveWithdraw{"ann"}, moveCommit{0, false, host{}}, moveEnroll{Question: "smoker", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0},
			moveSell{moveOrder{"bolt", "smoker", []string{"ann"}, milli(300)}, false, unquoted, anything, host{}},
			moveReturn{"vote", "ann"}, moveCommit{0, false, host{}}, moveCommit{0, true, host{}}, moveAgain{0, 9},
		},
		// Who is forgotten is out of a reservation without a name; and if that was everybody, nothing is left to sell.
		"nobody is left": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: milli(500)},
			moveReserve{votes("acme", milli(300)), time.Hour, false, unquoted, anything},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(200)}, time.Hour, false, unquoted, anything},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveCommit{1, false, host{}}, moveCommit{1, true, host{}},
			moveCommit{0, false, host{}}, moveCommit{0, true, host{}}, moveAgain{0, 9}, moveForget{"bob"}, moveAgain{1, 9},
		},
		// What was spent stays spent, and what was sold is sold anew, at the full price, up to the old ceiling.
		"a new beginning": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: milli(1000)},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveRelease{"vote", "ann", milli(100), host{}},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(10), false, host{}, true},
			moveForget{"ann"}, moveAgain{2, 9}, moveAgain{0, 9}, moveForget{"ann"},
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0}, moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: milli(900)}, moveReturn{"vote", "ann"},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{Lies: true}},
			moveSell{votes("bolt", milli(200)), false, unquoted, anything, host{Lies: true}},
			moveSell{votes("acme", milli(700)), false, unquoted, anything, host{Lies: true}},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(10), false, host{Lies: true}, true},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveQuote{votes("acme", 1)},
		},
		// Answers are raised for the difference, until somebody is forgotten; then they begin anew.
		"answers that rise": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob", "cid"}, Rule: 0, Cap: milli(1000)},
			moveAnswer{"vote", "majority:yes", nil, milli(100), false, host{}, true},
			moveAnswer{"vote", "majority:yes", nil, milli(300), false, host{}, true},
			moveAnswer{"vote", "majority:yes", []string{"bob", "cid", "ann"}, milli(200), false, host{}, true},
			moveAnswer{"vote", "majority:yes", nil, milli(600), true, host{}, true},
			moveAnswer{"vote", "majority:yes", nil, milli(400), true, host{}, true},
			moveWithdraw{"ann"}, moveAnswer{"vote", "majority:yes", []string{"ann", "bob", "cid"}, milli(400), false, host{}, true},
			moveReturn{"vote", "ann"}, moveAnswer{"vote", "majority:yes", nil, milli(350), false, host{}, true},
			moveForget{"bob"}, moveReturn{"vote", "bob"}, moveAnswer{"vote", "majority:yes", nil, milli(50), false, host{}, true},
			moveAnswer{"vote", "majority:yes", nil, milli(360), false, host{}, true},
			moveEnroll{Question: "vote", Objects: []string{"dan", "eve"}, Rule: 0, Cap: 0},
			moveAnswer{"vote", "majority:no", []string{"dan", "eve"}, milli(100), false, host{}, true},
			moveForget{"dan"}, moveReturn{"vote", "dan"},
			moveAnswer{"vote", "majority:no", []string{"dan", "eve"}, milli(50), false, host{}, true},
			moveAnswer{"vote", "majority:no", []string{"dan", "eve"}, milli(200), false, host{}, true},
			moveAnswer{"vote", "majority:no", []string{"dan", "eve"}, milli(150), false, host{}, true},
			moveAnswer{"vote", "majority:no", []string{"dan", "eve"}, milli(300), false, host{}, true},
			moveAgain{1, 9}, moveForget{"eve"}, moveAgain{1, 9},
		},
		// What a request says of several is erased with one of them, or with anybody if one of them needed nothing: other
		// names, terms and quotes with its key are the same request then.
		"other names with a key": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: milli(1000)}, moveAgain{0, 4},
			moveEnroll{Question: "vote", Objects: []string{"ann", "cid"}, Rule: firstMarket, Cap: milli(1000)}, moveAgain{0, 4},
			moveEnroll{Question: "vote", Objects: []string{"ann", "dan"}, Rule: firstMarket, Other: firstMarket, Cap: milli(1000), Partial: true}, moveAgain{0, 0}, moveAgain{0, 4},
			moveSell{moveOrder{"acme", "vote", []string{"ann", "dan"}, milli(300)}, false, freshQuote, anything, host{}}, moveAgain{0, 3}, moveAgain{0, 6},
			moveEnroll{Question: "vote", Objects: []string{"eve"}, Rule: 0, Cap: 0}, moveForget{"eve"},
			moveAgain{5, 4}, moveAgain{4, 4}, moveAgain{3, 0}, moveAgain{3, 2}, moveAgain{3, 3}, moveAgain{3, 4}, moveAgain{2, 3}, moveAgain{2, 6},
			moveForget{"dan"}, moveAgain{3, 1}, moveAgain{3, 3}, moveAgain{3, 5}, moveAgain{3, 6}, moveAgain{6, 4},
			moveForget{"bob"}, moveAgain{7, 4}, moveAgain{7, 3},
		},
		// The first hundred are listed, and all are counted.
		"more refused than are listed": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "mute"}, Rule: firstMarket, Cap: milli(1000)},
			moveQuote{moveOrder{"acme", "vote", strangers, milli(100)}}, moveRaise{"vote", strangers, milli(100), false, host{}},
			moveSell{moveOrder{"acme", "vote", strangers, milli(100)}, false, freshQuote, anything, host{}},
			moveReserve{Order: moveOrder{"acme", "vote", strangers, milli(100)}, For: time.Hour},
			moveAnswer{"vote", "majority:yes", strangers, milli(100), false, host{}, true},
			moveTerms{Question: "vote", Objects: strangers, Cap: milli(900)},
			moveSell{moveOrder{"acme", "vote", strangers, milli(100)}, true, unquoted, anything, host{}},
			moveAnswer{"vote", "majority:yes", strangers, milli(100), true, host{}, true},
			moveAnswer{"vote", "majority:yes", strangers, milli(100), true, host{}, true},
		},
		// A question of two values has scores for all queries, and a threshold beyond all counts has none.
		"answers that do not rise": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: 0, Cap: 0}, moveEnroll{Question: "smoker", Objects: []string{"ann", "bob"}, Rule: 0, Cap: 0},
			moveAnswer{"vote", "plurality", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "plurality", nil, milli(200), false, host{}, true},
			moveAnswer{"smoker", "plurality", nil, milli(100), false, host{}, true}, moveAnswer{"smoker", "plurality", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:3", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:3", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:2", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:2", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:0", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:0", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:3", nil, milli(150), false, host{}, true}, moveAnswer{"vote", "threshold:yes:3", nil, milli(300), true, host{}, true},
		},
		// Ceilings between the levels of a mechanism release the level below; orders between levels are invalid.
		"levels of a mechanism": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: 10, Cap: milli(1300) + 1}, moveAdvance{"", host{}},
			wait(3 * time.Hour), moveAdvance{"vote", host{}}, moveRaise{"vote", []string{"bob"}, milli(200), true, host{}},
			moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: firstMarket, Cap: 0}, moveSell{moveOrder{"acme", "vote", []string{"cid"}, milli(500)}, false, freshQuote, exactly, host{}},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(700)}, time.Hour, true, unquoted, anything},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(1000)}, time.Hour, true, freshQuote, exactly}, moveCommit{0, true, host{}},
			moveEstimate{"vote", 0, ""}, moveEstimate{"vote", milli(200), ""}, moveEstimate{"vote", milli(300), "ann"},
			wait(24 * time.Hour), moveReopen{}, moveRelease{"vote", "ann", milli(300), host{}}, moveAdvance{"", host{}},
			wait(300 * time.Hour), moveAdvance{"", host{Lies: true}}, moveAdvance{"", host{}}, moveEstimate{"vote", 0, "cid"}, moveAgain{2, 1},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveRelease{"vote", "ann", milli(100), host{}}, moveEstimate{"vote", 0, ""},
		},
		// Chains whose noise key is lost resell what they have released, and advance no further. Whoever comes back keeps the
		// key, unless forgotten.
		"a lost key": {
			moveReopen{opening{Noise: "2025"}}, moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket + 9, Cap: Boundless().Nano()},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveReopen{opening{Noise: "2026", Lost: "2025", Wrong: true}}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: firstMarket + 9, Cap: Boundless().Nano()},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(500)}, time.Hour, true, freshQuote, exactly}, moveCommit{0, true, host{}},
			moveSell{votes("bolt", milli(300)), false, freshQuote, exactly, host{}}, moveSell{votes("bolt", milli(100)), false, unquoted, anything, host{}},
			wait(24 * time.Hour), moveAdvance{"", host{}}, moveWithdraw{"ann"}, moveForget{"bob"}, moveReturn{"vote", "ann"}, moveReturn{"vote", "bob"},
			moveRaise{"vote", nil, milli(700), true, host{}}, moveReopen{opening{Noise: pastNoise}}, moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 0, Cap: 0},
			moveRaise{"vote", nil, milli(1000), true, host{}}, moveReopen{}, moveEnroll{Question: "smoker", Objects: []string{"ann"}, Rule: 0, Cap: 0}, moveAgain{1, 9}, moveAgain{2, 1},
		},
		// Without the truth key nothing is drawn from the truth of who began with it.
		"a truth key kept back": {
			moveReopen{opening{Truth: truthGiven}}, moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 9, Cap: Boundless().Nano()}, moveRelease{"vote", "ann", milli(300), host{}},
			moveReopen{opening{Truth: truthKept, Wrong: true}}, moveEnroll{Question: "vote", Objects: []string{"bob"}, Rule: 0, Cap: 0}, moveRelease{"vote", "bob", milli(100), host{}},
			moveSell{votes("acme", milli(500)), false, unquoted, anything, host{}}, moveSell{votes("acme", milli(100)), false, unquoted, anything, host{}},
			wait(24 * time.Hour), moveAdvance{"", host{}}, moveAnswer{"vote", "majority:yes", nil, milli(100), true, host{}, true},
			moveReopen{opening{Truth: truthGiven}}, moveRelease{"vote", "bob", milli(300), host{Lies: true}}, moveAdvance{"", host{Lies: true}}, moveAdvance{"", host{}},
		},
		// Who only reads reads everything, needs no key, and changes nothing.
		"a reader": {
			moveReopen{opening{Noise: "2025"}}, moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: 0}, moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveReopen{opening{Truth: truthKept, Signing: publishing, ReadOnly: true}}, moveQuote{votes("bolt", milli(500))}, moveAgain{0, 9}, moveAgain{0, 1},
			moveSell{votes("bolt", milli(500)), false, freshQuote, exactly, host{}}, moveForget{"ann"}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: 0, Cap: 0}, moveWithdraw{"bob"},
			moveRelease{"vote", "ann", milli(300), host{}}, moveAdvance{"", host{}}, moveAnswer{"vote", "winner", nil, milli(100), false, host{}, true},
			moveEstimate{"vote", 0, ""}, moveCopy{}, moveCompact{}, moveCheckpoint{}, moveReopen{opening{Noise: "2025"}}, moveQuote{votes("bolt", milli(500))},
		},
		// A clock far ahead of the log changes nothing, whether it was confirmed up to a time before or the log was set back.
		"a clock that leaps": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: 0}, moveRelease{"vote", "ann", milli(100), host{}}, moveCopy{},
			moveLeap{true}, wait(time.Hour), moveRelease{"vote", "ann", milli(300), host{}}, moveRaise{"vote", []string{"mute"}, milli(100), false, host{}},
			moveSell{votes("acme", milli(300)), false, freshQuote, exactly, host{}}, moveAdvance{"", host{}}, moveForget{"bob"}, moveAgain{0, 9}, moveAgain{0, 1},
			moveAnswer{"vote", "winner", nil, milli(100), false, host{}, true}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: 0, Cap: 0}, moveReopen{opening{Noise: "2025"}},
			moveSell{votes("acme", milli(300)), false, freshQuote, exactly, host{}}, moveLeap{true}, moveForget{"bob"}, moveRestore{0, opening{Noise: "2026"}, false},
			wait(time.Hour), moveRelease{"vote", "bob", milli(300), host{}}, wait(-time.Hour), moveRelease{"vote", "bob", milli(300), host{}},
		},
		// Somebody who was refused before anybody enrolled it.
		"a stranger": {
			moveForget{"new"},
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0},
			moveSell{moveOrder{"acme", "vote", []string{"ann", "new"}, milli(300)}, true, unquoted, anything, host{}},
			moveForget{"new"}, moveAgain{1, 9}, moveForget{"new"},
			moveRaise{"vote", []string{"ann", "new"}, milli(400), true, host{}},
			moveEnroll{Question: "vote", Objects: []string{"new"}, Rule: firstMarket, Cap: 0}, moveForget{"new"}, moveAgain{1, 9}, moveReturn{"vote", "new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) { // with votes in direct encoding, in unary, as the ledger picks, and with a mechanism
				if failure := newTable().play(t, seed, moves); failure != "" {
					t.Errorf("seed %d: %s", seed, failure)
				}
			}
		})
	}
}

// TestWhatWasLostComesAgain goes back to a copy. The newest checkpoint refuses it; and what was drawn since is drawn again,
// by a noise key as it was, in another order.
func TestWhatWasLostComesAgain(t *testing.T) {
	keyed := opening{Noise: "2025", Signing: publishing, Trusting: true}
	lost := []move{
		moveRelease{"vote", "ann", milli(300), host{}}, moveSell{moveOrder{"acme", "vote", []string{"ann", "bob"}, milli(500)}, false, freshQuote, exactly, host{}},
		moveRelease{"smoker", "bob", milli(100), host{}}, moveSell{moveOrder{"bolt", "vote", nil, milli(100)}, true, unquoted, anything, host{}},
	}
	moves := []move{moveReopen{keyed}, moveEnroll{Question: "vote", Objects: people(), Rule: firstMarket, Cap: Boundless().Nano()}, moveEnroll{Question: "smoker", Objects: people(), Rule: 0, Cap: 0}, moveCopy{}}
	moves = append(append(moves, lost...), moveRestore{0, keyed, true})
	slices.Reverse(lost)
	moves = append(moves, lost...)
	for seed, onDisk := range map[uint64]bool{1: false, 2: false, realFiles - 1: true} { // with votes in unary, and in direct encoding
		b := newTable()
		if failure := b.play(t, seed, moves); failure != "" || b.hasFile(seed) != onDisk {
			t.Errorf("seed %d: %s", seed, failure)
		}
		// Four of the last sale, which draws for who is derived before, and of the others two, one and one.
		if b.restores != 1 || b.rollbacks != 1 || b.repeats != 8 {
			t.Errorf("seed %d: %d copies restored, %d refused, %d responses drawn again", seed, b.restores, b.rollbacks, b.repeats)
		}
	}
}

// By which key a chain is drawn is noticed at the end of a game, if not before.
func TestAnotherNoiseKeyIsNoticed(t *testing.T) {
	moves := []move{moveReopen{opening{Noise: "2025"}}, moveReopen{opening{Noise: "2026"}}, moveEnroll{Question: "vote", Objects: []string{"bob"}, Rule: 0, Cap: milli(1000)}}
	for _, name := range []string{"", "2025"} {
		b := newTable()
		b.flaw = func(g *game, one move) {
			if _, ok := one.(moveEnroll); ok {
				g.paper.chain("vote", "bob").noise = name
			}
		}
		if failure := b.play(t, 0, moves); !strings.Contains(failure, string(api.NoNoiseKey)) {
			t.Errorf("the key %q instead: %s", name, failure)
		}
	}
}

// table is where games are played one after the other. It keeps what takes time to compute.
type table struct {
	random       *rand.ChaCha8
	fills        int
	bits         *exact.Bits
	draws        ledgertest.Draws
	games, moves int

	restores, rollbacks int // copies restored, and older copies that a checkpoint refused
	repeats             int // responses that a noise key has drawn again
	turned              int // people whose changed truth the host was told of

	flaw func(*game, move) // a planted fault: what is done to the paper, or to the ledger, after a move
}

func newTable() *table {
	b := &table{}
	b.bits = exact.ReplayBits(func(p []byte) {
		b.fills++
		_, _ = b.random.Read(p)
	})
	b.draws = ledgertest.Draws{Values: &rrchain.Sampler{Random: b.bits}, Outputs: &finite.Sampler{Random: b.bits}, Queries: &mechanism.Sampler{Random: b.bits}}
	return b
}

// shuffle begins the random bits of a game, and throws away those that the last one left.
func (b *table) shuffle(seed uint64) {
	b.random = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	for before := b.fills; b.fills == before; {
		b.bits.Uint64()
	}
}

// try plays the game of a seed. If it fails, it reports the shortest one that fails in the same way, as a test.
func (b *table) try(t *testing.T, seed uint64) {
	moves := newMoves(seed, 10+int(seed%50))
	failure := b.play(t, seed, moves)
	if failure == "" {
		return
	}
	short := b.shrink(t, seed, moves, wayOf(failure))
	t.Errorf("in the game of seed %d (%s=1 %s=%d):\n\t%s\nIn short:\n\n%s\n\t%s",
		seed, modelSeeds, modelFirst, seed, failure, inGo(seed, short, failure), cmp.Or(b.play(t, seed, short), "(nothing)"))
}

// shrink returns the shortest game found that fails in a way.
func (b *table) shrink(t *testing.T, seed uint64, moves []move, way string) []move {
	return shrink(moves, shrinkTries, func(other []move) bool {
		failure := b.play(t, seed, other)
		return failure != "" && wayOf(failure) == way
	})
}

// realFiles is how many games go without one on a real file.
const realFiles = 67

// hasFile tells whether the game of a seed is played on a real file.
func (b *table) hasFile(seed uint64) bool { return seed%realFiles == realFiles-1 }

// isServed tells whether the ledger of a game is called over HTTP.
func isServed(seed uint64) bool { return seed%5 == 3 }

// documented is how many games go without one that ends with everybody's receipts and statements.
const documented = 5

// play plays moves and returns in what the ledger differs from the paper, or "".
func (b *table) play(t *testing.T, seed uint64, moves []move) (failure string) {
	w := &witness{TB: t}
	defer func() {
		if fault := recover(); fault != nil && fault != w {
			w.Errorf("panic: %v\n%s", fault, debug.Stack())
		}
		failure = w.failure
	}()
	g := &game{TB: w, table: b, paper: newPaper(), keyedAtFirst: seed%2 == 0, offers: map[string]paperQuote{}, ids: map[paperQuote]string{}, keyedDraws: map[string]string{}, served: isServed(seed)}
	b.shuffle(seed)
	g.shelf = newShelf(g, b.hasFile(seed), g.signs())
	g.open(opening{})
	defer func() { _ = g.opened.Close() }()
	for _, q := range questions(seed) {
		g.define(q)
		g.moves++
	}
	for _, one := range moves {
		g.play(one)
		b.moves++
	}
	g.play(moveReopen{})
	g.compareState()
	g.compareLog()
	g.compareNoise()
	if seed%documented == 0 {
		g.compareEvidence()
	}
	g.verify()
	b.games++
	return ""
}

// witness notes the first failure of a game instead of ending the test.
type witness struct {
	testing.TB
	failure string
}

func (w *witness) Helper()      {}
func (w *witness) Failed() bool { return w.failure != "" }

func (w *witness) Errorf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	panic(w)
}

func (w *witness) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }
func (w *witness) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }
