package engine

import (
	"errors"
	"iter"
	"slices"
	"testing"
)

// counted makes numbers up to an error, and tells when it has ended.
func counted(most int, err error, ended *bool) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer func() { *ended = true }()
		for i := range most {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// What is made ahead comes in its order, with the error behind it, and nothing goes on when nobody reads any more.
func TestWhatIsMadeAheadComesInOrder(t *testing.T) {
	fault := errors.New("a fault")
	for _, stop := range []int{1, 5, 10, 1000} {
		for _, want := range []error{nil, fault} {
			var got []int
			var met error
			ended := false
			for n, err := range ahead(counted(10, want, &ended)) {
				if met = err; err == nil {
					got = append(got, n)
				}
				if len(got) == stop || err != nil {
					break
				}
			}
			most := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			if len(got) != min(stop, 10) || !slices.Equal(got, most[:len(got)]) || !ended {
				t.Errorf("up to %d there is %v; it has ended: %v", stop, got, ended)
			}
			if (met != nil) != (want != nil && stop > 10) {
				t.Errorf("up to %d the error is %v", stop, met)
			}
		}
	}
}
