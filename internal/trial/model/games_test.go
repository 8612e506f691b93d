package model

import (
	"cmp"
	"fmt"
	"go/ast"
	gofmt "go/format"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Invariants 2 to 9 and 12 on random histories: the ledger is compared with a model of it. Every
// balance, level, price, refusal and answer must be the same.
//
//	model_rules_test.go    ceilings and prices, computed again
// model_test.go the model of the ledger
//	model_market_test.go   the model of the market
// host_test.go the host: options, copies, checkpoints, and the file
//	game_test.go           moves, invented from a seed and played on both
//	games_test.go          compares the states, and shortens games that fail
// notes_test.go games that random moves make too rarely
//
// A game follows from its seed, draws included. A game that fails is printed as a test, without the
// moves and arguments that do not matter.

// Variables of the environment: modelSeeds is the number of games to play, and modelFirst the seed
// of the first one.
const (
	modelSeeds = "SLUICE_MODEL_SEEDS"
	modelFirst = "SLUICE_MODEL_FIRST"
)

// quickGames is the number of games in the quick form.
const quickGames = 200

func fromEnvironment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestGames_RandomMoves_MatchTheModel(t *testing.T) {
	seeds, first := fromEnvironment(modelSeeds, testenv.Tries(quickGames, 4_000/testenv.Step(20), 4_000)), fromEnvironment(modelFirst, 0)
	const runners = 4
	for n := range runners {
		t.Run(fmt.Sprint("runner ", n+1), func(t *testing.T) {
			t.Parallel()
			games := newRunner()
			for seed := first + n; seed < first+seeds && !t.Failed(); seed += runners {
				games.try(t, uint64(seed))
			}
			t.Logf("%d games, %d moves, %d copies restored, %d refused, %d responses drawn again from a key, %d changed true values",
				games.games, games.moves, games.restores, games.rollbacks, games.repeats, games.turned)
		})
	}
}

// Games that random moves make too rarely end as the model predicts.
func TestGames_RareSequences_MatchTheModel(t *testing.T) {
	votes := func(buyer string, e int64) moveOrder { return moveOrder{buyer, "vote", []string{"ann"}, e} }
	wait := func(d time.Duration) move { return movePass{d} }
	strangers := []string{"ann", "mute"}
	for i := range 120 {
		strangers = append(strangers, fmt.Sprintf("a stranger %03d", i))
	}
	// The largest number of reservations of one object, and two more. One is captured, and one
	// cancelled.
	many := []move{moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: NoCap().Nano()}}
	for i := range 130 {
		many = append(many, moveReserve{votes(fmt.Sprint("buyer ", i%7), milli(int64(100+100*(i%3)))), 24 * time.Hour, false, unquoted, anything})
	}
	many = append(many, moveQuote{votes("acme", milli(500))}, moveSell{votes("acme", milli(500)), false, unquoted, anything, host{}}, moveCommit{0, false, host{}},
		moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything}, moveCancel{5}, moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything},
		moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything}, wait(48*time.Hour), moveReserve{votes("bolt", milli(300)), time.Hour, false, unquoted, anything})
	games := map[string][]move{
		"as many reservations as can be": many,
		// Each buyer in the queue is served before the other, also after the clock has gone back.
		"a queue and a clock": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 9, Cap: NoCap().Nano()}, wait(8 * time.Hour),
			moveReserve{votes("acme", milli(300)), 24 * time.Hour, false, unquoted, anything},
			moveReserve{votes("bolt", milli(500)), 24 * time.Hour, false, unquoted, anything},
			wait(-3 * time.Hour), moveCommit{1, false, host{}}, moveCommit{0, false, host{}},
		},
		// A sweep finds that waiting helps with one question, and then spends the rest of the cap
		// on another.
		"one cap for two calendars": {
			moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 6, Cap: milli(1000)}, moveEnroll{Question: "smoker", Objects: []string{"dot"}, Rule: 6},
			wait(6 * time.Hour), moveAnswer{Question: "vote", Query: "majority:yes", Epsilon: milli(100), AcceptLoss: true}, moveAdvance{},
		},
		// A calendar reaches a level that was raised manually, and no object is left for which it
		// could be drawn.
		"a calendar that is late": {
			moveEnroll{Question: "vote", Objects: []string{"cid"}, Cap: milli(300)}, moveRaise{Question: "vote", Objects: []string{"cid"}, Epsilon: milli(300)},
			moveTerms{Question: "vote", Objects: []string{"cid"}, Rule: 11}, moveAdvance{Question: "vote"}, moveForget{Object: "cid"},
		},
		// A reservation is captured after the market has closed.
		"a late payment": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 7, Cap: NoCap().Nano()},
			moveReserve{votes("acme", milli(300)), 24 * time.Hour, false, unquoted, anything},
			wait(2 * time.Hour), moveQuote{votes("acme", milli(300))}, moveCommit{0, false, host{}}, moveQuote{votes("acme", milli(300))},
		},
		// A table raises a cap in the row of a new question. Changes of other questions come before
		// that.
		"a table with a new cap": {
			moveReconcile{Rows: []row{{Question: "smoker", Object: "new", Rule: 4, Cap: milli(300)}}},
			moveReconcile{Rows: []row{
				{Question: "vote", Object: "new", Rule: 4, Cap: milli(1000), Consent: "on file"}, {Question: "smoker", Object: "new", Rule: 20, Cap: milli(1000), Consent: "on file"}}},
		},
		// Of the shares that reserved orders will unlock, one counts.
		"an order that does not come": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: NoCap().Nano()},
			moveSell{votes("cryo", milli(100)), false, unquoted, anything, host{}},
			moveReserve{votes("acme", milli(200)), time.Hour, false, unquoted, anything},
			moveReserve{votes("bolt", milli(500)), time.Hour, false, unquoted, anything},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(200), false, host{}, true},
			moveCancel{1}, moveCommit{0, false, host{}},
		},
		// An object that withdraws is removed from a reservation, even if it is enrolled again.
		"a change of mind": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: milli(500)},
			moveReserve{moveOrder{"acme", "vote", nil, milli(300)}, time.Hour, false, freshQuote, exactly},
			moveWithdraw{"ann"}, moveCommit{0, false, host{}}, moveEnroll{Question: "smoker", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0},
			moveSell{moveOrder{"bolt", "smoker", []string{"ann"}, milli(300)}, false, unquoted, anything, host{}},
			moveReturn{"vote", "ann"}, moveCommit{0, false, host{}}, moveCommit{0, true, host{}}, moveAgain{0, 9},
		},
		// A forgotten object is removed from a reservation without its name. If no object is left,
		// nothing can be sold.
		"no object is left": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: milli(500)},
			moveReserve{votes("acme", milli(300)), time.Hour, false, unquoted, anything},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(200)}, time.Hour, false, unquoted, anything},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveCommit{1, false, host{}}, moveCommit{1, true, host{}},
			moveCommit{0, false, host{}}, moveCommit{0, true, host{}}, moveAgain{0, 9}, moveForget{"bob"}, moveAgain{1, 9},
		},
		// What was spent stays spent. What was sold is sold again at the full price, up to the old
		// ceiling.
		"a new beginning": {
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: milli(1000)},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveRelease{"vote", "ann", milli(100), host{}},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(10), false, host{}, true},
			moveForget{"ann"}, moveAgain{2, 9}, moveAgain{0, 9}, moveForget{"ann"},
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0}, moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 8, Cap: milli(900)}, moveReturn{"vote", "ann"},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{IsLying: true}},
			moveSell{votes("bolt", milli(200)), false, unquoted, anything, host{IsLying: true}},
			moveSell{votes("acme", milli(700)), false, unquoted, anything, host{IsLying: true}},
			moveAnswer{"vote", "winner", []string{"ann"}, milli(10), false, host{IsLying: true}, true},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveQuote{votes("acme", 1)},
		},
		// Answers are raised for the difference until an object is forgotten. Then they begin
		// again.
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
		// What a request records about several objects is erased if one of them is forgotten, or
		// any object if one of them needed nothing. Then other names, terms and quotes with its key
		// are the same request.
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
		// The first hundred refusals are listed, and all are counted.
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
		// A question with two values has scores for all queries. A threshold above all counts has
		// none.
		"answers that do not rise": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: 0, Cap: 0}, moveEnroll{Question: "smoker", Objects: []string{"ann", "bob"}, Rule: 0, Cap: 0},
			moveAnswer{"vote", "plurality", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "plurality", nil, milli(200), false, host{}, true},
			moveAnswer{"smoker", "plurality", nil, milli(100), false, host{}, true}, moveAnswer{"smoker", "plurality", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:3", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:3", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:2", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:2", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:0", nil, milli(100), false, host{}, true}, moveAnswer{"vote", "threshold:yes:0", nil, milli(200), false, host{}, true},
			moveAnswer{"vote", "threshold:yes:3", nil, milli(150), false, host{}, true}, moveAnswer{"vote", "threshold:yes:3", nil, milli(300), true, host{}, true},
		},
		// A ceiling between the levels of a mechanism releases the level below. Orders between
		// levels are invalid.
		"levels of a mechanism": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: 10, Cap: milli(1300) + 1}, moveAdvance{"", host{}},
			wait(3 * time.Hour), moveAdvance{"vote", host{}}, moveRaise{"vote", []string{"bob"}, milli(200), true, host{}},
			moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: firstMarket, Cap: 0}, moveSell{moveOrder{"acme", "vote", []string{"cid"}, milli(500)}, false, freshQuote, exactly, host{}},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(700)}, time.Hour, true, unquoted, anything},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(1000)}, time.Hour, true, freshQuote, exactly}, moveCommit{0, true, host{}},
			moveEstimate{"vote", 0, ""}, moveEstimate{"vote", milli(200), ""}, moveEstimate{"vote", milli(300), "ann"},
			wait(24 * time.Hour), moveReopen{}, moveRelease{"vote", "ann", milli(300), host{}}, moveAdvance{"", host{}},
			wait(300 * time.Hour), moveAdvance{"", host{IsLying: true}}, moveAdvance{"", host{}}, moveEstimate{"vote", 0, "cid"}, moveAgain{2, 1},
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveRelease{"vote", "ann", milli(100), host{}}, moveEstimate{"vote", 0, ""},
		},
		// Chains whose noise key is lost resell what they have released, and advance no further. An
		// object that returns keeps its key, unless it was forgotten.
		"a lost key": {
			moveReopen{opening{Noise: "2025"}}, moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket + 9, Cap: NoCap().Nano()},
			moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveReopen{opening{Noise: "2026", Lost: "2025", Wrong: true}}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: firstMarket + 9, Cap: NoCap().Nano()},
			moveReserve{moveOrder{"bolt", "vote", nil, milli(500)}, time.Hour, true, freshQuote, exactly}, moveCommit{0, true, host{}},
			moveSell{votes("bolt", milli(300)), false, freshQuote, exactly, host{}}, moveSell{votes("bolt", milli(100)), false, unquoted, anything, host{}},
			wait(24 * time.Hour), moveAdvance{"", host{}}, moveWithdraw{"ann"}, moveForget{"bob"}, moveReturn{"vote", "ann"}, moveReturn{"vote", "bob"},
			moveRaise{"vote", nil, milli(700), true, host{}}, moveReopen{opening{Noise: pastNoise}}, moveEnroll{Question: "vote", Objects: []string{"dot"}, Rule: 0, Cap: 0},
			moveRaise{"vote", nil, milli(1000), true, host{}}, moveReopen{}, moveEnroll{Question: "smoker", Objects: []string{"ann"}, Rule: 0, Cap: 0}, moveAgain{1, 9}, moveAgain{2, 1},
		},
		// Without the truth key, nothing is drawn from true values of chains that began with it.
		"a truth key kept back": {
			moveReopen{opening{Truth: truthGiven}}, moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket + 9, Cap: NoCap().Nano()}, moveRelease{"vote", "ann", milli(300), host{}},
			moveReopen{opening{Truth: truthKept, Wrong: true}}, moveEnroll{Question: "vote", Objects: []string{"bob"}, Rule: 0, Cap: 0}, moveRelease{"vote", "bob", milli(100), host{}},
			moveSell{votes("acme", milli(500)), false, unquoted, anything, host{}}, moveSell{votes("acme", milli(100)), false, unquoted, anything, host{}},
			wait(24 * time.Hour), moveAdvance{"", host{}}, moveAnswer{"vote", "majority:yes", nil, milli(100), true, host{}, true},
			moveReopen{opening{Truth: truthGiven}}, moveRelease{"vote", "bob", milli(300), host{IsLying: true}}, moveAdvance{"", host{IsLying: true}}, moveAdvance{"", host{}},
		},
		// A read-only ledger reads everything, needs no key, and changes nothing.
		"a reader": {
			moveReopen{opening{Noise: "2025"}}, moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: 0}, moveSell{votes("acme", milli(300)), false, unquoted, anything, host{}},
			moveReopen{opening{Truth: truthKept, Signing: publishing, ReadOnly: true}}, moveQuote{votes("bolt", milli(500))}, moveAgain{0, 9}, moveAgain{0, 1},
			moveSell{votes("bolt", milli(500)), false, freshQuote, exactly, host{}}, moveForget{"ann"}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: 0, Cap: 0}, moveWithdraw{"bob"},
			moveRelease{"vote", "ann", milli(300), host{}}, moveAdvance{"", host{}}, moveAnswer{"vote", "winner", nil, milli(100), false, host{}, true},
			moveEstimate{"vote", 0, ""}, moveCopy{}, moveCompact{}, moveCheckpoint{}, moveReopen{opening{Noise: "2025"}}, moveQuote{votes("bolt", milli(500))},
		},
		// A clock far ahead of the log changes nothing, both if it was confirmed up to an earlier
		// time and if the log was restored.
		"a clock that leaps": {
			moveEnroll{Question: "vote", Objects: []string{"ann", "bob"}, Rule: firstMarket, Cap: 0}, moveRelease{"vote", "ann", milli(100), host{}}, moveCopy{},
			moveLeap{true}, wait(time.Hour), moveRelease{"vote", "ann", milli(300), host{}}, moveRaise{"vote", []string{"mute"}, milli(100), false, host{}},
			moveSell{votes("acme", milli(300)), false, freshQuote, exactly, host{}}, moveAdvance{"", host{}}, moveForget{"bob"}, moveAgain{0, 9}, moveAgain{0, 1},
			moveAnswer{"vote", "winner", nil, milli(100), false, host{}, true}, moveEnroll{Question: "vote", Objects: []string{"cid"}, Rule: 0, Cap: 0}, moveReopen{opening{Noise: "2025"}},
			moveSell{votes("acme", milli(300)), false, freshQuote, exactly, host{}}, moveLeap{true}, moveForget{"bob"}, moveRestore{0, opening{Noise: "2026"}, false},
			wait(time.Hour), moveRelease{"vote", "bob", milli(300), host{}}, wait(-time.Hour), moveRelease{"vote", "bob", milli(300), host{}},
		},
		// An object was refused before it was enrolled.
		"a stranger": {
			moveForget{"new"},
			moveEnroll{Question: "vote", Objects: []string{"ann"}, Rule: firstMarket, Cap: 0},
			moveSell{moveOrder{"acme", "vote", []string{"ann", "new"}, milli(300)}, true, unquoted, anything, host{}},
			moveForget{"new"}, moveAgain{1, 9}, moveForget{"new"},
			moveRaise{"vote", []string{"ann", "new"}, milli(400), true, host{}},
			moveEnroll{Question: "vote", Objects: []string{"new"}, Rule: firstMarket, Cap: 0}, moveForget{"new"}, moveAgain{1, 9}, moveReturn{"vote", "new"},
		},
	}
	for _, more := range []func() map[string][]move{notedRequests, notedCalendars, notedAnswers, notedEpochs, notedMarkets, notedTables} {
		maps.Copy(games, more())
	}
	for name, moves := range games {
		t.Run(name, func(t *testing.T) {
			// With votes in direct encoding, in unary, in the default encoding, with a mechanism
			// and over HTTP, and in a file.
			for _, seed := range []uint64{0, 1, 2, 3, realFiles - 1} {
				failure := newRunner().play(t, seed, moves)
				check.That(t, failure == "", "seed %d: %s", seed, failure)
			}
		})
	}
}

