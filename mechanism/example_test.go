package mechanism_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Of 1,000 people 507 said yes. With seven fewer there would be no majority, so that six steps lead
// to the boundary.
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

// A question is answered at ε = 0.5, and later, for a better price, at ε = 2. Both answers cost 2,
// not 2.5. An answer at ε = 1 for another buyer is then free. The dataset is so far from the
// boundary that each is wrong with a probability below 10⁻⁴².
func ExampleSampler_Raise() {
	query, err := mechanism.ParseQuery("majority:yes", []string{"no", "yes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	place, err := query.PlaceAddRemove([]int64{400, 600})
	if err != nil {
		fmt.Println(err)
		return
	}
	half, _ := privacy.ParseEpsilon("0.5")
	one, _ := privacy.ParseEpsilon("1")
	two, _ := privacy.ParseEpsilon("2")
	s := new(mechanism.Sampler)
	first, err1 := s.Raise(mechanism.Score{}, half, place)
	second, err2 := s.Raise(first, two, place)
	between, err3 := s.Between(first, second, one)
	fmt.Println(first.Output(), second.Output(), between.Output(), errors.Join(err1, err2, err3))
	// Output: 1 1 1 <nil>
}
