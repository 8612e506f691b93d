package state

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// The contents of the record of the format.
const (
	FormatName = "sluice ledger "
	// Former versions: 1 had no sales, 2 no tree, 3 no encodings, 4 no scores, 5 no journal. 6 had
	// no orders by buyer, and had names in all digests. None of them was released.
	FormatVersion = 7
)

// CheckVersion reads only the record of the format. It returns [errs.ErrVersion] for a file of
// another version of the format, and [errs.ErrCorrupt] for a file that is not a ledger.
func CheckVersion(r kv.Reader) error {
	version, err := r.Get(BucketMeta, []byte(KeyFormat))
	if err != nil {
		return err
	}
	rest, ours := strings.CutPrefix(string(version), FormatName)
	if !ours || len(rest) != 2 { // the version has 2 bytes
		return fmt.Errorf("%w: the file is not a Sluice ledger", errs.ErrCorrupt)
	}
	if v := binary.BigEndian.Uint16([]byte(rest)); v != FormatVersion {
		return fmt.Errorf("%w: version %d; this program reads version %d", errs.ErrVersion, v, FormatVersion)
	}
	return nil
}
