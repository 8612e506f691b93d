// Package house holds the plan of the code: which packages there are, what each is for, and what
// each may import. Its test reads the code and finds what does not follow the plan.
package house
