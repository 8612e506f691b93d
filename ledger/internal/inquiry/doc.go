// Package inquiry answers queries about panels: who can be charged, what an answer costs beside those recorded, and the answer itself, drawn
// from true values by package mechanism, or derived from what is recorded. It rests on the layers of requests.
package inquiry
