package input

import (
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// CheckFlags refuses what is wrong with the flags of any command. An empty text is most often a
// variable of the shell that is not set, and must not count as a flag that is left out.
func CheckFlags(flags *pflag.FlagSet) (err error) {
	if rows := flags.Lookup("id-rows"); rows != nil && rows.Value.String() == "true" && flags.Changed("id-column") {
		return output.UsageError("give one of them", "--id-rows and --id-column exclude each other")
	}
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && f.Annotations[MayBeEmpty] == nil && err == nil {
			err = output.UsageError("is a variable of the shell not set? leave the flag out if nothing is meant",
				"--%s is empty", f.Name)
		}
	})
	return err
}

// MayBeEmpty is the annotation of flags for which an empty text means something.
const MayBeEmpty = "sluice_may_be_empty"
