package model

import (
	"reflect"
	"time"
)

// Games whose moves must be made in a certain order. The model computes their results.

func joins(rule int, limit int64, names ...string) move {
	return moveEnroll{Question: "vote", Objects: names, Rule: rule, Cap: limit}
}

func releases(name string, e int64) move {
	return moveRelease{Question: "vote", Object: name, Epsilon: milli(e)}
}

func raises(e int64, names ...string) move {
	return moveRaise{Question: "vote", Objects: names, Epsilon: milli(e)}
}

func ordered(buyer string, e int64, names []string) moveOrder {
	return moveOrder{buyer, "vote", names, milli(e)}
}

func quotes(buyer string, e int64, names ...string) move {
	return moveQuote{ordered(buyer, e, names)}
}

func sells(buyer string, e int64, names ...string) move {
	return moveSell{Order: ordered(buyer, e, names)}
}

func holds(buyer string, e int64, names ...string) move {
	return moveReserve{Order: ordered(buyer, e, names), For: time.Hour}
}

func answers(query string, e int64, names ...string) move {
	return moveAnswer{Question: "vote", Query: query, Objects: names, Epsilon: milli(e), AcceptLoss: true}
}

// agrees puts objects under a rule, with their consent.
func agrees(rule int, names ...string) move {
	return moveTerms{Question: "vote", Objects: names, Rule: 1 + rule, Consent: "agreed"}
}

// caps changes the cap of objects, and nothing else.
func caps(limit int64, names ...string) move {
	return moveTerms{Question: "vote", Objects: names, Cap: limit}
}

func waits(d time.Duration) move { return movePass{d} }

// repeats repeats a request, counted from the latest that was executed.
func repeats(n int) move { return moveAgain{n, 99} }

// but returns a move with another argument, which may belong to its order.
func but(one move, field string, value any) move {
	changed := reflect.New(reflect.TypeOf(one)).Elem()
	changed.Set(reflect.ValueOf(one))
	at := changed.FieldByName(field)
	if !at.IsValid() {
		at = changed.FieldByName("Order").FieldByName(field)
	}
	at.Set(reflect.ValueOf(value).Convert(at.Type()))
	return changed.Interface().(move)
}

func partly(one move) move            { return but(one, "Partial", true) }
func smoking(one move) move           { return but(one, "Question", "smoker") }
func lying(one move) move             { return but(one, "Host", host{IsLying: true}) }
func unasked(one move) move           { return but(one, "Host", host{IsBroken: true}) }
func careful(one move) move           { return but(one, "AcceptLoss", false) }
func nanoMore(one move, e int64) move { return but(one, "Epsilon", milli(e)+1) }