// The ledger is restored from a copy. The newest checkpoint refuses it, and what was drawn since is
// drawn again: the same from a noise key, in another order.
func TestRestore_NoiseKey_DrawsTheSameAgain(t *testing.T) {
	keyed := opening{Noise: "2025", Signing: publishing, Trusting: true}
	lost := []move{
		moveRelease{"vote", "ann", milli(300), host{}}, moveSell{moveOrder{"acme", "vote", []string{"ann", "bob"}, milli(500)}, false, freshQuote, exactly, host{}},
		moveRelease{"smoker", "bob", milli(100), host{}}, moveSell{moveOrder{"bolt", "vote", nil, milli(100)}, true, unquoted, anything, host{}},
	}
	moves := []move{moveReopen{keyed}, moveEnroll{Question: "vote", Objects: people(), Rule: firstMarket, Cap: NoCap().Nano()}, moveEnroll{Question: "smoker", Objects: people(), Rule: 0, Cap: 0}, moveCopy{}}
	moves = append(append(moves, lost...), moveRestore{0, keyed, true})
	slices.Reverse(lost)
	moves = append(moves, lost...)
	for seed, onDisk := range map[uint64]bool{1: false, 2: false, realFiles - 1: true} { // with votes in unary, and in direct encoding
		b := newRunner()
		failure := b.play(t, seed, moves)
		check.That(t, failure == "" && b.hasFile(seed) == onDisk, "seed %d: %s", seed, failure)
		// Four of the last sale, which draws for objects derived before; and two, one and one of
		// the others.
		check.That(t, b.restores == 1 && b.rollbacks == 1 && b.repeats == 8,
			"seed %d: %d copies restored, %d refused, %d responses drawn again", seed, b.restores, b.rollbacks, b.repeats)
	}
}

