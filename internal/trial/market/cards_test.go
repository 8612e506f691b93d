package market

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// cards stands in for the card company, whose books nobody else can commit to. What matters is that
// it honours idempotency keys, as real ones do.
type cards struct {
	db  *sql.DB
	now func() time.Time
}

// blockedCard is a card that is always declined.
const blockedCard = "blocked"

const cardsSchema = `
create table if not exists charges (
	key      text    primary key,
	card     text    not null,
	amount   integer not null,
	declined text    not null, -- why, or '' for a charge that was paid
	refunded integer not null default 0 check (refunded between 0 and amount)
) strict;`

func openCards(ctx context.Context, path string, now func() time.Time) (*cards, error) {
	db, err := openSQLite(ctx, path, cardsSchema)
	if err != nil {
		return nil, err
	}
	return &cards{db, now}, nil
}

// charge is a request to the card company.
type charge struct {
	Key    uuid.UUID
	Card   string
	Amount int64
	Before time.Time // decline it if it comes later
}

// charge takes money from a card, or declines. The first request with a key decides; others with the
// same key learn what it came to.
func (c *cards) charge(ctx context.Context, r charge) (declined string, err error) {
	switch {
	case r.Card == blockedCard:
		declined = "the card is blocked"
	case !c.now().Before(r.Before):
		declined = "it is too late"
	}
	_, err = c.db.ExecContext(ctx, `
		insert into charges (key, card, amount, declined) values (?, ?, ?, ?)
		on conflict (key) do nothing`, r.Key, r.Card, r.Amount, declined)
	if err != nil {
		return "", err
	}
	first := charge{Key: r.Key, Before: r.Before}
	err = c.db.QueryRowContext(ctx, `select card, amount, declined from charges where key = ?`, r.Key).
		Scan(&first.Card, &first.Amount, &declined)
	if err == nil && first != r {
		err = errors.New("card company: the key was used for another charge")
	}
	return declined, err
}

// refund pays back a part of a charge, or all, once: there is one refund to a charge, however often it is
// asked for. It cannot be undone.
func (c *cards) refund(ctx context.Context, key uuid.UUID, amount int64) error {
	done, err := c.db.ExecContext(ctx, `
		update charges set refunded = ?1 where key = ?2 and declined = '' and refunded in (0, ?1)`, amount, key)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("card company: no charge %v of which to refund that much: %w", key, errors.Join(err, sql.ErrNoRows))
	}
	return nil
}

// earned is what the host got from a charge; 0 if there is none.
func (c *cards) earned(ctx context.Context, key uuid.UUID) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `
		select coalesce(sum(amount - refunded), 0) from charges where key = ? and declined = ''`, key).Scan(&amount)
	return amount, err
}

// total is what the host got from all charges.
func (c *cards) total(ctx context.Context) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `select coalesce(sum(amount - refunded), 0) from charges where declined = ''`).Scan(&amount)
	return amount, err
}