// notedRequests are games about requests, keys and budgets.
func notedRequests() map[string][]move {
	boundless := NoCap().Nano()
	return map[string][]move{
		"all reasons to be left out": {
			joins(0, milli(1000), "ann", "bob", "cid", "mute"), smoking(joins(0, 0, "bob")), smoking(releases("bob", 500)),
			releases("ann", 700), raises(700, "ann", "bob", "cid", "mute", "zoe"),
			partly(raises(700, "ann", "bob", "cid", "mute", "zoe")), repeats(0),
		},
		"an order for all, of whom there are none": {
			raises(500), sells("acme", 500), joins(firstMarket, boundless, "ann"), repeats(1), sells("acme", 500),
		},
		// The buyer, the kind of request and restarts make no difference, and no true value is
		// requested again.
		"a response is the same for ever": {
			joins(0, boundless, "ann"), releases("ann", 500), releases("ann", 1000), unasked(releases("ann", 700)), releases("ann", 2000),
			unasked(releases("ann", 600)), unasked(releases("ann", 100)), moveReopen{}, unasked(releases("ann", 500)),
			unasked(raises(700)), repeats(2), moveReopen{opening{Truth: truthGiven}}, unasked(raises(1000, "ann")), unasked(raises(100)),
		},
		// In floats 0.1 + 0.2 is more than 0.3. Enrolling raises no cap.
		"parts that make the whole": {
			joins(0, milli(300), "ann"), smoking(joins(0, 0, "ann")), releases("ann", 100), nanoMore(smoking(releases("ann", 200)), 200),
			smoking(releases("ann", 200)), joins(0, milli(2000), "ann"), smoking(joins(0, milli(2000), "ann")), smoking(joins(0, 0, "ann")),
		},
		"a refusal says the largest, also when it is repeated": {
			moveReopen{opening{Truth: truthGiven}}, joins(0, milli(1000), "ann", "bob"), releases("ann", 500),
			partly(raises(2000, "ann", "bob")), repeats(0), lying(raises(700, "ann")),
		},
		// All ways in which a level can be too high, and the alternatives.
		"the largest on offer": {
			joins(12, boundless, "ann"), joins(12, milli(700), "bob"), joins(16, milli(500), "cid"), joins(14, milli(700), "dot"), joins(16, boundless, "eve"),
			quotes("acme", 1500), quotes("acme", 900), quotes("acme", 750), quotes("acme", 1000), quotes("acme", 50),
			sells("bolt", 500, "eve"), sells("bolt", 300, "eve"), quotes("acme", 500, "eve"), quotes("acme", 300, "eve"),
			holds("bolt", 1000, "eve"), quotes("acme", 1000, "eve"), holds("bolt", 600, "bob"), quotes("acme", 900, "bob"),
			nanoMore(holds("acme", 700, "bob"), 700), sells("bolt", 500, "cid"), quotes("acme", 1000, "cid"),
		},
		// An object that returns has what it spent, under the former terms or not at all.
		"coming back": {
			joins(12, milli(1000), "ann"), sells("acme", 700, "ann"), moveWithdraw{"ann"}, sells("bolt", 700, "ann"), releases("ann", 1000),
			answers("majority:yes", 100, "ann"), joins(14, 0, "ann"), joins(0, 0, "ann"), joins(12, milli(1000), "ann"),
			sells("acme", 700, "ann"), nanoMore(sells("cryo", 1000, "ann"), 1000), sells("cryo", 1000, "ann"),
		},
		"a quoted sale without a truth": {
			joins(12, boundless, "ann", "mute"), but(partly(sells("acme", 500)), "Quoted", freshQuote), partly(sells("acme", 500)),
		},
		"a sweep without a key": {
			moveReopen{opening{Noise: "2025"}}, joins(5, boundless, "ann"), moveReopen{opening{Noise: pastNoise}}, joins(5, boundless, "bob"),
			waits(3 * time.Hour), moveReopen{}, moveAdvance{}, moveAdvance{Question: "vote"},
		},
	}
}

// notedCalendars are games about levels that the calendar releases.
func notedCalendars() map[string][]move {
	boundless := NoCap().Nano()
	advance := moveAdvance{Question: "vote"}
	orders := []move{joins(11, milli(1000), "ann", "bob"), smoking(joins(3, 0, "ann"))}
	for range 11 {
		orders = append(orders, waits(time.Hour), moveAdvance{})
	}
	return map[string][]move{
		"a sweep below the top": {joins(3, boundless, "ann", "bob", "cid"), waits(6 * time.Hour), raises(400), unasked(advance), repeats(0)},
		"a clock that goes back releases nothing": {
			joins(3, boundless, "ann", "bob"), waits(6 * time.Hour), advance, unasked(advance), waits(-time.Hour), unasked(advance),
			waits(-5 * time.Hour), unasked(advance), waits(-3650 * 24 * time.Hour), unasked(advance), waits(3650 * 24 * time.Hour), unasked(advance),
			waits(6 * time.Hour), unasked(advance), waits(time.Hour), advance,
		},
		"before everything": {waits(-24 * time.Hour), joins(10, boundless, "ann"), joins(3, boundless, "bob"), advance},
		"who cannot follow": {
			joins(3, milli(500), "ann", "bob", "mute"), joins(3, milli(50), "cid"), smoking(joins(12, 0, "bob")), but(smoking(holds("acme", 300, "bob")), "For", 24*time.Hour),
			smoking(releases("bob", 100)), waits(6 * time.Hour), advance, waits(-6 * time.Hour), moveCommit{}, waits(6 * time.Hour), moveAdvance{},
		},
		"who has changed": {
			moveReopen{opening{Truth: truthGiven}}, joins(3, boundless, "ann", "bob"), waits(2 * time.Hour), advance,
			joins(3, boundless, "cid"), waits(2 * time.Hour), lying(advance), advance,
		},
		"sweeps beside a policy that waits for orders": orders,
		"what is for sale is released by sales": {
			joins(22, boundless, "ann", "bob"), joins(6, boundless, "cid"), waits(13 * time.Hour), advance, sells("acme", 500, "ann"), releases("bob", 500),
		},
		// After a cap was lowered, or a calendar or a clock has gone back: terms are compared at
		// the time of the clock.
		"terms are compared by the clock": {
			joins(5, boundless, "ann", "bob"), waits(25 * time.Hour), waits(-20 * time.Hour), but(agrees(1, "ann"), "Consent", ""),
			waits(20 * time.Hour), but(agrees(1, "ann"), "Consent", ""), waits(-20 * time.Hour), but(agrees(1, "bob"), "Consent", ""), waits(20 * time.Hour),
		},
	}
}