// A wrong noise key of a chain is found at the end of a game, if not before.
func TestGame_WrongNoiseKeyInModel_IsDetected(t *testing.T) {
	moves := []move{moveReopen{opening{Noise: "2025"}}, moveReopen{opening{Noise: "2026"}}, moveEnroll{Question: "vote", Objects: []string{"bob"}, Rule: 0, Cap: milli(1000)}}
	for _, name := range []string{"", "2025"} {
		b := newRunner()
		b.flaw = func(g *game, one move) {
			if _, ok := one.(moveEnroll); ok {
				g.model.chain("vote", "bob").noise = name
			}
		}
		failure := b.play(t, 0, moves)
		check.That(t, strings.Contains(failure, string(api.NoNoiseKey)), "the key %q instead: %s", name, failure)
	}
}

// runner plays games one after the other. It keeps what takes time to compute.
type runner struct {
	random       *rand.ChaCha8
	fills        int
	bits         *exact.Bits
	draws        ledgertest.Draws
	games, moves int

	restores, rollbacks int // copies restored, and older copies that a checkpoint refused
	repeats             int // responses that a noise key has drawn again
	turned              int // reported changes of true values

	flaw func(*game, move) // a planted fault: a change of the model, or of the ledger, after a move
}

func newRunner() *runner {
	b := &runner{}
	b.bits = exact.ReplayBits(func(p []byte) {
		b.fills++
		_, _ = b.random.Read(p)
	})
	b.draws = ledgertest.Draws{Values: &rrchain.Sampler{Random: b.bits}, Outputs: &finite.Sampler{Random: b.bits}, Queries: &mechanism.Sampler{Random: b.bits}}
	return b
}

