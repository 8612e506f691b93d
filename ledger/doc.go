// Package ledger keeps, for each object and question, the ε released so far and every response that
// was returned. It draws the next response if a policy and a budget allow it.
//
//	l, err := ledger.Open(ctx, "panel.db", ledger.Options{})
//	defer l.Close()
//	response, err := l.Release(ctx, api.ReleaseRequest{
//		Key: orderID, Question: "vote", Object: "person-17", Epsilon: half, TrueValue: "yes",
//	})
//
// An object is one privacy unit, such as a person. A question has a fixed list of values. True
// values stay with the host. The responses of one object to one question form a chain (package
// rrchain), each drawn at its ε by the question's encoding or [api.Mechanism]. A chain costs the
// object only its largest ε. A response at or below the current level is free, and needs no true
// value. The costs of an object's chains add up, and no draw takes them above its cap.
//
// A query about a panel of objects, such as a majority, has one [Ledger.Answer] by the mechanism
// that is optimal at its ε (package mechanism). The answer is charged to every object in the panel.
// The costs of different queries add up with each other and with the chains. Answers to one query
// about a majority or a threshold cost only the largest ε. Responses and answers are drawn at
// random or, with [Options.NoiseKey], from a key of the host ([api.NoiseKeys]).
//
// # The market
//
// The ε that a policy (package policy) allows may grow with time. [Ledger.Advance] draws what is
// released, and [Ledger.Watch] streams it. A policy with terms of sale puts a chain on the market:
//
//   - [Ledger.Quote] returns what an order would cost, which objects would be refused and how the
//     responses would be made. It changes nothing.
//   - [Ledger.Sell] executes an order in one transaction: responses, charges, prices, credits. An
//     order may be bound to a quote. Buyers read the responses with [Ledger.Deliveries].
//   - [Ledger.Reserve] holds budget and price while a buyer pays. A reservation ends with
//     [Ledger.Capture], with [Ledger.Cancel], or when it expires.
//   - [Ledger.Withdraw] takes an object off the market, and ends its part in everything else.
//
// A buyer who upgrades pays the price of the level, less what the buyer has paid for the object.
// All buyers get the same responses. [Ledger.ChangeTerms] changes policies and caps.
// [Ledger.Reconcile] updates the ledger from a table of the host. Terms of sale apply to orders.
// The host's own releases ([Ledger.Raise]) are limited only by ceilings and caps.
//
// # What can be relied on
//
//   - A response is on disk before a caller sees it. The process may die at any instant. What was
//     committed last is in a directory beside the file, NAME.journal, which belongs to it: see
//     [Open]. A journal elsewhere ([Options.Journal]) survives the loss of the machine: a standby
//     follows it ([Options.Standby]), and takes over ([Ledger.TakeOver]).
//   - Every draw is checked against the chain's ceiling and the object's cap in the transaction
//     that records it, in integers.
//   - An object has one response to a question at an ε, for all callers, until it is forgotten.
//   - Every request that changes something takes an idempotency key. The same key with the same
//     request returns the same result; with another request, an [api.KeyConflictError]. A host that
//     uses the id of its order row gets exactly one draw for each order (example "exactly once").
//   - A true value is in no file, log line or error. No refusal depends on which value it is.
//   - A refusal changes nothing, and says what would help ([api.RefusedError], [api.QuoteError]).
//   - The log is a Merkle tree. A [Ledger.Checkpoint] kept elsewhere proves later that nothing
//     before it was changed or dropped. With [Options.Checkpoint], Open refuses older copies.
//
// docs/guarantees.md has the complete list, and what is not guaranteed.
//
// A ledger may be used by any number of goroutines. Concurrent calls that change it share commits;
// a single call commits at once. After a failed commit the ledger refuses all work with
// [api.ErrStopped], because the commit may be durable or not. Open it again, and repeat the
// request.
//
// # Evidence
//
// A buyer has a [Ledger.Receipt] for each sale: every response and price, proven to be in the log.
// A seller has a [Ledger.Statement]: all events about one object, proven complete. Both are
// verified offline, with only the host's verifier key. An auditor has the file and a checkpoint
// from an independent party, and runs [Ledger.Verify]: every balance, level, price and answer
// follows from the events, and the events are those of the checkpoint. None of them proves that
// draws were random, or that the host gave the real true values. [Ledger.Forget] destroys
// everything about an object, and leaves all proofs valid.
//
// # What to do with an error
//
// [api.ErrInvalid] (unless it is an [api.ErrTruthSource]) and [api.KeyConflictError] are final: the
// same request fails again. After [api.ErrForgotten] the request was executed, and its result is
// destroyed. For [api.RefusedError], [api.QuoteError], [api.ErrUnknown] and [api.ReservationError],
// the state did not allow the request: nothing has happened, and the same request may succeed later
// with its key. After every other error, repeat the request with its key until it returns a result.
// A [*api.RollbackError] of Open needs an operator: that file may draw again what was drawn.
// docs/reference/errors.md lists all remedies.
//
// # One way to change the state
//
// A request is decided against the state in its transaction and yields events that hold every
// outcome, including the drawn response. Only events change the state, in one function. So the
// state is the fold of the log, and can be recomputed and compared. [Ledger.Forget] also erases
// what events contain about an object. See docs/contributing/ARCHITECTURE.md;
// docs/reference/file-format.md describes every byte.
package ledger
