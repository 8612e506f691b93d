// Package terms says what the terms of an object let be asked of it: at which levels it is on offer, to whom, when, to how many buyers.
// Whether its budget has room is another question.
//
// The same rules decide an order (a [Bid]) before anything is recorded, and are asked again by package fold about a log that is read.
// They read the state and change nothing. The package rests on state.
package terms