// shuffle starts the random bits of a game, and discards those left by the last game.
func (b *runner) shuffle(seed uint64) {
	b.random = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	for before := b.fills; b.fills == before; {
		b.bits.Uint64()
	}
}

// try plays the game of a seed. If it fails, it reports the shortest game that fails in the same
// way, as a test.
func (b *runner) try(t *testing.T, seed uint64) {
	moves := newMoves(seed, 10+int(seed%50))
	failure := b.play(t, seed, moves)
	if failure == "" {
		return
	}
	short := b.shrink(t, seed, moves, wayOf(failure))
	t.Errorf("the game of seed %d fails (%s=1 %s=%d):\n\t%s\nShortened:\n\n%s\n\t%s",
		seed, modelSeeds, modelFirst, seed, failure, inGo(seed, short, failure), cmp.Or(b.play(t, seed, short), "(nothing)"))
}

// shrink returns the shortest game found that fails in the given way.
func (b *runner) shrink(t *testing.T, seed uint64, moves []move, way string) []move {
	return shrink(moves, shrinkTries, func(other []move) bool {
		failure := b.play(t, seed, other)
		return failure != "" && wayOf(failure) == way
	})
}

// realFiles is the number of games of which one uses a real file.
const realFiles = 67

// hasFile returns whether the game of a seed uses a real file.
func (b *runner) hasFile(seed uint64) bool { return seed%realFiles == realFiles-1 }

// isServed returns whether the ledger of a game is called over HTTP.
func isServed(seed uint64) bool { return seed%5 == 3 }

// documented is the number of games of which one ends with all receipts and statements.
const documented = 5

// play plays moves and returns how the ledger differs from the model, or "".
func (b *runner) play(t *testing.T, seed uint64, moves []move) (failure string) {
	w := &failureRecorder{TB: t}
	defer func() {
		if fault := recover(); fault != nil && fault != w {
			w.Errorf("panic: %v\n%s", fault, debug.Stack())
		}
		failure = w.failure
	}()
	g := &game{TB: w, runner: b, model: newModel(), keyedAtFirst: seed%2 == 0, offers: map[string]modelQuote{}, ids: map[modelQuote]string{}, keyedDraws: map[string]string{}, served: isServed(seed)}
	b.shuffle(seed)
	g.storage = newStorage(g, b.hasFile(seed), g.setLogKey())
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

// failureRecorder records the first failure of a game instead of ending the test.
type failureRecorder struct {
	testing.TB
	failure string
}

func (w *failureRecorder) Helper()      {}
func (w *failureRecorder) Failed() bool { return w.failure != "" }

func (w *failureRecorder) Errorf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

func (w *failureRecorder) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	panic(w)
}

