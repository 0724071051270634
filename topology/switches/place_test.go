package switches

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newRand returns numbers that are the same in each run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// read reads a network in one of the two forms.
func (l *lab) read(t testing.TB, rng *rand.Rand) *Fabric {
	t.Helper()
	text := l.text(rng)
	if rng.IntN(2) == 0 {
		text = l.report(rng)
	}
	f, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Read: %v\n%s", err, text)
	}
	return f
}

func TestPlaceRacks(t *testing.T) {
	l := racks(2, 3, 8, 4)
	r := Place([]*Fabric{l.read(t, newRand(1))}, l.nodes(), nil)
	want := map[string][]string{}
	for _, n := range []string{"r1n1", "r1n2", "r1n3"} {
		want[n] = []string{"leaf-2c5eab0300000500", "spine-2c5eab0300000100"}
	}
	for _, n := range []string{"r2n1", "r2n2", "r2n3"} {
		want[n] = []string{"leaf-2c5eab0300002500", "spine-2c5eab0300000100"}
	}
	if diff := cmp.Diff(want, r.Tiers); diff != "" {
		t.Errorf("tiers (-want +got):\n%s", diff)
	}
	if len(r.Unplaced) > 0 {
		t.Errorf("unplaced: %v", r.Unplaced)
	}
}
