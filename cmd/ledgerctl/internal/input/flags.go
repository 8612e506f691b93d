package input

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
)

// None is the flags of a command that has none.
type None struct{}

// Command returns a command whose flags are the fields of F (see [Define]), and whose arguments are
// the words of use before its first flag: "make SALE --out FILE" takes one argument, and "withdraw
// OBJECT…" one or more. The files of flags that are an [Output] are begun before it runs.
func Command[F any](s *Files, use string, run func(cmd *cobra.Command, args []string, f *F) error) *cobra.Command {
	f := new(F)
	cmd := &cobra.Command{Use: use, Args: arguments(use), RunE: func(cmd *cobra.Command, args []string) error {
		for _, out := range outputsOf(reflect.ValueOf(f).Elem()) {
			if err := s.begin(out); err != nil {
				return err
			}
			defer out.Discard()
		}
		return run(cmd, args, f)
	}}
	Define(cmd, cmd.Flags(), f)
	return cmd
}

// outputsOf returns the flags of a struct, and of the structs in it, that are an [Output].
func outputsOf(fields reflect.Value) (all []*Output) {
	if fields.Kind() != reflect.Struct {
		return nil
	}
	for i := range fields.NumField() {
		tag, tagged := fields.Type().Field(i).Tag.Lookup("flag")
		out, is := (*Output)(nil), false
		if tagged {
			out, is = fields.Field(i).Addr().Interface().(*Output)
		}
		if is {
			out.by, _, _ = strings.Cut(tag, ",")
			all = append(all, out)
		} else if !tagged {
			all = append(all, outputsOf(fields.Field(i))...)
		}
	}
	return all
}

// Group returns a command that only has others below it, and asks which one is meant. path is its
// name and those of the commands above it.
func Group(path, ask string, below ...*cobra.Command) *cobra.Command {
	names := strings.Fields(path)
	cmd := &cobra.Command{Use: names[len(names)-1], RunE: func(*cobra.Command, []string) error {
		return output.UsageError(fmt.Sprintf(`run "ledgerctl %s --help"`, path), "%s", ask)
	}}
	cmd.AddCommand(below...)
	return cmd
}

// arguments returns the check of how many arguments a command has.
func arguments(use string) cobra.PositionalArgs {
	before, _, _ := strings.Cut(use, " --")
	n := len(strings.Fields(before)) - 1
	switch {
	case n == 0:
		return cobra.NoArgs
	case strings.HasSuffix(before, "…"):
		return cobra.MinimumNArgs(n)
	}
	return cobra.ExactArgs(n)
}

// Define adds a flag for each field of a struct, and of the structs in it, that has a tag. The tag
// flag has the flag's name, and after commas what else is to be known of it:
//
//   - required: the command makes no sense without it;
//   - repeated: a list has an item for each time that the flag is given, not for each comma;
//   - positive: it is above 0; the tag zero says what helps instead of 0;
//   - empty: an empty text means something;
//   - not=NAME: it excludes another flag, and needs=NAME: it makes no sense without another one;
//   - reads, writes: it names a file that the command reads or writes; reads@ is for a text or
//     @FILE, and reads= for NAME=FILE.
//
// The tag default has the value of a flag that is not given, values has those that the shell
// completes, ext has the extension of the file, and kind says what a file that is written is to a
// ledger. What a flag means is said where the help of its command is.
func Define(cmd *cobra.Command, flags *pflag.FlagSet, into any) {
	define(cmd, flags, reflect.ValueOf(into).Elem())
}

func define(cmd *cobra.Command, flags *pflag.FlagSet, fields reflect.Value) {
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		text, tagged := field.Tag.Lookup("flag")
		switch {
		case tagged:
			f := defineOne(flags, text, fields.Field(i).Addr().Interface())
			annotate(cmd, f, field.Tag, strings.Split(text, ",")[1:])
		case field.Type.Kind() == reflect.Struct:
			define(cmd, flags, fields.Field(i))
		}
	}
}

// defineOne adds the flag of one field.
func defineOne(flags *pflag.FlagSet, text string, into any) *pflag.Flag {
	name, options, _ := strings.Cut(text, ",")
	switch at := into.(type) {
	case *string:
		flags.StringVar(at, name, "", "")
	case *bool:
		flags.BoolVar(at, name, false, "")
	case *int:
		flags.IntVar(at, name, 0, "")
	case *int64:
		flags.Int64Var(at, name, 0, "")
	case *uint64:
		flags.Uint64Var(at, name, 0, "")
	case *float64:
		flags.Float64Var(at, name, 0, "")
	case *time.Duration:
		flags.DurationVar(at, name, 0, "")
	case *[]int:
		flags.IntSliceVar(at, name, nil, "")
	case *[]privacy.Epsilon:
		flags.Var(&epsilons{at}, name, "")
	case *[]string:
		if slices.Contains(strings.Split(options, ","), "repeated") {
			flags.StringArrayVar(at, name, nil, "")
		} else {
			flags.StringSliceVar(at, name, nil, "")
		}
	case pflag.Value:
		flags.Var(at, name, "")
	case encoding.TextUnmarshaler:
		zero := reflect.Zero(reflect.TypeOf(into).Elem()).Interface()
		flags.TextVar(at, name, zero.(encoding.TextMarshaler), "")
	default:
		panic(fmt.Sprintf("flag --%s: no flag can be a %T", name, into))
	}
	return flags.Lookup(name)
}