func (w *failureRecorder) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }
func (w *failureRecorder) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

// The state of the ledger is compared with that of the model.

func (g *game) compareStats() {
	g.Helper()
	got := Stats(g, g.ledger)
	want := api.Stats{Objects: uint64(len(g.model.people)), Questions: uint64(len(g.model.questions)), Events: uint64(len(g.model.log)), Buyers: uint64(len(g.model.buyers)), Currency: "EUR", Bytes: got.Bytes}
	for _, p := range g.model.people {
		want.Chains += uint64(len(p.chains))
	}
	for _, b := range g.model.buyers {
		want.Sales += b.Sales
		want.Revenue += b.Paid
	}
	g.same("the statistics", got, want)
}

func (g *game) compareState() {
	g.compareObjects()
	buyers := check.Value(api.Collect(g.ledger.Buyers(g.Context())))(g)
	for i := range buyers {
		check.Need(g, buyers[i].Event == uint64(len(g.model.log)),
			"the state of a buyer is as of event %d, want %d", buyers[i].Event, len(g.model.log))
		buyers[i].Event = 0
	}
	g.same("the list of buyers", buyers, g.model.buyers)
	for _, buyer := range []string{"", "acme", "bolt", "cryo", "zoe"} {
		g.compareDeals(buyer)
	}
}

func (g *game) compareObjects() {
	g.Helper()
	for name := range g.model.people {
		got := ObjectOf(g, g.ledger, name)
		for _, c := range got.Chains {
			for _, at := range c.Levels {
				g.checkResponse(c.Question, name, at.Epsilon.Nano(), at.Event, at.Response)
			}
			for _, old := range c.Earlier {
				for _, at := range old.Levels {
					g.checkResponse(c.Question, name, at.Epsilon.Nano(), at.Event, at.Response)
				}
			}
		}
		g.same("the object", got, g.model.object(name))
	}
}

// object returns the state of an object in the model.
func (m *model) object(name string) api.ObjectState {
	p := m.people[name]
	held := m.held(p, wish{object: name}, 0).all
	out := api.ObjectState{
		Object: name, Cap: epsilonOf(p.cap), Spent: epsilonOf(p.spent), Held: epsilonOf(held), Remaining: epsilonOf(max(0, p.cap-p.spent-held)),
		Earned: p.earned, Forgotten: uint64(p.forgotten), Currency: "EUR", Event: uint64(len(m.log)),
	}
	for _, q := range m.questions {
		c := p.chains[q.Name]
		if c == nil {
			continue
		}
		state := api.ChainState{Question: q.Name, Epoch: len(c.earlier) + 1, Withdrawn: c.withdrawn, Buyers: uint64(c.buyers()), Epsilon: epsilonOf(c.current()), Answered: epsilonOf(c.answered), Ceiling: out.Cap}
		if !c.rule.policy.IsZero() {
			state.Policy, state.Ceiling = &c.rule.policy, epsilonOf(c.rule.ceiling(m.clock, c.buyers()))
		}
		if state.Levels = c.levelStates(); len(state.Levels) > 0 {
			state.Response = state.Levels[len(state.Levels)-1].Response
		}
		for i, old := range c.earlier {
			state.Earlier = append(state.Earlier, api.EarlierEpoch{
				Epoch: i + 1, Ended: uint64(c.epochs()[i+1].began), Epsilon: epsilonOf(old.current()), Answered: epsilonOf(old.answered), Levels: old.levelStates(),
			})
		}
		out.Chains = append(out.Chains, state)
	}
	return out
}

func (c *modelChain) levelStates() (all []api.LevelState) {
	for _, e := range SortedKeys(c.levels) {
		l := c.levels[e]
		all = append(all, api.LevelState{Epsilon: epsilonOf(e), Response: l.response, Event: uint64(l.event), Buyers: l.holders, Paid: l.paid})
	}
	return all
}

func (g *game) compareResponses(question string, e int64) {
	g.Helper()
	var want []api.Response
	got := check.Value(api.Collect(g.ledger.Responses(g.Context(), question, epsilonOf(e))))(g)
	for _, r := range got {
		g.checkResponse(question, r.Object, e, r.Event, r.Value)
	}
	for _, name := range SortedKeys(g.model.people) {
		if c := g.model.chain(question, name); c != nil && c.levels[e] != nil {
			want = append(want, api.Response{Object: name, Question: question, Epsilon: epsilonOf(e), Value: c.levels[e].response, Event: uint64(c.levels[e].event)})
		}
	}
	g.same("the list of responses", got, want)
}

func (g *game) compareDeals(buyer string) {
	var wantSales []api.Sale
	var wantHeld []api.Reservation
	sales := check.Value(api.Collect(g.ledger.Sales(g.Context(), buyer)))(g)
	held := check.Value(api.Collect(g.ledger.Reservations(g.Context(), buyer)))(g)
	for _, d := range g.model.deals {
		switch {
		case buyer != "" && d.Buyer != buyer:
		case d.status == dealSold:
			wantSales = append(wantSales, d.sale)
			g.compareDeliveries(d)
		}
		if d.promised != nil && (buyer == "" || d.Buyer == buyer) {
			wantHeld = append(wantHeld, d.reservation(g.model.now()))
		}
	}
	g.same("the list of sales", sales, wantSales)
	g.same("the list of reservations", held, wantHeld)
}

