package state

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// What the record of the format says.
const (
	FormatName = "sluice ledger "
	// 1 had no sales, 2 no tree, 3 no encodings, 4 no scores, 5 no journal, 6 no orders by buyer,
	// and names in all digests; none was released
	FormatVersion = 7
)

// CheckVersion returns [errs.ErrVersion] for a file in another version of the format, and
// [errs.ErrCorrupt] for none of ours. It reads nothing else.
func CheckVersion(r kv.Reader) error {
	version, err := r.Get(BucketMeta, []byte(KeyFormat))
	if err != nil {
		return err
	}
	rest, ours := strings.CutPrefix(string(version), FormatName)
	if !ours || len(rest) != 2 {
		return fmt.Errorf("%w: not a Sluice ledger", errs.ErrCorrupt)
	}
	if v := binary.BigEndian.Uint16([]byte(rest)); v != FormatVersion {
		return fmt.Errorf("%w: version %d; this program reads version %d", errs.ErrVersion, v, FormatVersion)
	}
	return nil
}
