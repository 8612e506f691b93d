package output

import (
	"bytes"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// In a pipe nothing is shown, and nobody needs to tell how far the work is.
func TestBar_InAPipe_ShowsNothing(t *testing.T) {
	var out bytes.Buffer
	bar, feed := NewBar(&out, false, "raising")
	check.That(t, feed == nil, "progress is asked for")
	bar.Clear()
	check.That(t, out.Len() <= 0, "shown: %q", &out)
}
