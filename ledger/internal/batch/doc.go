// Package batch carries out requests over many objects, in parts of bounded size: what a request does with its objects is one
// interface, [Work]. It knows how far a request has come by its idempotency key, and goes on after the last part that was
// committed. It rests on engine and rules.
package batch
