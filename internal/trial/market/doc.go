// Package market tests two hosts that sell through a ledger, with the public API only. It has only
// tests.
//
// # A month
//
// The month (month_test.go) is a month of a market over the health insurance survey of 1996. People
// sell their answers to two questions, each with terms of their own, to three buyers. One buyer
// returns for more, two pool what they bought, one person withdraws and is forgotten, and the host
// pauses for six days. At the end, the books must balance: what buyers paid is what sellers earned,
// no person is over budget, and a subscriber who saw only the events has the same accounts.
//
// The quick form takes every tenth person and runs with all other tests. The long form takes all
// 8,802.
//
// # A shop
//
// The shop (shop_test.go) is the backend of a small data market. It keeps its orders in an SQL
// database (SQLite here), sells through a ledger in a file, and charges cards at another company.
// None of the three can commit together with another. Still every order is sold once, charged once
// and delivered once, wherever the process is killed: before and after each of its steps, and at
// random.
//
// # The steps
//
// An order has an id that its buyer chose, so that a buyer without an answer can send it again. The
// id is the idempotency key everywhere: in the ledger and at the card company.
//
//  1. place: a row in the table orders, in the state "placed". Committed.
//  2. The ledger. For a buyer who pays by invoice: Sell with the id as the key. For a buyer who
//     pays by card: Reserve, charge the card, Capture; or Cancel, if the card is declined.
//  3. outcome: one SQL transaction writes the deliveries and the payment, and makes the order
//     "sold", or "refused" with the reason. This commit decides.
//  4. refund: the part of the charge for what the buyer does not get is paid back.
//  5. answer: the buyer gets what the SQL database contains.
//
// When the backend starts, it first continues every order that is "placed" and every refund that is
// due, from the first step and with the same keys.
//
// # Why that is exactly once
//
// At least once: a placed order stays placed until its outcome is committed, and is tried until
// then. At most once: every step except the answer finds what an earlier process did. In detail, a
// process that dies
//
//   - before place is committed leaves nothing. The buyer has no answer and sends the order again.
//   - before the ledger's commit leaves a placed order that the ledger does not know. It is sold
//     after the next start.
//   - after the ledger's commit leaves a sale that the SQL database does not know. Here a second
//     draw, or a second charge to people's budgets, would be possible. But the key and the request
//     are the same as before, so the ledger returns the recorded sale and changes nothing. (The
//     request is the same because all of it is in the row of the order. If it were built again,
//     from a price list for example, the ledger would return api.KeyConflictError.)
//   - after the charge leaves a buyer who has paid and a reservation. The card company knows the
//     key and does not charge again, and the reservation is captured. If it expired while the host
//     was down, the order is refused and the money is paid back.
//   - after outcome leaves an order that is done. No later process passes it to the ledger. Only a
//     refund may be due, and for that the company knows the key.
//   - while answering leaves a buyer without an answer, or with one. A repeated request gets the
//     same bytes.
//
// # Refusals
//
// When the ledger refuses an order, it changes nothing and its key stays free. So if the process
// dies between the refusal and the outcome, the next process tries again, and may sell what was
// refused: budget may have become free, or people may have enrolled since. That is no
// contradiction, because no buyer has got the refusal. Once the outcome "refused" is committed, it
// stays, because the ledger is not called again. A buyer who wants another try places another
// order.
//
// One case remains: two workers with one order. One might be refused, the other sell the order a
// moment later, and the first then record the refusal. So only one worker has an order at a time:
// within the process because of a lock on its id, and among processes because the ledger's file is
// opened first, and only one process can have it open.
//
// With a card, the money must not be paid back before it is certain that the order is not sold. So
// nothing is paid back before the outcome is committed: after that, no process tries to capture the
// reservation again.
//
// # Selling at once, or reserving first
//
// If buyers pay later, by invoice or from an account, Sell is enough: the outcome in SQL is the
// claim. If buyers pay first, an earlier sale might never be paid for, and an earlier charge might
// be for budgets that another buyer has used. Reserve holds budget and price while the card is
// charged, and draws nothing. So a declined card costs no privacy.
//
// # What is assumed
//
// Each of the three keeps what it has committed. SQLite does so in WAL mode only with
// synchronous=FULL. After one of them was restored from a backup, they must be compared before work
// continues (shop_checks_test.go shows how). The ledger never forgets a sale, and a restored host
// would find its orders sold.
package market
