package mechanism_test

import (
	"fmt"
	"log"

	"github.com/sluicedp/sluice/mechanism"
)

// Of 1,000 people 507 said yes. With seven fewer there would be no majority, so that six steps lead to
// the boundary.
func ExampleQuery_Place() {
	values := []string{"yes", "no"}
	query, err := mechanism.ParseQuery("majority:yes", values)
	if err != nil {
		log.Fatal(err)
	}
	place, err := query.Place([]int64{507, 493})
	if err != nil {
		log.Fatal(err)
	}
	answers, err := query.Answers(values)
	if err != nil {
		log.Fatal(err)
	}
	z, _ := place.Position()
	fmt.Println(answers[place.Color()], place.Distance, z)
	// Output: yes 6 6
}