// notedAnswers are games about queries.
func notedAnswers() map[string][]move {
	boundless := NoCap().Nano()
	trio := []string{"ann", "bob", "cid"}
	majority := func(e int64) move { return answers("majority:yes", e, trio...) }
	panel := append(trio, "mute", "zoe")
	return map[string][]move{
		"an answer is given once": {
			joins(0, milli(2000), trio...), answers("plurality", 1000, trio...), moveReopen{}, repeats(0), unasked(answers("plurality", 1000, trio...)),
			moveAgain{0, 0}, moveAgain{0, 1}, moveAgain{0, 2}, answers("winner", 500, trio...),
		},
		"lower answers are free": {joins(0, milli(2000), trio...), majority(1000), unasked(majority(250)), unasked(majority(500)), unasked(majority(250))},
		"answers and chains": {
			joins(2, milli(1000), trio...), releases("ann", 700), majority(500), majority(300), releases("ann", 1000), releases("bob", 700),
		},
		"answers of a cap": {joins(0, milli(1000), "ann", "bob"), answers("majority:yes", 700, "ann", "bob"), releases("bob", 100), answers("majority:yes", 1500, "ann", "bob"), answers("majority:yes", 900, "ann", "bob")},
		"whom a panel leaves out": {
			joins(0, milli(1000), append(trio, "mute")...), releases("bob", 1000), answers("winner", 1000, panel...), partly(answers("winner", 1000, panel...)),
			repeats(0), unasked(partly(answers("winner", 1000, panel...))), unasked(partly(answers("winner", 250, panel...))),
			partly(answers("majority:no", 1000, "ann", "bob")),
		},
		// A repeated partial answer is about its own panel, even if a later one was about fewer
		// objects.
		"a partial answer stays as it was": {
			joins(0, milli(9000), "ann", "bob"), joins(0, milli(600), "cid"), partly(majority(500)), partly(majority(1000)), repeats(1), partly(majority(250)),
		},
		"answers about all": {
			joins(0, milli(2000), "ann", "bob"), answers("majority:yes", 500), joins(0, milli(2000), "cid"), repeats(1), answers("majority:yes", 500),
			moveWithdraw{"bob"}, repeats(2), repeats(1), moveWithdraw{"ann"}, repeats(3), moveWithdraw{"cid"}, repeats(4),
		},
		"an answer binds the truth, and is bound": {
			moveReopen{opening{Truth: truthGiven}}, joins(0, boundless, trio...), releases("ann", 500), lying(majority(500)), majority(500),
			lying(majority(1000)), lying(releases("bob", 500)), releases("bob", 500), partly(lying(majority(1000))),
		},
		"an answer displaces levels on offer": {
			joins(16, boundless, trio...), careful(majority(10)), careful(majority(600)), quotes("acme", 1000), majority(10), repeats(0),
			careful(majority(5)), careful(majority(10)), careful(majority(400)), careful(majority(600)), quotes("acme", 1000),
		},
		"an answer displaces levels of other questions": {
			joins(0, milli(1500), append(trio, "dot")...), smoking(joins(16, 0, trio...)), careful(nanoMore(answers("winner", 500), 500)),
			careful(answers("winner", 1200)), smoking(sells("acme", 500, "bob")), careful(answers("winner", 1200, "bob")),
			careful(answers("winner", 500)), careful(answers("winner", 600)),
		},
		"an answer displaces points of a curve": {
			joins(12, boundless, "ann", "bob"), joins(12, milli(750), "cid"), careful(majority(100)), careful(majority(600)), majority(600),
		},
		"an answer displaces what is sold later": {
			joins(18, boundless, "ann"), joins(19, boundless, "bob"), joins(21, boundless, "cid"), joins(22, boundless, "dot"), joins(17, boundless, "eve"),
			careful(answers("winner", 100, "ann")), careful(answers("winner", 100, "bob")), careful(answers("winner", 100, "cid")), careful(answers("winner", 100, "dot")), careful(answers("winner", 100, "eve")),
			waits(4 * time.Hour), careful(answers("winner", 500, "ann")), careful(answers("winner", 100, "bob")), careful(answers("winner", 500, "cid")),
			waits(30 * time.Hour), careful(answers("winner", 500, "ann")), careful(answers("winner", 500, "cid")), careful(answers("winner", 500, "dot")),
		},
		"an answer beside a reservation": {
			joins(16, milli(1500), "ann"), smoking(joins(16, 0, "ann")), holds("acme", 1000, "ann"), careful(answers("winner", 100, "ann")),
			careful(answers("winner", 500, "ann")), moveCancel{}, careful(answers("winner", 500, "ann")), careful(answers("winner", 600, "ann")),
		},
	}
}

