package house

import "strings"

// room is a package: what it is for, and the packages of this module that it may import.
type room struct {
	name string
	what string
	may  string
}

// plan lists all packages from the bottom up: an arrow leads only to a row above its own. A name
// that ends in /... means all packages below it. To let a package import another, add it to
// the row here, and ask first whether what is wanted does not belong further down.
func plan() []room {
	return []room{
		{"privacy", "ε and δ as exact decimals", ""},
		{"internal/testenv", "how much tests try", ""},
		{"internal/check", "checks of errors and conditions: nothing but tests import it", "privacy"},
		{"internal/stattest", "statistics for tests", "internal/testenv"},
		{"internal/exact", "exact draws", ""},
		{"internal/ledgerfile", "files: replaced atomically, locked, distinguished from copies; which belong to a ledger", ""},
		{"internal/lp", "linear programs with certificates", "privacy"},
		{"policy", "ceilings over time, and prices", "privacy internal/exact"},
		{"rrchain", "chains of randomized responses", "privacy internal/exact"},
		{"rrchain/finite", "chains of any finite mechanism", "privacy rrchain internal/exact internal/lp"},
		{"rrchain/estimate", "shares and means from responses", "privacy rrchain rrchain/finite"},
		{"rrchain/rappor", "strings as Bloom filters", "privacy rrchain rrchain/estimate"},
		{"mechanism/graph", "mechanisms on graphs of datasets", "privacy internal/exact internal/lp"},
		{"mechanism", "queries about panels, and their answers", "privacy internal/exact"},
		{"ledger/internal/errs", "errors that callers branch on", ""},
		{"ledger/internal/lock", "a mutex that is waited for as long as a context lasts", ""},
		{"ledger/internal/wire", "numbers and texts as canonical bytes", "ledger/internal/errs privacy"},
		{"ledger/api", "requests, results and errors of a ledger", "ledger/internal/errs ledger/internal/wire policy privacy rrchain rrchain/finite"},
		{"ledger/internal/callback", "calls of the host's functions", "ledger/api"},
		{"ledger/event", "events of the log, as hosts and verifiers read them", "ledger/internal/errs ledger/api policy privacy"},
		{"internal/fixture", "mechanisms, records and bytes that tests share: nothing but tests import it", "privacy rrchain/finite ledger/api"},
		{"ledger/internal/merkle", "the tree over the log, and its proofs", "ledger/internal/errs"},
		{"ledger/internal/event", "how the log encodes events", "ledger/event ledger/internal/errs ledger/internal/merkle ledger/internal/wire ledger/api mechanism policy privacy rrchain rrchain/finite"},
		{"ledger/evidence", "receipts, statements and checkpoints, and their verification", "ledger/event ledger/internal/errs ledger/internal/event ledger/internal/merkle ledger/api policy privacy"},
		{"ledger/journal", "what a durable log must promise", "ledger/internal/errs"},
		{"ledger/journal/journaltest", "what any journal must pass", "ledger/internal/errs ledger/journal"},
		{"ledger/internal/journalfile", "a journal in a directory", "ledger/internal/errs ledger/internal/wire ledger/journal internal/ledgerfile"},
		{"internal/pgtest", "PostgreSQL servers, proxies before them, and certificates of hosts: nothing but tests import it", "internal/testenv"},
		{"ledger/journal/keyholder", "keys of journals, on the hosts that may go on with them", "ledger/internal/errs ledger/internal/wire ledger/journal internal/ledgerfile"},
		{"ledger/journal/pgjournal", "a journal in PostgreSQL", "ledger/internal/errs ledger/internal/lock ledger/internal/wire ledger/journal ledger/journal/keyholder"},
		{"ledger/internal/kv", "ordered keys in buckets, and a store of them in memory", "ledger/internal/errs"},
		{"ledger/internal/kv/bolt", "a store in a bbolt file", "ledger/internal/errs ledger/internal/kv ledger/internal/wire internal/ledgerfile"},
		{"ledger/internal/memtable", "what was committed since a store was last written", "ledger/internal/kv ledger/internal/lock"},
		{"ledger/internal/state", "records, over ordered keys", "ledger/internal/errs ledger/internal/event ledger/internal/kv ledger/internal/merkle ledger/internal/wire ledger/journal ledger/api mechanism policy privacy rrchain rrchain/finite"},
		{"ledger/internal/rules", "who may have what, and what is drawn", "ledger/internal/state ledger/internal/errs ledger/internal/event ledger/api policy privacy rrchain rrchain/finite"},
		{"ledger/internal/fold/check", "which events no ledger can have written", "ledger/internal/errs ledger/internal/event ledger/internal/rules ledger/internal/state ledger/api policy privacy"},
		{"ledger/internal/fold", "what events do to the state", "ledger/internal/errs ledger/internal/event ledger/internal/fold/check ledger/internal/merkle ledger/internal/state ledger/internal/wire"},
		{"ledger/observe", "what is observed, in numbers", "ledger/api"},
		{"ledger/internal/engine", "the queue of requests, commits and snapshots", "ledger/internal/errs ledger/internal/event ledger/internal/fold ledger/internal/callback ledger/internal/kv ledger/internal/merkle ledger/internal/state ledger/internal/memtable ledger/internal/wire ledger/journal ledger/observe ledger/api"},
		{"ledger/internal/documents", "receipts, statements and checkpoints are made", "ledger/api ledger/evidence ledger/internal/engine ledger/internal/errs ledger/internal/event ledger/internal/callback ledger/internal/kv ledger/internal/merkle ledger/internal/state ledger/observe"},
		{"ledger/internal/request", "the requests that change a ledger", "ledger/internal/callback ledger/internal/engine ledger/internal/errs ledger/internal/event ledger/internal/fold " +
			"ledger/internal/kv ledger/internal/rules ledger/internal/state ledger/internal/wire ledger/observe ledger/api mechanism policy privacy rrchain rrchain/finite"},
		{"ledger/internal/enrollment", "who takes part, and on which terms", "ledger/internal/callback ledger/internal/engine ledger/internal/errs ledger/internal/event ledger/internal/fold " +
			"ledger/internal/request ledger/internal/kv ledger/internal/kv/bolt ledger/internal/rules ledger/internal/state ledger/internal/memtable ledger/internal/wire ledger/api policy privacy"},
		{"ledger/internal/audit", "the log folded again, and compared", "ledger/evidence ledger/internal/errs ledger/internal/event ledger/internal/fold ledger/internal/kv ledger/internal/kv/bolt ledger/internal/merkle ledger/internal/state ledger/internal/memtable ledger/internal/wire ledger/api policy privacy"},
		{"ledger", "what a host calls", "ledger/evidence ledger/event ledger/internal/audit ledger/internal/request ledger/internal/engine ledger/internal/errs ledger/internal/event ledger/internal/fold ledger/internal/callback ledger/internal/kv ledger/internal/kv/bolt ledger/internal/merkle ledger/internal/documents ledger/internal/enrollment ledger/internal/rules ledger/internal/state ledger/internal/wire ledger/journal ledger/internal/journalfile ledger/observe ledger/api mechanism policy privacy rrchain rrchain/estimate internal/ledgerfile"},
		{"ledger/ledgertest", "a ledger in memory for the tests of hosts", "ledger ledger/api ledger/internal/kv ledger/internal/request mechanism rrchain rrchain/finite"},
		{"internal/problem", "errors for other programs: their kinds, exit codes and statuses", "ledger/journal ledger/api mechanism policy privacy rrchain"},
		{"internal/httpapi", "what servers, clients and the command agree on: roles, tokens, addresses, how a server asks a URL for true values, and requests and results in JSON",
			"ledger ledger/api ledger/evidence ledger/observe internal/problem policy privacy"},
		{"ledger/ledgerhttp", "a ledger for others", "internal/httpapi ledger ledger/evidence ledger/event ledger/internal/errs ledger/internal/event ledger/internal/state internal/problem ledger/api policy privacy rrchain/finite internal/ledgerfile"},
		{"ledger/ledgerhttp/metrics", "a ledger that is watched by Prometheus", "ledger ledger/internal/event ledger/observe ledger/api"},
		{"ledger/ledgerclient", "a ledger elsewhere", "internal/httpapi ledger ledger/evidence ledger/event ledger/internal/event ledger/internal/errs ledger/observe internal/problem ledger/api privacy internal/ledgerfile"},
		{"internal/chart", "charts as SVG", ""},
		{"cmd/ledgerctl/internal/output", "results, warnings and errors for people and scripts, and what the program ends with", "policy privacy rrchain/finite mechanism/graph ledger ledger/event ledger/api ledger/evidence internal/problem"},
		{"cmd/ledgerctl/internal/input", "what commands are given: flags, files, tables of people, and keys", "privacy rrchain ledger ledger/api ledger/ledgerclient cmd/ledgerctl/internal/output internal/ledgerfile"},
		{"cmd/ledgerctl/internal/serving", "a ledger is served, and hosts share its journal", "internal/httpapi ledger ledger/api ledger/journal ledger/journal/keyholder ledger/journal/pgjournal ledger/ledgerclient ledger/ledgerhttp ledger/ledgerhttp/metrics ledger/observe " +
			"cmd/ledgerctl/internal/input cmd/ledgerctl/internal/output internal/ledgerfile"},
		{"cmd/ledgerctl/internal/mechanisms", "commands that compute mechanisms", "privacy rrchain rrchain/finite rrchain/estimate mechanism/graph ledger ledger/api cmd/ledgerctl/internal/input cmd/ledgerctl/internal/output"},
		{"cmd/ledgerctl", "the command", "privacy policy rrchain ledger ledger/api ledger/evidence ledger/event ledger/ledgerclient ledger/observe internal/problem cmd/ledgerctl/internal/... internal/chart internal/ledgerfile"},
		{"examples/internal/kit", "data of the examples, and a server that is killed: only examples import it", "ledger ledger/api ledger/evidence"},
		{"examples/...", "programs that show how", "privacy policy rrchain rrchain/estimate rrchain/rappor mechanism mechanism/graph ledger ledger/api ledger/evidence ledger/event ledger/journal ledger/journal/keyholder ledger/journal/pgjournal examples/internal/..."},
		{"internal/trial", "the ledger on a machine that dies: nothing but tests", ""},
		{"internal/trial/...", "the ledger against a model, under load, on other disks, before attackers, in a market and a shop: nothing but tests", ""},
		{"internal/house", "the plan", ""},
		{"internal/mutants", "faults, and the tests that catch them: nothing but lists and tests", ""},
		{"docs", "the documentation, run as it is: nothing but tests", ""},
	}
}

// covers reports whether a row's name means a package.
func covers(name, pkg string) bool {
	if below, all := strings.CutSuffix(name, "/..."); all {
		return strings.HasPrefix(pkg, below+"/")
	}
	return name == pkg
}

// rowOf returns the place of a package in the plan: the row that names it most closely; -1 if there
// is none.
func rowOf(plan []room, pkg string) int {
	best := -1
	for i, r := range plan {
		if covers(r.name, pkg) && (best < 0 || len(r.name) > len(plan[best].name)) {
			best = i
		}
	}
	return best
}