func (g *game) compareDeliveries(d *modelDeal) {
	var want []api.Delivery
	got := check.Value(api.Collect(g.ledger.Deliveries(g.Context(), d.sale.Number)))(g)
	for _, one := range got {
		if !one.Erased {
			g.checkResponse(one.Question, one.Object, one.Epsilon.Nano(), one.Sold, one.Value)
		}
	}
	for _, one := range d.deliveries {
		if !one.Erased {
			one.Value = g.model.chain(one.Question, one.Object).during(one.Sold).levels[one.Epsilon.Nano()].response
		}
		want = append(want, one)
	}
	g.same("the list of deliveries", got, want)
}

// compareLog compares the log with the model, and then counts and payments with the log.
func (g *game) compareLog() {
	log := Events(g, g.ledger)
	check.Need(g, len(log) == len(g.model.log), "%d events, want %d", len(log), len(g.model.log))
	for i, ev := range log {
		if got, want := (entry{ev.Kind(), ev.Object(), ev.Time, ev.Erased}), g.model.log[i]; got != want || ev.Number != uint64(i)+1 {
			g.Fatalf("event %d is %v as number %d, want %v", i+1, got, ev.Number, want)
		}
		g.compareEvent(ev)
	}
	g.compareRecounts()
	AuditMarket(g, g.ledger)
}

// compareRecounts compares running counts of responses with a recount of all chains, at each ε and
// at the current levels.
func (g *game) compareRecounts() {
	g.Helper()
	for _, q := range g.model.questions {
		at := map[int64]bool{0: true}
		for name := range g.model.people {
			if c := g.model.chain(q.Name, name); c != nil {
				for e := range c.levels {
					at[e] = true
				}
			}
		}
		for e := range at {
			r := api.EstimateRequest{Question: q.Name, Epsilon: epsilonOf(e)}
			running, err := g.ledger.Estimate(g.Context(), r)
			r.Include = func(string) bool { return true }
			recount, errOfRecount := g.opened.Estimate(g.Context(), r)
			if g.same("the running counts", running, recount); fmt.Sprint(err) != fmt.Sprint(errOfRecount) {
				g.Fatalf("the running counts return the error %v, the recount %v", err, errOfRecount)
			}
		}
	}
}

// compareNoise compares the noise key of each chain: in copies of the ledger, one key after the
// other is lost, and all objects are raised. A forgotten object has no key when it is enrolled
// again.
func (g *game) compareNoise() {
	g.Helper()
	keys := slices.Clone(g.model.noiseKeys)
	if _, onDisk := g.storage.(fileStorage); onDisk || len(keys) == 0 {
		return
	}
	flaw, restores, repeats := g.runner.flaw, g.runner.restores, g.runner.repeats // which belong to the game itself
	g.runner.flaw = nil
	g.play(moveCopy{})
	for _, name := range keys {
		g.play(moveRestore{0, opening{Noise: pastNoise, Lost: name}, false})
		for _, q := range g.model.questions {
			e := milli(1000)
			if levels := modelLevels(q); levels == nil {
				for name := range g.model.people {
					if c := g.model.chain(q.Name, name); c != nil {
						e = max(e, c.current()+1)
					}
				}
			}
			g.play(moveRaise{q.Name, nil, e, true, host{}})
		}
	}
	g.play(moveRestore{})
	g.runner.flaw, g.runner.restores, g.runner.repeats = flaw, restores, repeats
}

// compareEvent compares a response or question in an event with the model.
func (g *game) compareEvent(ev says.Event) {
	g.Helper()
	switch d := ev.Says.(type) {
	case says.Released:
		if !ev.Erased {
			g.checkResponse(d.Question, d.Object, d.Epsilon.Nano(), ev.Number, d.Response)
		}
	case says.Sold:
		if !ev.Erased {
			g.checkResponse(d.Question, d.Object, d.Epsilon.Nano(), ev.Number, d.Response)
		}
	case says.QuestionDefined:
		q, _ := g.model.question(d.Name)
		g.same("the question", api.Question{Name: d.Name, Values: d.Values, Encoding: d.Encoding, Mechanism: d.Mechanism}, q)
	}
}

// compareEvidence compares the receipts of all sales and the statements of all objects. Statements
// are events that the model does not have, so this comes last.
func (g *game) compareEvidence() {
	for _, d := range g.model.deals {
		if d.status == dealSold {
			g.compareReceipt(d)
		}
	}
	for name, p := range g.model.people {
		g.compareStatement(name, p)
	}
}

// verify audits the ledger. The only finding allowed is that the clock has gone back.
func (g *game) verify() {
	g.Helper()
	r := api.VerifyRequest{Report: func(p api.Finding) {
		check.That(g, p.Kind == "clock" && g.model.now().After(g.model.clock), "the audit finds %+v", p)
	}}
	if g.trusted != nil && g.model.extends(g.trusted) {
		r.Checkpoints, r.Verifiers = [][]byte{g.trusted.note}, g.verifiers
	}
	check.Must(g, check.Err(g.opened.Verify(g.Context(), r)))
}

func (g *game) compareReceipt(d *modelDeal) {
	g.Helper()
	r := check.Value(g.ledger.Receipt(g.Context(), d.sale.Number))(g)
	WantSound(g, "a receipt", r, g.verifiers)
	q, _ := g.model.question(d.Question)
	g.same("the question of a receipt", api.Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}, q)
	var got, want []evidence.SoldResponse
	for _, one := range r.Responses {
		got = append(got, evidence.SoldResponse{Object: one.Object, Response: one.Response, Price: one.Price, Event: one.Event, Erased: one.Erased})
	}
	for _, one := range d.deliveries {
		sold := evidence.SoldResponse{Object: one.Object, Price: one.Price, Event: one.Sold, Erased: one.Erased}
		if !one.Erased {
			sold.Response = g.model.chain(d.Question, one.Object).during(one.Sold).levels[d.epsilon()].response
		}
		want = append(want, sold)
	}
	g.same("the receipt", got, want)
}