// annotate notes what the tags of a flag say.
func annotate(cmd *cobra.Command, f *pflag.Flag, tags reflect.StructTag, options []string) {
	note := func(key string, values ...string) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[key] = values
	}
	for _, option := range options {
		switch rule, other, _ := strings.Cut(option, "="); rule {
		case "required":
			note(cobra.BashCompOneRequiredFlag, "true")
		case isPositive:
			hint := tags.Get("zero")
			if hint == "" && tags.Get("default") != "" {
				hint = "leave it out for the default"
			}
			note(rule, hint)
		case mayBeEmpty, excludes, needs:
			note(rule, other)
		}
		switch option {
		case "reads":
			note(FileNote, string(Reads), string(ByName))
		case "reads@":
			note(FileNote, string(Reads), string(AtName))
		case "reads=":
			note(FileNote, string(Reads), string(Labeled))
		case "writes":
			note(FileNote, string(Writes), string(ByName), tags.Get("kind"))
		}
	}
	if ext := tags.Get("ext"); ext != "" {
		note(cobra.BashCompFilenameExt, ext)
	}
	if otherwise := tags.Get("default"); otherwise != "" {
		if err := f.Value.Set(otherwise); err != nil {
			panic(fmt.Sprintf("flag --%s: the default %q: %v", f.Name, otherwise, err))
		}
		f.DefValue = f.Value.String()
	}
	if values := strings.Fields(tags.Get("values")); len(values) > 0 {
		// It fails only for a flag that is not defined.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// The rules of flags that are annotations.
const (
	isPositive = "positive"
	mayBeEmpty = "empty"
	excludes   = "not"
	needs      = "needs"
)

// CheckFlags refuses what is wrong with the flags of any command. An empty text is most often a
// variable of the shell that is not set, and must not count as a flag that is left out.
func CheckFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkFlag(flags, f)
		}
	})
	return err
}

// checkFlag checks the rules of a flag that is given.
func checkFlag(flags *pflag.FlagSet, f *pflag.Flag) error {
	rule := func(name string) (other string, is bool) {
		values, is := f.Annotations[name]
		return strings.Join(values, ""), is
	}
	isGiven := func(name string) bool {
		other := flags.Lookup(name)
		return other != nil && other.Changed && other.Value.String() != "false"
	}
	value := f.Value.String()
	if _, is := rule(mayBeEmpty); value == "" && f.Value.Type() == "string" && !is {
		return output.UsageError("is a variable of the shell not set? leave the flag out if nothing is meant",
			"--%s is empty", f.Name)
	}
	if hint, is := rule(isPositive); is && !(numberOf(f.Value) > 0 && numberOf(f.Value) < math.Inf(1)) {
		return output.UsageError(hint, "--%s must be above 0", f.Name)
	}
	if other, is := rule(excludes); is && value != "false" && isGiven(other) {
		return output.UsageError("give one of them", "--%s and --%s exclude each other", f.Name, other)
	}
	if other, is := rule(needs); is && value != "false" && !isGiven(other) {
		return output.UsageError("add --"+other+", or leave it out", "--%s is for --%s", f.Name, other)
	}
	return nil
}

// numberOf returns the number that a flag has: a duration in seconds. It is NaN for others.
func numberOf(value pflag.Value) float64 {
	if d, err := time.ParseDuration(value.String()); err == nil {
		return d.Seconds()
	}
	n, err := strconv.ParseFloat(value.String(), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// Amount is a flag for an amount of money, in minor units of the ledger's currency.
type Amount struct {
	Units *int64 // nil if it is not given
}

// hundredths is an amount as people write it where the minor unit is a hundredth.
var hundredths = regexp.MustCompile(`^([0-9][0-9,']*[.][0-9]{2})( ?[A-Za-z]{3})?$`)

// Set implements [pflag.Value]. An amount with a decimal point is refused: the flag does not know how
// many decimals the ledger's currency has.
func (a *Amount) Set(text string) error {
	units, err := strconv.ParseInt(text, 10, 64)
	if err == nil && units >= 0 {
		a.Units = &units
		return nil
	}
	parts := hundredths.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is not an amount: it is a whole number from 0 on, in minor units of the currency "+
			"(cents, say)", text)
	}
	digits := strings.TrimLeft(strings.NewReplacer(",", "", "'", "", ".", "").Replace(parts[1]), "0")
	return fmt.Errorf("%q is not an amount: amounts are in minor units; if the minor unit is a hundredth, write %s",
		text, cmp.Or(digits, "0"))
}

// String implements [pflag.Value].
func (a *Amount) String() string {
	if a.Units == nil {
		return ""
	}
	return strconv.FormatInt(*a.Units, 10)
}

// Type implements [pflag.Value].
func (a *Amount) Type() string { return "AMOUNT" }

// epsilons is a flag for a list of ε, which are separated by commas or given by a flag each.
type epsilons struct{ all *[]privacy.Epsilon }

// Set implements [pflag.Value].
func (e *epsilons) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		epsilon, err := privacy.ParseEpsilon(item)
		if err != nil {
			return err
		}
		*e.all = append(*e.all, epsilon)
	}
	return nil
}

// String implements [pflag.Value]: the flags have no defaults.
func (e *epsilons) String() string { return "" }

// Type implements [pflag.Value].
func (e *epsilons) Type() string { return "epsilons" }
