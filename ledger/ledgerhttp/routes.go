package ledgerhttp

import (
	"slices"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// routes returns all routes of a handler.
func routes() []route {
	return slices.Concat(hostRoutes(), marketRoutes(), evidenceRoutes())
}

// hostRoutes returns the routes for the host, which routes_host.go serves.
func hostRoutes() []route {
	host, readers := []string{roleOperator}, []string{roleOperator, roleAuditor}
	shares := []string{roleOperator, roleDesk, roleAuditor}
	meters := []string{roleOperator, roleMetrics}
	counts := []string{roleOperator, roleDesk, roleAuditor, roleMetrics}
	notMetrics := []string{roleOperator, roleDesk, roleBuyer, rolePerson, roleAuditor}
	question := text("question", "the question, by its name").required()
	who := text("object", "the object, by its name").required()
	pool := flag("pool", "combine levels by precision, which assumes that the ε of an object is independent "+
		"of its value: true or false")
	population := flag("population", "compute intervals for the shares in a population of which the objects are "+
		"a random sample: true or false")
	return []route{
		get("about", "/v1/about", "Describe what the ledger was created with", httpapi.Roles(), nil, about),
		get("stats", "/v1/stats", "Count what is in the ledger", counts, nil, stats),
		get("health", "/v1/health", "Report which host has the ledger, whether this one is a standby or has stopped, "+
			"and how many requests wait", []string{roleOperator, roleAuditor, roleMetrics}, nil, health),
		get("metrics", "/metrics", "Return the metrics for Prometheus", meters, nil, metrics).as("text/plain"),
		get("questions", "/v1/questions", "List the questions", notMetrics, nil, questions).growing(),
		change("defineQuestion", "/v1/questions", "Define a question", host, defineQuestion),
		change("enroll", "/v1/enrolments", "Enrol people in a question", host, enroll).growing(),
		change("changeTerms", "/v1/terms", "Change the policy or the cap of people",
			host, changeTerms).growing(),
		post("reconcile", "/v1/reconciliations", "Make the ledger match a table of the host",
			host, reconcile).growing(),
		change("release", "/v1/releases", "Release the response of one object at ε", host, release),
		change("raise", "/v1/raises", "Raise the responses of many objects to ε", host, raise).growing(),
		change("advance", "/v1/advances", "Release what policies now allow",
			host, advance).growing(),
		change("answer", "/v1/answers", "Answer a query about the true values of a panel", host, answer).growing(),
		post("quoteAnswer", "/v1/answers/quotes", "Return what an answer would cost", host, quoteAnswer).growing(),
		change("beginEpoch", "/v1/epochs", "Begin a new epoch for an object whose true value has changed",
			host, beginEpoch),
		change("withdraw", "/v1/withdrawals", "End an object's part in all questions", host, withdraw),
		change("forget", "/v1/forgettings", "Destroy everything about an object", host, forget),
		post("compact", "/v1/compactions", "Rewrite the file without the bytes of forgotten objects",
			host, compact).copying(),
		get("object", "/v1/object", "Return the budget and all responses of an object",
			readers, []param{who}, object).growing(),
		get("estimate", "/v1/estimate", "Estimate the shares of a question's values", shares, []param{
			question, epsilon("epsilon", "count only responses at this ε"),
			share("confidence", "the confidence of the intervals, such as 0.95"), pool, population,
		}, estimate).growing(),
		get("levels", "/v1/levels", "List the ε at which there are responses",
			shares, []param{question}, levels).growing(),
		list("responses", "/v1/responses", "List the responses at one ε",
			readers, []param{question, epsilon("epsilon", "the ε, such as 0.5").required()}, responses),
	}
}

// marketRoutes returns the routes for orders and sales, which routes_market.go serves.
func marketRoutes() []route {
	desk, orders := []string{roleOperator, roleDesk}, []string{roleOperator, roleDesk, roleBuyer}
	market := []string{roleOperator, roleDesk, roleBuyer, roleAuditor}
	filters := []param{
		text("buyer", "one buyer, by name; without it, all"),
		text("question", "one question, by name; without it, all"),
		instant("since", "only orders made at this time or later"),
		instant("until", "only orders made before this time"),
	}
	states := words("state", "only reservations in one of these states; without it, all", event.ReservationStates()...)
	return []route{
		post("budget", "/v1/budgets", "Return how many people can answer at which ε, now and later",
			desk, budget).growing(),
		post("quote", "/v1/quotes", "Return what an order would cost and deliver", orders, quote).growing(),
		change("sell", "/v1/sales", "Execute an order", desk, sell).growing(),
		list("sales", "/v1/sales", "List sales", market, orderedParams(filters...), sales),
		get("sale", "/v1/sales/{sale}", "Return a sale", market, nil, sale).growing(),
		list("deliveries", "/v1/sales/{sale}/deliveries", "List the responses of a sale", market, nil, deliveries),
		describing[evidence.Receipt](get("receipt", "/v1/sales/{sale}/receipt", "Prove a sale to its buyer",
			orders, nil, receipt)).growing(),
		change("reserve", "/v1/reservations", "Reserve an order while a buyer pays", desk, reserve).growing(),
		list("reservations", "/v1/reservations", "List reservations, with the state of each",
			market, orderedParams(append(filters, states)...), reservations),
		get("reservation", "/v1/reservations/{reservation}", "Return a reservation, with its state",
			market, nil, reservation).growing(),
		change("capture", "/v1/reservations/{reservation}/capture", "Capture a reservation", desk, capture).growing(),
		change("cancel", "/v1/reservations/{reservation}/cancel", "Cancel a reservation", desk, cancel),
		get("buyers", "/v1/buyers", "List the buyers", []string{roleOperator, roleDesk, roleAuditor}, pageParams(),
			buyers).growing(),
	}
}

// evidenceRoutes returns the routes for proofs, the log and copies of the file. routes_evidence.go
// and routes_log.go serve them.
func evidenceRoutes() []route {
	readers := []string{roleOperator, roleAuditor}
	notBuyers := []string{roleOperator, roleDesk, rolePerson, roleAuditor, roleMetrics}
	from := number("from", "the number of the first event; 0 and 1 are the same")
	smaller, larger := number("from", "the smaller size").required(), number("to", "the larger size").required()
	size := number("events", "the size; without it, or 0, the current size")
	key := text("key", "the idempotency key of the request").required()
	unused := flag("compact", "omit unused pages, which are otherwise overwritten with zeros: true or false")
	return []route{
		describing[evidence.Statement](change("statement", "/v1/statements", "Prove to a person everything about them",
			[]string{roleOperator, rolePerson}, statement)),
		get("checkpoint", "/v1/checkpoint", "Sign the log as it is now", notBuyers, nil, checkpoint).as("text/plain"),
		get("head", "/v1/head", "Return the head of the log's tree at a size", notBuyers, []param{size}, head),
		get("consistency", "/v1/consistency", "Prove that the log at one size is the beginning of the log at another",
			httpapi.Roles(), []param{smaller, larger}, consistency),
		events(list("events", "/v1/events", "List the events of the log, or stream them",
			readers, orderedParams(append(eventFilters(), from)...), readEvents)),
		list("refusals", "/v1/refusals", "List the objects that a request left out",
			readers, []param{key, from}, readRefusals),
		post("verify", "/v1/verifications", "Verify the log and the state, as far as this server is trusted",
			readers, verify).copying(),
		post("takeOver", "/v1/takeovers", "Take over, as a standby, from the host that has the ledger",
			[]string{roleOperator}, takeOver),
		get("backup", "/v1/backup", "Copy the file, as it is at one instant",
			readers, []param{unused}, backup).as("application/octet-stream").copying(),
	}
}

// copying marks a route that copies or reads the whole file. It has no time limit, and counts
// against [Limits.Copies].
func (r route) copying() route {
	r.copiesFile, r.isLong = true, true
	return r
}

// growing marks a route whose cost grows with the panel or with the log. [Limits.Panels] and
// [Limits.Records] bound such routes. docs/howto/serve.md has the table of costs.
func (r route) growing() route {
	r.isGrowing = true
	return r
}

// as sets the media type of the result.
func (r route) as(media string) route {
	r.media = []string{media}
	return r
}