func (g *game) compareStatement(name string, p *person) {
	g.Helper()
	st := check.Value(g.ledger.Statement(g.Context(), api.ObjectRequest{Key: "statement of " + name, Object: name}))(g)
	WantSound(g, "a statement", st, g.verifiers)
	g.same("the account", []any{st.Cap.Nano(), st.Spent.Nano(), st.Earned, st.Forgotten}, []any{p.cap, p.spent, p.earned, p.forgotten})
	got, want := map[string]string{}, map[string]string{}
	for _, one := range st.Released {
		got[fmt.Sprintf("%q at %d, event %d", one.Question, one.Epsilon.Nano(), one.Event)] = one.Response
	}
	for question, c := range p.chains {
		for _, epoch := range c.epochs() {
			for e, l := range epoch.levels {
				want[fmt.Sprintf("%q at %d, event %d", question, e, l.event)] = l.response
			}
		}
	}
	g.same("what was released", got, want)
	spent, wantSpent := map[string]int64{}, map[string]int64{}
	for _, one := range st.Chains {
		spent[fmt.Sprintf("%q, epoch %d, ended by %d", one.Question, one.Epoch, one.Ended)] = one.Spent.Nano()
	}
	for question, c := range p.chains {
		for i, epoch := range c.epochs() {
			ended := 0
			if i < len(c.earlier) {
				ended = c.epochs()[i+1].began
			}
			wantSpent[fmt.Sprintf("%q, epoch %d, ended by %d", question, i+1, ended)] = epoch.spent()
		}
	}
	g.same("what was spent", spent, wantSpent)
}

// counts returns the responses for an estimate by rising ε: how many there are, and how many have
// each value; in unary encoding, how many have its bit; for a mechanism, how many have each output.
func (m *model) counts(q api.Question, e int64, but string) (all []estimate.Counts) {
	byLevel := map[int64]*estimate.Counts{}
	for name := range m.people {
		c := m.chain(q.Name, name)
		if c == nil || name == but {
			continue
		}
		at := e
		if at == 0 {
			at = c.current()
		}
		l := c.levels[at]
		if l == nil {
			continue
		}
		if byLevel[at] == nil {
			byLevel[at] = &estimate.Counts{Epsilon: epsilonOf(at), ByValue: make([]int64, len(modelResponses(q, at)))}
		}
		byLevel[at].Objects++
		for i, value := range modelResponses(q, at) {
			if l.response == value || q.Encoding == "unary" && l.response[i] == '1' {
				byLevel[at].ByValue[i]++
			}
		}
	}
	for _, at := range SortedKeys(byLevel) {
		all = append(all, *byLevel[at])
	}
	return all
}

// modelResponses returns the possible responses of a question at an ε; in unary encoding, the
// values that have bits.
func modelResponses(q api.Question, e int64) []string {
	if i := slices.Index(modelLevels(q), e); i >= 0 {
		return q.Mechanism.Outputs[i]
	}
	return q.Values
}

// sharesOf estimates the shares of a question's values from counts of responses, and tests whether
// the levels agree.
func sharesOf(t testing.TB, q api.Question, counts []estimate.Counts) (shares []estimate.Frequency, p float64) {
	t.Helper()
	o := estimate.Options{Confidence: 0.95}
	counts = slices.Clone(counts)
	for i := range counts {
		counts[i].Unary = q.Encoding == "unary"
		if q.Mechanism != nil {
			counts[i].Mechanism, _ = q.Mechanism.Family.Level(counts[i].Epsilon)
		}
	}
	shares, err := estimate.Frequencies(o, counts...)
	p, failed := estimate.Disagreement(counts...)
	check.Must(t, err)
	check.Must(t, failed)
	return shares, p
}

// A game that fails is shortened and simplified, and printed as a test.

// shrinkTries is the largest number of times that a failing game is played to find a shorter one.
const shrinkTries = 3000

// shrink returns moves that fail as the given ones do, without those that do not matter and with
// the simplest possible arguments. It calls fails at most tries times.
func shrink(moves []move, tries int, fails func([]move) bool) []move {
	try := func(other []move) bool {
		if tries--; tries < 0 || !fails(other) {
			return false
		}
		moves = other
		return true
	}
	for again := true; again && tries > 0; {
		again = false
		for size := (len(moves) + 1) / 2; size > 0; size /= 2 {
			for i := 0; i+size <= len(moves); {
				if try(slices.Delete(slices.Clone(moves), i, i+size)) {
					again = true
				} else {
					i += size
				}
			}
		}
		for i := range moves {
			for simplify := true; simplify; {
				simplify = slices.ContainsFunc(simpler(moves[i]), func(one move) bool {
					other := slices.Clone(moves)
					other[i] = one
					return try(other)
				})
				again = again || simplify
			}
		}
	}
	return moves
}

// simpler returns the moves that are simpler than a move in one argument.
func simpler(one move) (out []move) {
	if restore, ok := one.(moveRestore); ok {
		out = append(out, moveReopen{restore.How})
	}
	vary("", reflect.ValueOf(one), func(other reflect.Value) { out = append(out, other.Interface().(move)) })
	return out
}

// vary yields the simpler forms of an argument.
func vary(field string, v reflect.Value, yield func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if (field == "How" || field == "Host") && !v.IsZero() {
			yield(reflect.Zero(v.Type()))
		}
		for i := range v.NumField() {
			vary(v.Type().Field(i).Name, v.Field(i), func(simpler reflect.Value) {
				whole := reflect.New(v.Type()).Elem()
				whole.Set(v)
				whole.Field(i).Set(simpler)
				yield(whole)
			})
		}
	case reflect.Slice:
		for i := 0; v.Len() > 1 && i < v.Len(); i++ {
			yield(reflect.AppendSlice(reflect.AppendSlice(reflect.Zero(v.Type()), v.Slice(0, i)), v.Slice(i+1, v.Len())))
		}
	default:
		for _, simple := range simplest(field, v.Type()) {
			if v.Equal(simple) {
				return
			}
			yield(simple)
		}
	}
}