// notedEpochs are games about values that change.
func notedEpochs() map[string][]move {
	boundless := NoCap().Nano()
	epoch := func(name string) move { return moveEpoch{"vote", name} }
	return map[string][]move{
		// In a new epoch, the new value is drawn in addition to the cost of the old one. The old
		// value is not accessible.
		"an epoch for who has changed": {
			moveReopen{opening{Truth: truthGiven}}, joins(0, milli(1500), "ann", "bob"), releases("ann", 1000), lying(releases("ann", 1100)), epoch("ann"),
			lying(releases("ann", 300)), lying(releases("ann", 400)), releases("ann", 500), lying(releases("ann", 500)),
			lying(nanoMore(releases("ann", 500), 500)), repeats(4), repeats(5),
		},
		"epochs begin once": {
			joins(0, milli(3000), "ann", "bob"), epoch("ann"), releases("ann", 1000), epoch("ann"), repeats(0), repeats(0), epoch("ann"), moveAgain{0, 0},
			moveEpoch{"late", "bob"}, epoch("zoe"), moveWithdraw{"bob"}, epoch("bob"), moveForget{"ann"}, repeats(2), repeats(3),
		},
		// A sale belongs to one epoch. In a new epoch as many buyers may hold a level as before, at
		// the full price.
		"epochs are sold by themselves": {
			joins(16, boundless, "ann"), joins(20, boundless, "bob"), sells("acme", 500, "ann"), sells("bolt", 500, "ann"), sells("acme", 300, "bob"), epoch("ann"), epoch("bob"),
			sells("bolt", 500, "ann"), quotes("acme", 1000, "ann"), sells("acme", 1000, "ann"), sells("bolt", 300, "bob"), sells("acme", 500, "bob"), repeats(8), repeats(9),
		},
		"a reservation ends with the epoch": {
			joins(12, milli(1500), "ann", "bob"), sells("acme", 500, "ann", "bob"), holds("acme", 1000, "ann", "bob"), epoch("ann"), releases("ann", 1000),
			moveCommit{}, moveCommit{Partial: true},
		},
		"estimates count the current epoch": {joins(0, boundless, "ann", "bob"), raises(1000), epoch("ann"), moveEstimate{Question: "vote"}, moveEstimate{Question: "vote", Epsilon: milli(1000)}},
		"the calendar of a new epoch": {
			joins(5, boundless, "ann"), waits(25 * time.Hour), moveAdvance{}, epoch("ann"), moveWithdraw{"ann"}, moveReturn{"vote", "ann"}, moveAdvance{},
		},
	}
}

