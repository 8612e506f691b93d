package mechanism

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseQuery reads a query about records that hold one of the given values:
//
//	majority:VALUE      do more than half of all records hold VALUE?
//	threshold:VALUE:N   do at least N records hold VALUE?
//	plurality           which value is the commonest, by a ranking of all values?
//	winner              which value is the commonest?
//
// [Query] describes them. VALUE must be equal to one of the values. It may contain colons, and be
// empty. For a majority, it is the text after the first colon. For a threshold, it is the text
// between the first colon and the last. N is a decimal integer of 64 bits as Go prints it, without
// a plus sign or leading zeros. Each query therefore has a single text, which [Query.Text] returns.
//
// ParseQuery returns [privacy.ErrInvalid] for any other text, for a repeated value, and for fewer
// than two or more than 1,024 values.
func ParseQuery(text string, values []string) (Query, error) {
	q, err := parseQuery(text, values)
	if err == nil {
		err = q.fits(values)
	}
	if err != nil {
		return Query{}, err
	}
	return q, nil
}

func parseQuery(text string, values []string) (Query, error) {
	name, rest, more := strings.Cut(text, ":")
	switch {
	case name == "majority" && more:
		value, err := numberOf(rest, values)
		return majority(value), err
	case name == "threshold" && more:
		return parseThreshold(text, rest, values)
	case text == "plurality":
		return plurality(), nil
	case text == "winner":
		return winner(), nil
	}
	return Query{}, invalid("query %.300q: expected majority:VALUE, threshold:VALUE:N, plurality or winner", text)
}

// maxDigits is the largest length of a threshold, including its sign.
const maxDigits = 20

func parseThreshold(text, rest string, values []string) (Query, error) {
	colon := strings.LastIndexByte(rest, ':')
	if colon < 0 {
		return Query{}, invalid("query %.300q: expected threshold:VALUE:N", text)
	}
	digits := rest[colon+1:]
	t, err := strconv.ParseInt(digits[:min(len(digits), maxDigits+1)], 10, 64)
	if err != nil || strconv.FormatInt(t, 10) != digits {
		return Query{}, invalid("threshold %.40q is not a decimal integer of 64 bits", digits)
	}
	value, err := numberOf(rest[:colon], values)
	return threshold(value, t), err
}

func numberOf(value string, values []string) (int, error) {
	number := slices.Index(values, value)
	if number < 0 {
		const most = 12
		if len(values) > most {
			return 0, invalid("there is no value %.256q among the %d given", value, len(values))
		}
		var among []string
		for _, v := range values {
			among = append(among, fmt.Sprintf("%.256q", v))
		}
		return 0, invalid("there is no value %.256q among %s", value, strings.Join(among, ", "))
	}
	return number, nil
}

// fits returns [privacy.ErrInvalid] unless the query is valid for these values and all values are
// different. If two values were equal, neither a query nor an answer would identify a value.
func (q Query) fits(values []string) error {
	if err := q.Validate(len(values)); err != nil {
		return err
	}
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			return invalid("value %q is given twice", value)
		}
	}
	return nil
}

// Text returns the text that [ParseQuery] reads as this query. It returns [privacy.ErrInvalid] if
// the query does not pass [Query.Validate] or a value is repeated.
func (q Query) Text(values []string) (string, error) {
	if err := q.fits(values); err != nil {
		return "", err
	}
	switch q.kind {
	case kindPlurality:
		return "plurality", nil
	case kindWinner:
		return "winner", nil
	}
	text := ":" + values[q.value]
	if q.kind == kindMajority {
		return "majority" + text, nil
	}
	return "threshold" + text + ":" + strconv.FormatInt(q.threshold, 10), nil
}

// Answers returns the text of each output: "no" and "yes", or the values for a plurality and a
// winner. It returns [privacy.ErrInvalid] if the query does not pass [Query.Validate] or a value is
// repeated.
func (q Query) Answers(values []string) ([]string, error) {
	if err := q.fits(values); err != nil {
		return nil, err
	}
	if q.kind == kindPlurality || q.kind == kindWinner {
		return slices.Clone(values), nil
	}
	return []string{answerNo: "no", answerYes: "yes"}, nil
}
