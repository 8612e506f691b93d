// Package telling puts what the log says in the words of package history: names for numbers, and texts for responses.
//
// It reads the state and changes nothing. The package rests on state and history.
package telling