// notedMarkets are games about reservations, buyers and terms of sale.
func notedMarkets() map[string][]move {
	boundless := NoCap().Nano()
	pair := []string{"ann", "bob"}
	all := map[string][]move{
		// Buyers unlock shares, not orders. Forgotten sales have unlocked nothing.
		"buyers unlock": {
			joins(20, boundless, "ann"), sells("acme", 100, "ann"), sells("acme", 200, "ann"), sells("acme", 300, "ann"), sells("acme", 50, "ann"),
			sells("acme", 10, "ann"), sells("acme", 20, "ann"), sells("acme", 500, "ann"), sells("bolt", 500, "ann"), sells("cryo", 1000, "ann"), sells("acme", 1000, "ann"),
			moveWithdraw{"ann"}, moveReturn{"vote", "ann"}, quotes("acme", 1000, "ann"), moveForget{"ann"}, moveReturn{"vote", "ann"}, quotes("acme", 500, "ann"),
		},
		"a reservation brings its share": {
			joins(23, boundless, "ann"), waits(25 * time.Hour), holds("acme", 700, "ann"), releases("ann", 500), nanoMore(releases("ann", 500), 500), moveCommit{},
		},
		"an answer leaves a known buyer's reservation": {
			joins(20, boundless, "ann"), sells("acme", 100, "ann"), holds("acme", 300, "ann"), answers("majority:yes", 100, "ann"), moveCommit{},
		},
		// A reservation that has expired because the clock was ahead is open again when the clock
		// is corrected, unless the log has reached its expiry.
		"a reservation and a clock put right": {
			joins(12, boundless, "ann"), holds("acme", 1000, "ann"), waits(time.Hour), repeats(0), waits(-time.Minute), repeats(0),
			waits(time.Minute), releases("ann", 100), waits(-time.Minute), repeats(1),
		},
		// The new price less what was paid, never below zero. What the buyer holds, or less, is
		// free.
		"upgrades at other prices": {
			joins(14, boundless, "ann"), sells("acme", 500, "ann"), sells("bolt", 1000, "ann"), agrees(12, "ann"), sells("acme", 500, "ann"), sells("acme", 200, "ann"),
			sells("acme", 700, "ann"), quotes("acme", 1000, "ann"), sells("bolt", 1000, "ann"), sells("cryo", 500, "ann"), agrees(14, "ann"), sells("acme", 1000, "ann"),
			sells("cryo", 1000, "ann"), sells("dawn", 1000, "ann"), agrees(12, "ann"), quotes("dawn", 1000, "ann"), moveEpoch{"vote", "ann"}, sells("acme", 1000, "ann"),
			joins(12, boundless, "bob"), sells("acme", 500, "bob"), moveForget{"bob"}, moveReturn{"vote", "bob"}, sells("acme", 1000, "bob"),
		},
		"a reservation, and what is paid since": {
			joins(14, boundless, pair...), holds("acme", 700, pair...), agrees(12, pair...), sells("acme", 200, "ann"), sells("acme", 500, "bob"), moveCommit{},
		},
		// Budget that was lowered is not held any more. For others it counts as held while it is
		// there.
		"a reservation whose budget was lowered": {
			joins(12, boundless, "ann", "bob", "cid", "dan", "eve"), sells("bolt", 1000, "eve"), holds("acme", 1000),
			caps(milli(1000)-1, "ann"), but(agrees(24, "bob", "eve"), "Consent", ""), moveWithdraw{"cid"}, releases("ann", 100), moveCommit{}, moveCommit{Partial: true},
		},
		"a reservation keeps its place among holders": {
			joins(16, boundless, "ann"), holds("acme", 500, "ann"), sells("bolt", 500, "ann"), agrees(15, "ann"), sells("bolt", 500, "ann"), sells("cryo", 500, "ann"),
			but(agrees(16, "ann"), "Consent", "agreed"), sells("cryo", 500, "ann"), moveCommit{},
		},
		"a quote and other terms": {
			joins(12, boundless, pair...), quotes("acme", 1000), agrees(14, "bob"), but(sells("acme", 1000), "Quoted", staleQuote),
			agrees(12, "bob"), quotes("acme", 1000), but(agrees(24, "bob"), "Consent", ""), agrees(12, "bob"), quotes("acme", 500), agrees(14, "ann"),
			but(but(sells("acme", 500), "Quoted", staleQuote), "Most", oneLess), joins(12, boundless, "cid"), but(sells("acme", 500), "Quoted", staleQuote),
			but(sells("acme", 500, pair...), "Quoted", staleQuote), quotes("acme", 1000, pair...), sells("acme", 500, "ann"), but(sells("acme", 1000, pair...), "Quoted", staleQuote),
			quotes("acme", 1000, pair...), caps(milli(9000), pair...), but(sells("acme", 1000, pair...), "Quoted", staleQuote),
		},
		"enrolling under other terms": {
			joins(12, milli(9000), pair...), moveWithdraw{"ann"}, joins(14, milli(9000), pair...), joins(14, milli(8000), pair...),
			but(agrees(14, pair...), "Cap", milli(8000)), joins(14, milli(8000), pair...),
		},
		"changes in part": {
			joins(12, milli(5000), pair...), joins(12, milli(9000), "cid", "dan"), moveWithdraw{"dan"}, caps(milli(7000), "zoe", "dan", "cid", "bob", "ann"),
			partly(caps(milli(7000), "zoe", "dan", "cid", "bob", "ann")), repeats(0),
			but(partly(joins(14, milli(7000), "new", "eva", "ann", "bob", "cid")), "Other", firstMarket), moveWithdraw{"new"}, repeats(1), repeats(2),
			moveForget{"ann"}, repeats(3), repeats(2),
		},
		// What was released stays released and on sale, and a forgotten object can be enrolled
		// again.
		"a cap below what is spent": {
			joins(12, boundless, pair...), sells("acme", 700, "ann"), sells("acme", 1000, "bob"), caps(milli(400), "ann"), agrees(15, "bob"), releases("ann", 800),
			releases("bob", 1100), releases("ann", 300), releases("bob", 300), sells("bolt", 700, "ann"), sells("bolt", 1000, "bob"),
			moveForget{"ann"}, moveReturn{"vote", "ann"}, moveForget{"ann"},
		},
	}
	for name, to := range map[string]struct {
		rule  int
		level int64
	}{"other prices": {14, 1000}, "barred": {18, 1000}, "closed": {19, 1000}, "not on offer": {14, 950}, "not for sale": {2, 1000}, "no policy": {0, 1000}} {
		all["a reservation keeps its price: "+name] = []move{
			joins(12, boundless, pair...), sells("acme", 200, "ann"), holds("acme", to.level, pair...), agrees(to.rule, "ann"), moveCommit{},
		}
	}
	for name, between := range map[string][]move{
		"another buyer": {sells("bolt", 200, "ann")}, "another buyer, for more": {sells("bolt", 300, "ann")}, "the same buyer": {sells("acme", 100, "ann")},
		"two others":                      {sells("bolt", 300, "ann"), sells("cryo", 500, "ann")},
		"another reservation of the same": {holds("acme", 200, "ann"), moveCommit{}, moveCancel{}}, "one that is cancelled": {holds("bolt", 300, "ann"), moveCancel{}},
	} {
		latest := moveCommit{}
		if _, reserved := between[0].(moveReserve); reserved {
			latest.Deal = 1
		}
		all["a reservation and "+name] = append(append([]move{joins(20, boundless, "ann"), holds("acme", 300, "ann")}, between...), latest)
	}
	return all
}