// simplest returns the simplest values of an argument, in order. Not every argument may be zero.
func simplest(field string, kind reflect.Type) []reflect.Value {
	var values []any
	switch field {
	case "Question":
		values = []any{"vote"}
	case "Object":
		values = []any{"ann"}
	case "Buyer":
		values = []any{"acme"}
	case "Query":
		values = []any{"majority:yes"}
	case "Epsilon":
		values = []any{milli(100), milli(500)}
	case "By", "For":
		values = []any{time.Hour, 24 * time.Hour}
	default:
		return []reflect.Value{reflect.Zero(kind)}
	}
	var out []reflect.Value
	for _, value := range values {
		out = append(out, reflect.ValueOf(value).Convert(kind))
	}
	return out
}

var particulars = regexp.MustCompile(`"[^"]*"|/\S*|[0-9]+(\.[0-9]+)?`)

// wayOf returns the way in which a game failed: the first line without names and numbers. Games
// that differ in it may fail for different reasons.
func wayOf(failure string) string {
	first, _, _ := strings.Cut(failure, "\n")
	return particulars.ReplaceAllString(first, "…")
}

// inGo returns a Go test that plays a game.
func inGo(seed uint64, moves []move, failure string) string {
	text := fmt.Sprintf("// The game of seed %d, shortened, fails: %s\nfunc TestGame_OfSeed%d(t *testing.T) {\n\tmoves := []move{\n", seed, wayOf(failure), seed)
	for _, one := range moves {
		text += goText(reflect.ValueOf(one)) + ",\n"
	}
	text += fmt.Sprintf("\t}\n\tif failure := newRunner().play(t, %d, moves); failure != \"\" {\n\t\tt.Error(failure)\n\t}\n}\n", seed)
	if formatted, err := gofmt.Source([]byte(text)); err == nil {
		return string(formatted)
	}
	return text
}

// goText returns an argument as Go source. Zero fields are omitted.
func goText(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		for _, unit := range []struct {
			length time.Duration
			name   string
		}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}} {
			if value%unit.length == 0 {
				return fmt.Sprintf("%d * %s", value/unit.length, unit.name)
			}
		}
		return fmt.Sprint(int64(value))
	case int64:
		if value%milli(1) == 0 {
			return fmt.Sprintf("milli(%d)", value/milli(1))
		}
		return fmt.Sprint(value)
	}
	if v.Kind() != reflect.Struct {
		return fmt.Sprintf("%#v", v.Interface())
	}
	var fields []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() {
			fields = append(fields, name+": "+goText(v.Field(i)))
		}
	}
	return v.Type().Name() + "{" + strings.Join(fields, ", ") + "}"
}

// Planted faults are found, and the game that finds one is shortened to the moves that matter.
func TestShrink_FailingGame_KeepsTheNeededMoves(t *testing.T) {
	for name, fault := range map[string]struct {
		plant  func(*game, move)
		prefix string // the beginning of the failure that is shortened; other failures need other moves
		moves  int    // the number of moves after shortening
	}{
		"an object is charged too little": {func(g *game, one move) {
			if r, ok := one.(moveRelease); ok && r.Epsilon >= milli(500) && g.model.people[r.Object] != nil && g.model.chain(r.Question, r.Object).levels[r.Epsilon] != nil {
				g.model.people[r.Object].spent--
			}
		}, "the object is", 2},
		"what was lost is still earned": {func(g *game, one move) {
			if _, ok := one.(moveRestore); ok && len(g.copies) > 0 && g.model.people["bob"] != nil {
				g.model.people["bob"].earned++
			}
		}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantShrunk(t, fault.plant, fault.prefix, fault.moves)
		})
	}
}

// wantShrunk plays games with a fault until one fails in the given way, and checks that it is
// shortened to size moves.
func wantShrunk(t *testing.T, plant func(*game, move), prefix string, size int) {
	t.Helper()
	faulty, failure := newRunner(), ""
	faulty.flaw = plant
	seed, moves := uint64(0), []move(nil)
	for (failure == "" || !strings.HasPrefix(failure, prefix)) && seed < 1000 {
		seed++
		moves = newMoves(seed, 50)
		failure = faulty.play(t, seed, moves)
	}
	check.Need(t, failure != "" && strings.HasPrefix(failure, prefix), "no game of 1000 fails in this way")
	short := faulty.shrink(t, seed, moves, wayOf(failure))
	if again := faulty.play(t, seed, short); len(short) != size || wayOf(again) != wayOf(failure) {
		t.Errorf("%d moves are shortened to %d, want %d; before:\n\t%s\nafter:\n\t%s", len(moves), len(short), size, failure, again)
	}
	other := newRunner().play(t, seed, short)
	check.That(t, other == "", "the shortened game fails without the fault: %s", other)
	text := inGo(seed, short, failure)
	t.Log(text)
	file := check.Value(parser.ParseFile(token.NewFileSet(), "", "package model\n\nimport \"testing\"\n\n"+text, parser.SkipObjectResolution))(t)
	if want := fmt.Sprint("TestGame_OfSeed", seed); len(file.Decls) != 2 || file.Decls[1].(*ast.FuncDecl).Name.Name != want {
		t.Errorf("the printed text is not a test with the name %s", want)
	}
}
