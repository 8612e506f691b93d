package main

import (
	"errors"
	"time"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Both databases have the same tables. Only the names of types differ.

// selectOver counts the objects after a name, the first parameter, that have no budget for a raise
// to an ε, the second parameter.
const selectOver = `
	SELECT count(*) FROM (
		SELECT o.cap, o.spent, c.ceiling, coalesce((
			SELECT max(epsilon) FROM levels l WHERE l.question = 1 AND l.object = o.id), 0) AS current
		FROM objects o JOIN chains c ON c.question = 1 AND c.object = o.id
		WHERE o.name > $1) AS all_of
	WHERE current < $2 AND (ceiling < $2 OR cap < spent + $2 - current)`

// selectObject is the beginning of a query of objects with their levels.
const selectObject = `
	SELECT o.id, o.name, o.cap, o.spent, c.ceiling, o.latest, o.events, o.settled, o.settles, l.epsilon, l.response, l.event
	FROM objects o
	JOIN chains c ON c.question = 1 AND c.object = o.id
	LEFT JOIN levels l ON l.question = 1 AND l.object = o.id `

// cursor is the interface of rows that both drivers have.
type cursor interface {
	Next() bool
	Scan(to ...any) error
	Err() error
}

// collectObjects reads objects from rows. The rows of an object are adjacent: one for each level,
// or a single one without a level.
func collectObjects(rows cursor) (found []*object, err error) {
	var o object
	var limit, spent, ceiling int64
	var epsilon, response, event *int64
	for rows.Next() {
		err := rows.Scan(&o.id, &o.name, &limit, &spent, &ceiling, &o.latest, &o.events, &o.settled, &o.settles,
			&epsilon, &response, &event)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 || found[len(found)-1].id != o.id {
			one := o
			if err := one.setBudget(limit, spent, ceiling); err != nil {
				return nil, err
			}
			found = append(found, &one)
		}
		if epsilon == nil {
			continue
		}
		at, err := privacy.EpsilonFromNano(*epsilon)
		if err != nil {
			return nil, err
		}
		last := found[len(found)-1]
		made := rrchain.Level[int]{Epsilon: at, Response: int(*response)}
		last.levels = append(last.levels, level{made, uint64(*event)})
	}
	return found, rows.Err()
}

// setBudget sets the cap, the spent budget and the ceiling of an object, in nano-nats.
func (o *object) setBudget(limit, spent, ceiling int64) error {
	var errs [3]error
	o.cap, errs[0] = privacy.EpsilonFromNano(limit)
	o.spent, errs[1] = privacy.EpsilonFromNano(spent)
	o.ceiling, errs[2] = privacy.EpsilonFromNano(ceiling)
	return errors.Join(errs[:]...)
}

func unix(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }
