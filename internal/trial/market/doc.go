// Package market has only tests, of two hosts that sell through a ledger.
//
// # A month
//
// The month (month_test.go) is a month of a market on the public API, over the health insurance
// survey of 1996. People sell their answers to two questions, each on terms of
// their own, to three buyers. One buyer comes back for more, two pool what they bought, somebody
// withdraws and is forgotten, and the host pauses for six days. In the end the books are closed:
// what buyers paid is what sellers earned, nobody is over budget, and a subscriber who saw nothing
// but the events has come to the same accounts.
//
// The quick form takes every tenth person and runs with all other tests; the long form takes all
// 8,802.
//
// # A shop
//
// The shop (shop_test.go) is the backend of a small data market, on the public API. It keeps its
// orders in an SQL database (SQLite here), sells through a ledger in a file beside it, and charges
// cards at a company elsewhere. None of the three can commit together with another.
// Still every order is sold once, charged once and delivered once, wherever the process is killed:
// before and after each of its steps, and at random.
//
// # The steps
//
// An order has an id that its buyer made up, so that a buyer who heard nothing can send it again.
// The id is the idempotency key everywhere: in the ledger and at the card company.
//
//  1. place: a row in the table orders, in the state "placed". Committed.
//  2. The ledger. Of a buyer who pays by invoice: Sell with the id as the key. Of one
//     who pays by card: Reserve, charge the card, Commit; or Cancel, if the card is declined.
//  3. outcome: one SQL transaction writes the deliveries and the payment and makes the order "sold",
//     or "refused" with the reason. It is this commit that decides.
//  4. refund: what the card was charged for and the buyer does not get is paid back.
//  5. answer: the buyer is told what the SQL database says.
//
// Whoever starts the backend carries on, before anything else, every order that is "placed" and
// every refund that is due, from the top and with the same keys.
//
// # Why that is exactly once
//
// At least once: an order that is placed stays placed until its outcome is committed, and is tried
// until then. At most once: every step but the answer finds what an earlier life did. In detail, a
// process that dies
//
//   - before place is committed leaves nothing. The buyer has heard nothing and sends the order again.
//   - before the ledger's commit leaves a placed order that the ledger does not know. It is sold when
//     the host is back.
//   - after it leaves a sale that the SQL database does not know. This is the window that a second
//     draw, or a second charge to people's budgets, would come from. But the key and the request are
//     the same as before, so the ledger returns the recorded sale and changes nothing. (The request
//     is the same because all of it stands in the row of the order. Had it been put together anew,
//     from a price list say, the ledger would rightly say api.KeyConflictError.)
//   - after the charge leaves a buyer who has paid and a reservation. The card company knows the key
//     and does not charge again; the reservation is committed. If it lapsed while the host was down,
//     the order is refused and the money goes back.
//   - after outcome leaves an order that is done. No later life offers it to the ledger; only a refund
//     may be due, and there the company knows the key again.
//   - while answering leaves a buyer without an answer, or with one. Who asks again gets the same bytes.
//
// # Refusals
//
// When the ledger refuses an order, it changes nothing and its key stays free. So if the process
// dies between the refusal and the outcome, the next life asks again, and may be sold what was
// refused: budget may have become free meanwhile, or somebody may have enrolled. That is no
// contradiction, as nobody had been told. Once the outcome "refused" is committed, it holds,
// because no one asks the ledger again; a buyer who wants another try places another order.
//
// This leaves one thing to care for: two workers on one order. One might be refused, the other be
// sold the order a moment later, and the first then record the refusal. So an order is in one hand
// at a time, in the process by a lock on its id, and among processes because the ledger's file is
// opened before all else, and only one process can have it open.
//
// By card, the money must not go back before it is certain that the order is not sold. So nothing
// is paid back before the outcome is committed: then no life will try to commit the reservation
// again.
//
// # Selling at once, or reserving first
//
// Where buyers pay later, by invoice or from an account, Sell is enough: the outcome in SQL is the
// claim. Where money must come first, a sale before it could be one that is never paid for, and
// money before the sale may have been taken for people whose budget has gone to somebody else.
// Reserve holds budget and price while the card is being charged, and draws nothing; so a declined
// card costs nobody any privacy.
//
// # What is assumed
//
// Each of the three keeps what it has committed. SQLite does so in WAL mode only with
// synchronous=FULL. After a restore of one of them from a backup, they must be compared
// (shop_checks_test.go shows how) before work goes on: the ledger never forgets a sale, and a host
// that did would find its orders sold.
package market