// notedTables are games about tables of the host.
func notedTables() map[string][]move {
	table := func(rows ...row) move { return moveReconcile{Rows: rows, Expected: true} }
	of := func(question, name string, rule int, limit int64, consent string) row {
		return row{question, name, rule, limit, consent}
	}
	three := []row{of("vote", "ann", 0, 0, ""), of("smoker", "ann", 0, milli(8000), ""), of("late", "ann", 0, milli(8000), "")}
	back := table(of("vote", "ann", 0, milli(8000), ""), of("smoker", "ann", 0, milli(8000), ""), of("vote", "bob", 0, milli(8000), ""), of("smoker", "bob", 0, milli(8000), ""))
	both := table(
		of("vote", "ann", 12, milli(6000), ""), of("smoker", "ann", 0, milli(6000), "agreed"), // more
		of("vote", "bob", 12, 0, ""), of("smoker", "bob", 0, milli(4000), ""), // less
		of("vote", "cid", 12, milli(7000), ""), of("smoker", "cid", 0, milli(7000), ""), // more, and cid has not agreed
	)
	return map[string][]move{
		"a table brings no object back": {joins(0, milli(9000), "ann", "bob", "cid"), moveWithdraw{"ann"}, moveForget{"bob"}, back, joins(0, 0, "ann"), back},
		"a table with other rows":       {joins(12, milli(9000), "ann", "bob"), smoking(joins(0, 0, "ann", "bob")), but(table(of("vote", "ann", 12, milli(9000), ""), of("smoker", "bob", 0, 0, "")), "Withdraw", true)},
		"a cap over all questions":      {joins(12, milli(5000), "ann", "bob", "cid"), both, both},
		"a cap and several questions":   {moveDefine{}, joins(0, milli(9000), "ann"), table(three...), table(three...)},
	}
}
