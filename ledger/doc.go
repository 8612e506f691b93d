// Package ledger keeps, for each object and question, the ε released so far and every response
// handed out, and draws the next response when a policy and a budget allow it.
//
//	l, err := ledger.Open(ctx, "panel.db", ledger.Options{})
//	defer l.Close()
//	response, err := l.Release(ctx, api.ReleaseRequest{
//		Key: orderID, Question: "vote", Object: "person-17", Epsilon: half, TrueValue: "yes",
//	})
//
// An object is one privacy unit, such as a person. A question has a fixed list of values. The truth
// stays with the host. The responses of one object to one question form a chain (package rrchain):
// each is drawn at its ε, by the question's encoding or [api.Mechanism]. Together they cost the
// object the largest ε only, and a response at or below the current level is free and needs no
// truth. Across its chains an object's spending adds up, and no draw takes it above its cap.
//
// A query about a panel of objects, such as whether a majority says yes, has one [Ledger.Answer] by
// the mechanism that is optimal at its ε (package mechanism). It is charged to everybody in the
// panel. Answers to different queries add up with each other and with the chains; those to one
// query about a majority or a threshold cost the largest ε together. Responses and answers are drawn
// from chance or, with [Options.NoiseKey], from a key of the host's ([NoiseKeys]).
//
// # The market
//
// What a policy (package policy) allows may grow with time. [Ledger.Advance] draws what has been
// released, [Ledger.Watch] streams it. A policy with terms of sale puts a chain on the market:
//
//   - [Ledger.Quote] says what an order costs, whom it would refuse and how the responses would
//     come about, and changes nothing.
//   - [Ledger.Sell] carries an order out in one transaction: responses, charges, prices, credits.
//     It can be held to a quote. Buyers read what they bought with [Ledger.Deliveries].
//   - [Ledger.Reserve] holds budget and price while a buyer pays. [Ledger.Capture] or
//     [Ledger.Cancel] ends that, or time does.
//   - [Ledger.Withdraw] takes an object off the market, and out of everything else.
//
// A buyer who upgrades pays the price of the level less what it has paid for the object; the same
// responses are sold to every buyer. [Ledger.ChangeTerms] changes policies and caps;
// [Ledger.Reconcile] brings the ledger in line with a host's own table. Terms of sale bind orders;
// the host's own releases ([Ledger.Raise]) are bound by ceilings and caps only.
//
// # What can be relied on
//
//   - A response is on disk before a caller sees it. The process may die at any instant. What was
//     committed last is in a directory beside the file, NAME.journal, which belongs to it: see
//     [Open]. Elsewhere ([Options.Journal]) the journal outlives the machine: a standby follows it
//     ([Options.Standby]), and takes over ([Ledger.TakeOver]).
//   - Every draw is checked against the chain's ceiling and the object's cap in the transaction
//     that records it, in integers.
//   - An object has one response to a question at an ε, for everyone, until it is forgotten.
//   - Every request that changes something takes an idempotency key. The same key with the same
//     request returns the same result; with another request, [api.KeyConflictError]. A host that
//     uses the id of its order row gets exactly one draw for each order (example "exactly once").
//   - The truth appears in no file, log line or error. No refusal depends on which value it is.
//   - A refused call changes nothing and says what would help ([api.RefusedError], [api.QuoteError]).
//   - The log is a Merkle tree. A [Ledger.Checkpoint] kept elsewhere proves later that nothing
//     before it was changed or dropped. With [Options.Checkpoint] no older copy of the file opens.
//
// The list in full, and what is not guaranteed, is in docs/guarantees.md.
//
// Calls may come from any number of goroutines. Those that change the ledger share commits; one
// that comes alone commits at once. After a failed commit the ledger refuses all further work with
// [api.ErrStopped], because only the file, opened again, can tell whether the commit holds. Open it
// again and repeat the request with its key.
//
// # Evidence
//
// A buyer has a [Ledger.Receipt] for each sale: every response and price, proven to be in the log.
// A seller has a [Ledger.Statement]: every event about one object, proven to be all of them. Both
// are verified offline, with nothing but the host's verifier key. An auditor has the file and a
// checkpoint from somebody else, and runs [Ledger.Verify]: every balance, level, price and answer
// follows from the events, and the events are those of the checkpoint. None of them proves that
// draws were random, or that the host told the ledger the truth. [Ledger.Forget] destroys what
// there is about an object, and leaves all proofs as they were.
//
// # What to do with an error
//
// A request is decided for good by [api.ErrInvalid] (unless it is an [api.ErrTruthSource]) and
// [api.KeyConflictError]: the same request fails again. [api.ErrForgotten] says that it was carried
// out, and that what came of it is destroyed. [api.RefusedError], [api.QuoteError],
// [api.ErrUnknown] and [api.ReservationError] say what the state did not allow: nothing has
// happened, the key is free, and the same request may succeed later. After every other error,
// repeat the request with its key until it is answered. A [*api.RollbackError] of Open is for
// people: that file may draw again what was drawn. docs/reference/errors.md lists all remedies.
//
// # One way to change the state
//
// A request is decided against the state in its transaction and yields events that hold every
// outcome, the drawn response included. Only events change the state, in one function. So the state
// is the fold of the log, and can be recomputed and compared. [Ledger.Forget] also erases what events
// say of an object. See docs/contributing/ARCHITECTURE.md; docs/reference/file-format.md describes
// every byte.
package ledger
